package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// share is how much of what was not synced a power cut leaves, of files and of directories.
type share int

const (
	nothing share = iota
	everythingWritten
	// anyShare and what follows it leave, of each directory, a part of its changes in their order, and of each file any
	// of the sectors and either length. Each is another seed.
	anyShare
)

func (s share) String() string {
	return [...]string{"nothing", "everything", "a random share"}[min(s, anyShare)]
}

// crashOf is what a power cut leaves of the disk now.
func crashOf(disk *memory.FS, s share, seed uint64) *memory.FS {
	switch s {
	case nothing:
		return disk.CrashClone(rand.New(keepNothing{}))
	case everythingWritten:
		return disk.CrashClone(rand.New(&keepAll{left: keepAllDraws}))
	}
	return disk.CrashClone(rand.New(rand.NewPCG(seed, 7)))
}

// keepNothing makes rand.Float64 return 0, and rand.IntN(n) too, for n below 2048.
type keepNothing struct{}

func (keepNothing) Uint64() uint64 { return 1 << 53 }

// keepAll makes rand.IntN(n) return n-1, and rand.Float64 numbers close to 1, each lower than the one before: what is
// kept with a probability that was drawn first is always kept.
type keepAll struct{ left uint64 }

const keepAllDraws = 1<<12 - 1

func (k *keepAll) Uint64() uint64 {
	if k.left > 0 {
		k.left--
	}
	return ^uint64(keepAllDraws<<20) | k.left<<20
}

func TestACrashLeavesTheShareThatIsAskedFor(t *testing.T) {
	for s, want := range map[share]map[string]string{
		nothing:           {"/a": strings.Repeat("old-", 300), "/gone": ""},
		everythingWritten: {"/a": strings.Repeat("new-", 900), "/b": "b", "/c": "c"},
	} {
		disk := memory.New()
		write := func(name, text string) vfs.File {
			file, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteAt([]byte(text), 0); err != nil {
				t.Fatal(err)
			}
			return file
		}
		err := errors.Join(write("/a", want["/a"]).Truncate(0), write("/a", strings.Repeat("old-", 300)).Sync(),
			write("/gone", "").Sync(), disk.SyncDir("/"))
		write("/a", strings.Repeat("new-", 900))
		write("/b", "b")
		write("/d", "c")
		if err := errors.Join(err, disk.Rename("/d", "/c"), disk.Remove("/gone")); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		clone := crashOf(disk, s, 0)
		entries, err := clone.ReadDir("/")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			data, err := vfs.ReadFile(clone, "/"+entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			got["/"+entry.Name()] = string(data)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s of what was not synced (-want +got):\n%s", s, diff)
		}
	}
}

// powerCut is what is found after the power went at one moment.
type powerCut struct {
	number int    // of the call before which it went
	op     vfs.Op // the call
	share  share
	disk   *memory.FS
	record *record
}

// newPowerCut copies disk and record. What the writers were told is that of before, and requests that began meanwhile
// are known.
func newPowerCut(w *work, number int, op vfs.Op, s share) *powerCut {
	c := &powerCut{number: number, op: op, share: s}
	told := w.record.copy()
	c.disk = crashOf(w.disk, s, uint64(number)<<8|uint64(s))
	c.record = w.record.copy()
	for i := len(told.requests); i < len(c.record.requests); i++ {
		c.record.requests[i].outcome = unknown
	}
	copy(c.record.requests, told.requests)
	return c
}

func (c *powerCut) verify() error {
	if err := verify(c.disk, c.record, 2); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

func (c *powerCut) String() string {
	return fmt.Sprintf("power cut before call %d, %s of %s, which leaves %s of what was not synced",
		c.number, c.op.Name, c.op.Path, c.share)
}
