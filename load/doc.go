// Package load writes line protocol to a server at a known pace and measures what the server does about it, above all
// when it is full. It talks HTTP only, so that it measures any server with an InfluxDB write API the same way.
//
// # The way of one batch
//
// A shape or a file yields lines, which are gathered into the bodies of a corpus before the run begins. The plan
// numbers the batches: batch i is body i mod n of the corpus, with its times shifted by the rounds that lie behind it,
// and it is due when the points before it have been offered at the rate of the profile. Batch i belongs to client i mod
// m. A client shifts the times of its next body while the last one is on its way, waits for the due time, and sends.
// The answer is recorded with the time that has passed since the intended send time, as counted below; a refused batch
// comes back, or doesn't, as the policy says. In the end the collector's counts become a Report, which is printed, kept
// as JSON, or shown as a page.
//
// # Intended send time
//
// A client that waits for a slow answer is late for its next batch. Measured from the moment it sends, the wait would
// not show in what it missed; that is coordinated omission. So an attempt counts from the moment it should have been
// sent:
//
//   - the first attempt of a batch counts from its due time;
//   - an attempt after a refusal counts from the moment the client was to come back;
//   - batches that fell due while a refusal held the client back, and those that queue behind them in its buffer,
//     count from the moment the attempt before them ended. The server told the client to wait, and it does so in order.
//     What was late already when the refusal came stays as late as it was then.
//
// Nothing else excuses lateness: not timeouts, not connections that break. Age, which is measured too, has no
// exception: it lies between the due time of a batch and its acknowledgement.
//
// Without a rate the loop is closed: each client sends when its last batch was answered, and the intended time is the
// moment of sending.
//
// # What is bounded
//
// Options.MemoryBytes bounds the corpus, the buffers of clients and what verification keeps; a workload that does not
// fit is refused before the run. Runs end by themselves.
//
// # What it does not do
//
// It starts no server and changes none. Reading back needs lineweir's /api/scan. That scan merges, so a point that is
// stored twice below the merge is not seen as double here.
package load
