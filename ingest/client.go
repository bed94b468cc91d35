package ingest

import (
	"math"
	"net"
	"net/http"
	"sync/atomic"
)

// clientOf names the client that a write counts as when writes wait for room: the token, or without tokens the address.
func clientOf(r *http.Request) string {
	if rights := rightsOf(r.Context()); rights.Token != "" {
		return rights.Token
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// needs is the fading mean of what bodies need in memtables for a byte on the wire, so that a body counts with its size
// before it is read. The zero value expects needDefault.
type needs struct{ bits atomic.Uint64 }

const (
	// needDefault is what short lines need at worst, before any body told.
	needDefault = 2
	// needMemory is how much of the mean one more body leaves. Where two bodies meet, one of them may not count.
	needMemory = 0.95
)

func (n *needs) ratio() float64 {
	if bits := n.bits.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return needDefault
}

// note takes in what one body of wireBytes needs.
func (n *needs) note(needBytes int64, wireBytes int) {
	if wireBytes == 0 || needBytes == 0 {
		return
	}
	ratio := float64(needBytes) / float64(wireBytes)
	n.bits.Store(math.Float64bits(n.ratio()*needMemory + ratio*(1-needMemory)))
}

// of is what a body of that length is expected to need.
func (n *needs) of(wireBytes int64) int64 { return int64(float64(wireBytes) * n.ratio()) }
