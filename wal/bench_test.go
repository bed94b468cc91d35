package wal

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"lineweir/internal/vfs"
)

// benchmarkPayloadBytes is what S2 makes of a request with 1,000 TSBS lines.
const benchmarkPayloadBytes = 64 << 10

func benchmarkOptions(b *testing.B) Options {
	return Options{FS: vfs.OS, Dir: b.TempDir(), FileBytes: 64 << 20, MaxBytes: 4 << 30}
}

// appender hands out sequences and appends under one lock, as the commit of a batch does.
type appender struct {
	mu  sync.Mutex
	log *Log
}

func (a *appender) append(payload []byte) *Ticket {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.Append(Frame{Sequence: a.log.LastSequence() + 1, Type: 1, Payload: payload})
}

func BenchmarkAppendSync(b *testing.B) {
	for _, writers := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			l := openLog(b, benchmarkOptions(b))
			a := &appender{log: l}
			payload := make([]byte, benchmarkPayloadBytes)
			b.ReportAllocs()
			b.SetBytes(benchmarkPayloadBytes)
			turns := make(chan struct{})
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					for range turns {
						if err := a.append(payload).Wait(); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for turn := 0; b.Loop(); turn++ {
				turns <- struct{}{}
				if turn%4096 == 4095 {
					if err := l.Trim(l.SyncedSequence()); err != nil {
						b.Fatal(err)
					}
				}
			}
			close(turns)
			group.Wait()
			stats := l.Stats()
			b.ReportMetric(float64(stats.Frames)/float64(stats.Groups), "frames/group")
			b.ReportMetric(float64(stats.FsyncTime.Microseconds())/float64(stats.Fsyncs), "µs/fsync")
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	o := benchmarkOptions(b)
	l := openLog(b, o)
	payload := make([]byte, benchmarkPayloadBytes)
	const frames = 4096
	var last *Ticket
	for sequence := range uint64(frames) {
		last = l.Append(Frame{Sequence: sequence + 1, Payload: payload})
	}
	if err := last.Wait(); err != nil {
		b.Fatal(err)
	}
	closeLog(b, l)
	b.ReportAllocs()
	b.SetBytes(frames * benchmarkPayloadBytes)
	for b.Loop() {
		l, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Replay(0, func(Frame) error { return nil }); err != nil {
			b.Fatal(err)
		}
		closeLog(b, l)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		b.Fatal(err)
	}
}
