package pagecache

import "sync/atomic"

// gate keeps calls into ristretto apart from its Close: a Set, Del, Wait or Get beside Close may send on a closed
// channel, and a Wait may block for ever. It is no lock: those inside never wait for one another.
type gate struct {
	inside atomic.Int64 // calls inside, plus gateShut from shut on
	empty  chan struct{}
}

const gateShut = 1 << 62

func newGate() *gate { return &gate{empty: make(chan struct{}, 1)} }

// enter reports whether the caller may go on; then it must leave.
func (g *gate) enter() bool {
	if g.inside.Add(1) < gateShut {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.inside.Add(-1) != gateShut {
		return
	}
	select {
	case g.empty <- struct{}{}:
	default:
	}
}

// shut lets nobody in any more and returns when all have left. It is called once.
func (g *gate) shut() {
	if g.inside.Add(gateShut) != gateShut {
		<-g.empty
	}
}

func (g *gate) isShut() bool { return g.inside.Load() >= gateShut }
