//go:build !linux

package vfs

import "os"

// datasync is F_FULLFSYNC on darwin and FlushFileBuffers on windows, which also empty the drive's cache.
func datasync(file *os.File) error { return file.Sync() }
