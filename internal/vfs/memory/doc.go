// Package memory is a file system in memory that can crash, for tests.
//
// FS keeps two states: the live one, which every call sees, and the durable one, which File.Sync and SyncDir bring up
// to date. CrashClone answers what a machine finds after a power cut: the durable state and a random share of what
// came after it. Of a file that is any subset of the changed sectors and either length; of a directory it is the
// changes up to a random one, in the order in which they were made.
//
// What it does not model: a torn sector, and a disk that lies about Sync.
package memory
