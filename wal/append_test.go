package wal

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// failing is a hook that fails calls of one kind to files of the log while it is armed.
type failing struct {
	armed atomic.Bool
	op    string
}

func (f *failing) hook(op vfs.Op) error {
	if f.armed.Load() && op.Name == f.op && strings.Contains(op.Path, "wal/0") {
		return errInjected
	}
	return nil
}

func TestAFailureFailsEveryWaiterAndAllThatFollows(t *testing.T) {
	for _, op := range []string{"writeat", "sync"} {
		t.Run(op, func(t *testing.T) {
			g, broken := newGate(), &failing{op: op}
			disk := memory.New()
			var poisoned []error
			o := smallOptions(vfs.Inject(disk, func(op vfs.Op) error { return errors.Join(g.hook(op), broken.hook(op)) }))
			o.OnPoison = func(err error) { poisoned = append(poisoned, err) }
			l := openLog(t, o)
			appendEach(t, l, testFrames(1, 3)...)

			// Frame 4 is durable, or fails in its own sync; the others gather behind it in several groups.
			g.set(true)
			tickets := []*Ticket{l.Append(testFrame(4))}
			g.await()
			for sequence := uint64(5); sequence <= 40; sequence++ {
				tickets = append(tickets, l.Append(testFrame(sequence)))
			}
			broken.armed.Store(true)
			g.set(false)
			failed := 0
			for _, ticket := range tickets {
				if err := ticket.Wait(); err != nil {
					failed++
					wantErrors(t, "waiter", err, ErrOutcomeUnknown, ErrPoisoned, errInjected)
				}
			}
			if want := map[string]int{"writeat": 36, "sync": 37}[op]; failed != want {
				t.Errorf("got %d failed frames, want %d", failed, want)
			}
			synced := l.SyncedSequence()
			if want := uint64(40 - failed); synced != want {
				t.Errorf("synced sequence: got %d, want %d", synced, want)
			}

			// The disk recovers, the log doesn't.
			broken.armed.Store(false)
			syncs := g.syncs
			wantErrors(t, "append", l.Append(testFrame(41)).Wait(), ErrPoisoned, errInjected)
			wantErrors(t, "room", l.Room(1), ErrPoisoned, errInjected)
			wantErrors(t, "trim", l.Trim(2), ErrPoisoned, errInjected)
			wantErrors(t, "start at", l.StartAt(99), ErrNotEmpty)
			wantErrors(t, "close", l.Close(), ErrPoisoned, errInjected)
			if g.syncs != syncs || l.SyncedSequence() != synced {
				t.Errorf("%d syncs after the failure, synced sequence %d", g.syncs-syncs, l.SyncedSequence())
			}
			if len(poisoned) != 1 || !errors.Is(poisoned[0], ErrPoisoned) {
				t.Errorf("OnPoison: got %v, want one call", poisoned)
			}
			if err := verify(disk, smallOptions(nil), synced, 0); err != nil {
				t.Errorf("after a restart: %v", err)
			}
		})
	}
}

func wantErrors(t *testing.T, what string, got error, want ...error) {
	t.Helper()
	for _, err := range want {
		if !errors.Is(got, err) {
			t.Errorf("%s: got %v, want %v", what, got, err)
		}
	}
}

func TestAppendAfterCloseIsRefused(t *testing.T) {
	l := openLog(t, smallOptions(memory.New()))
	last := l.Append(testFrame(1))
	closeLog(t, l)
	closeLog(t, l)
	if err := last.Wait(); err != nil {
		t.Errorf("frame from before Close: %v", err)
	}
	wantErrors(t, "append", l.Append(testFrame(2)).Wait(), ErrClosed)
	wantErrors(t, "trim", l.Trim(1), ErrClosed)
	if got := l.Stats().LastSequence; got != 1 {
		t.Errorf("last sequence: got %d, want 1", got)
	}
}

func TestASequenceOutOfOrderIsABug(t *testing.T) {
	l := openLog(t, smallOptions(memory.New()))
	appendEach(t, l, testFrame(1))
	for _, sequence := range []uint64{0, 1, 3} {
		func() {
			defer func() {
				if recovered := recover(); recovered == nil || !strings.HasPrefix(recovered.(string), "BUG: ") {
					t.Errorf("frame %d: recovered %v, want a BUG", sequence, recovered)
				}
			}()
			l.Append(Frame{Sequence: sequence})
		}()
	}
	appendEach(t, l, testFrame(2))
}

// countSyncs checks that no frame is acknowledged before a sync that began after it was handed over.
func countSyncs(l *Log, syncs *atomic.Int64, frames []Frame) (missing int, err error) {
	for _, f := range frames {
		before := syncs.Load()
		if err := l.Append(f).Wait(); err != nil {
			return 0, err
		}
		if syncs.Load() == before {
			missing++
		}
	}
	return missing, nil
}

func TestEveryAcknowledgementHasASync(t *testing.T) {
	for name, want := range map[string]int{"real log": 0, "control that skips every second sync": 50} {
		t.Run(name, func(t *testing.T) {
			var all, done atomic.Int64
			count := func(op vfs.Op) error {
				if op.Name == "sync" && strings.Contains(op.Path, "wal/0") {
					done.Add(1)
				}
				return nil
			}
			fsys := vfs.Inject(memory.New(), count)
			if want > 0 {
				fsys = skippingFS{fsys, &all}
			}
			o := smallOptions(fsys)
			o.FileBytes = 1 << 18 // one file: a trailer has a sync too
			l := openLog(t, o)
			done.Store(0)
			all.Store(0)
			missing, err := countSyncs(l, &done, testFrames(1, 100))
			if err != nil || missing != want {
				t.Errorf("got %d acknowledgements without a sync, %v, want %d", missing, err, want)
			}
		})
	}
}

// skippingFS makes every second Sync do nothing.
type skippingFS struct {
	vfs.FS
	syncs *atomic.Int64
}

func (f skippingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return skippingFile{file, f.syncs}, err
}

type skippingFile struct {
	vfs.File
	syncs *atomic.Int64
}

func (f skippingFile) Sync() error {
	if f.syncs.Add(1)%2 == 0 {
		return nil
	}
	return f.File.Sync()
}

func TestManyWritersShareSyncs(t *testing.T) {
	const writers, each = 64, 20
	var mu sync.Mutex
	changed := sync.NewCond(&mu)
	running := uint64(writers)
	var l *Log
	// A slow disk: a sync ends when every writer has a frame that is not durable.
	slow := func(op vfs.Op) error {
		if op.Name == "sync" && strings.Contains(op.Path, "wal/0") {
			mu.Lock()
			defer mu.Unlock()
			for l.LastSequence()-l.SyncedSequence() < running {
				changed.Wait()
			}
		}
		return nil
	}
	o := smallOptions(vfs.Inject(memory.New(), slow))
	o.FileBytes = 1 << 19
	l = openLog(t, o)
	a := &appender{log: l}
	changes := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		change()
		changed.Broadcast()
	}
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				var ticket *Ticket
				changes(func() { ticket = a.append([]byte("payload")) })
				if err := ticket.Wait(); err != nil {
					t.Error(err)
				}
			}
			changes(func() { running-- })
		})
	}
	group.Wait()
	stats := l.Stats()
	if stats.Frames != writers*each || stats.Fsyncs*4 > stats.Frames {
		t.Errorf("got %d fsyncs for %d frames, want at most a quarter", stats.Fsyncs, stats.Frames)
	}
}

func TestAppendAllocatesNothingPerFrame(t *testing.T) {
	g := newGate()
	o := smallOptions(vfs.Inject(memory.New(), g.hook))
	o.FileBytes = 1 << 18
	l := openLog(t, o)
	payload := make([]byte, 16)
	sequence := uint64(0)
	burst := func() {
		for range 200 {
			sequence++
			l.Append(Frame{Sequence: sequence, Payload: payload})
		}
	}
	g.set(true)
	allocations := testing.AllocsPerRun(3, burst)
	g.set(false)
	if perFrame := allocations / 200; perFrame > 0.2 {
		t.Errorf("got %.2f allocations per frame", perFrame)
	}
}
