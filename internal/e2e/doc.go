// Package e2e tests the lineweir binary from outside, as its users meet it. It holds tests only.
//
// The way of one test: build the binary once per test process, start it on a free loopback port with a data directory
// of its own, drive it with real clients (Telegraf, curl, DuckDB, Chromium, or plain HTTP) and judge it by what its
// interface answers and what its files hold. A server, like every other child, is ended by its process id before its
// test ends.
//
// Tools that a machine may lack are asked for by name: without the tool its test is skipped, and fails where the
// environment variable LINEWEIR_REQUIRE (names joined by commas: telegraf, duckdb, curl, chromium, clients, fuse)
// names it. Mounting takes root, /dev/fuse, loop devices and mkfs.ext4: all that is fuse.
//
// Disks that fail are children of the test binary itself (roles_linux_test.go) that serve a file system through FUSE:
// a disk with a volatile cache below a real ext4, whose power is cut, or the files of a directory, with faults.
//
// What it does not do: it imports no package of the product, replaces nothing inside it, and does not run under the
// race detector, which would not see into the child processes.
package e2e
