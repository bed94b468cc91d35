// Package ingest is the HTTP side of writing: it speaks the write APIs of InfluxDB 1, 2 and 3, turns line protocol into
// batches, and answers what became of them. It also serves what operators and probes ask for.
//
// The way of one write: the connection has a place below the limit; the token says what the client may do (package
// internal/auth knows the tokens); the route and the parameters say which database and precision; a request that no
// body could save is refused unread. Otherwise the body is read whole into a pooled buffer, bounded on the wire and
// again after decompression, and counted against a budget that all requests share. The text becomes a shard.Batch; bad
// lines are noted, good ones are kept. The batch is admitted, encoded as the payload of a frame, and written by the
// engine; if another write changed the schema meanwhile, the text is parsed again. Then batch, buffers and budget are
// given back, once, whatever happened, and the client gets its answer: 204 when every line is durable, 400 with the
// first bad lines when some were refused, 503 with a Retry-After when nothing was kept.
//
// Every request gets exactly one answer. Endpoints return a reply or an error and write nothing; one function maps
// errors to statuses, one writes the answer. The only exception is a scan, which streams its own rows.
//
// A panic becomes an answer, except between the commit of a batch and the end of its apply: there the process ends,
// because memory and log would disagree from then on.
//
// # Ownership
//
// A request owns its buffers, its batch and its claim on the budget. The text must outlive the batch until the engine
// has written it. The payload is the engine's only until Write returns.
//
// # Clients
//
// Routes say what they need, in one table, and a guard asks for it before an endpoint runs. Slow clients hold what they
// have sent and no more: a body has a deadline that its bytes move, an answer has one too, and connections beyond the
// limit are answered 503 instead of closed. Over TLS, HTTP/2 is served by the same handlers.
//
// The package does not decide what is admitted (package shard), does not read points back (package query), and holds no
// state of its own beside metrics, pools and the history: a sample of the main figures for each of the last 900
// seconds, for the plots of the status page (package web), which it serves without knowing it.
package ingest
