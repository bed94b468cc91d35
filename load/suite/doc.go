// Package suite shows what lineweir does when it is full: it starts fresh servers, loads each with one scenario, and
// judges the figures by a table of gates.
//
// # The way of one figure
//
// Run starts the given binary for each scenario, as a child on a free loopback port with a data directory of its own,
// and sets the drain by PUT /api/compaction: the tier, not the CPU, is then the bottleneck. The scenario loads the
// server through package load and turns reports and status into Figures, which have names. The gates (gate.go) are the
// claims with their bounds on figures; a figure that is missing is a gate missed. In the end the server is stopped by
// its process id and its directory removed. A Record keeps the figures of one scenario as JSON; WriteBenchmarks makes
// a document of records and of reports of other servers.
//
// # What is measured first
//
// The rates of most scenarios are multiples of the sustainable maximum: what a closed loop is answered, once the tier
// has reached its soft limit, over many compactions (the two phases of Luo and Carey, On Performance Stability in
// LSM-based Storage Systems, PVLDB 13(4): first the maximum, then latency at an open loop below it).
//
// # The short form
//
// Its scenarios last some seconds, its tier is small, and only those gates are judged that a busy machine can't spoil:
// the bound, memory, what was acknowledged. The others show their figures.
//
// # What it does not do
//
// It loads no server that it has not started, and imports only package load: what it knows of a server, it learns over
// HTTP, from /proc, or from lineweir check.
package suite
