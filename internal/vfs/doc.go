// Package vfs is the seam between lineweir and the file system.
//
// Everything that must survive a crash goes through an FS, so that tests can fail, count or reorder single calls.
// OS is the real one. Inject wraps any FS with a hook that sees each call before it is made and may fail it.
//
// The interface names what durability needs and nothing more: data is durable after File.Sync returned nil, a name is
// durable after SyncDir of its directory returned nil. Callers own the files they open and close them. An FS is safe
// for concurrent use; of a File, ReadAt and WriteAt are.
//
// The package knows no formats and no retries: a failed Sync is reported once and the caller decides.
package vfs
