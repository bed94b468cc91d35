package load

import "errors"

// Errors before a run: nothing was sent.
var (
	// ErrRemote says that the target is not on this machine and that this wasn't asked for.
	ErrRemote = errors.New("the target is not on this machine; --allow-remote loads it all the same")
	// ErrMemory says that the workload needs more memory than it may have.
	ErrMemory = errors.New("the workload does not fit into the memory it may use")
	// ErrUnreachable says that nothing answers at the target.
	ErrUnreachable = errors.New("the target does not answer")
	// errUnbegun says that the run was interrupted while it was prepared.
	errUnbegun = errors.New("interrupted before anything was sent")
)

// Errors after a run.
var (
	// ErrUnread says that what was acknowledged could not be read back, so that nothing is proven.
	ErrUnread = errors.New("verification is incomplete")
	// ErrUnsound says that the server does not hold exactly what it acknowledged.
	ErrUnsound = errors.New("the server does not hold exactly what it acknowledged")
)

// ErrReport says that a file holds no report that can be read.
var ErrReport = errors.New("this is no report of lineweir load")
