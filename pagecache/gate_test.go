package pagecache

import (
	"testing"
	"testing/synctest"
)

func TestGateShutsWhenTheLastHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		for range 2 {
			if !g.enter() {
				t.Fatal("an open gate lets nobody in")
			}
		}
		isShut := false
		go func() {
			g.shut()
			isShut = true
		}()
		for _, step := range []string{"two inside", "one inside"} {
			synctest.Wait()
			if isShut {
				t.Errorf("shut with %s", step)
			}
			if g.enter() {
				t.Errorf("somebody entered after shut, with %s", step)
			}
			g.leave()
		}
		synctest.Wait()
		if !isShut || g.enter() {
			t.Error("the gate isn't shut when the last has left")
		}
	})
}

func TestAnEmptyGateShutsAtOnce(t *testing.T) {
	g := newGate()
	if g.isShut() {
		t.Error("a new gate is shut")
	}
	g.shut()
	if g.enter() || !g.isShut() {
		t.Error("the gate isn't shut")
	}
}
