package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Terms of the memory that do not follow from the configuration; ARCHITECTURE.md, Memory, has them all.
const (
	flushWritersBytes    = 4 * 12 << 20 // idle writers of flushes
	compactionInputBytes = 64 << 20
	connectionBytes      = 20 << 10
	programBytes         = 64 << 20 // code, stacks, and what the runtime needs
	frozenMax            = 1
)

// statedMemory is the sum of what ARCHITECTURE.md states for a configuration and so many connections.
func (f *flatForm) statedMemory() int64 {
	cache := f.tierBytes + f.tierBytes/16
	memtables := int64(shards) * f.memtableBytes * (1 + frozenMax)
	flush := int64(shards)*f.memtableBytes + flushWritersBytes
	compaction := int64(compactionInputBytes) + f.tierBytes/4
	connections := int64(f.slowClients+f.writers) * connectionBytes
	return f.inFlightBytes + cache + memtables + flush + compaction + connections + programBytes
}

// measureMemory loads a server from all sides at once: writers flat out with nothing limiting the drain, and clients
// whose bodies come a few bytes at a time.
func measureMemory(ctx context.Context, b *bench) (*outcome, error) {
	flat := &b.form.flat
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	stated := flat.statedMemory()
	configured := serverSettings(flat.tierBytes, flat.memtableBytes,
		"http.max_body_bytes=4MB",
		fmt.Sprintf("http.in_flight_bytes=%dKiB", flat.inFlightBytes>>10),
		fmt.Sprintf("http.max_connections=%d", 2*(flat.slowClients+flat.writers)),
		fmt.Sprintf("memtable.frozen_max=%d", frozenMax))
	configured.memoryLimit = stated - programBytes
	err := b.with(ctx, configured, false, func(s *server) error {
		slow := startSlowClients(ctx, s.url, flat.slowClients)
		defer slow.stop()
		o := b.flatOut(s, flat.batch)
		o.Pace.Writers, o.Pace.Duration = flat.writers, flat.run
		report, err := b.load(ctx, o)
		if err != nil {
			return err
		}
		if report.Server == nil {
			return errors.New("the memory of the server can't be had")
		}
		out.goodput["flat out"] = goodputOf(report)
		out.figures = Figures{
			"peak_memory_bytes": float64(report.Server.PeakMemoryBytes), "stated_memory_bytes": float64(stated),
			"slow_clients_at_once": float64(slow.most.Load()),
			"slow_clients_cut_off": float64(slow.ended.Load()),
			"points_per_second":    float64(report.Totals.Acknowledged) / report.Run.Seconds,
			"refusals":             float64(report.Totals.Refusals),
			"server_cores":         report.Server.CPUSeconds / report.Run.Seconds,
			"admitted_p99_seconds": report.Admitted.P99,
			"slow_clients_wanted":  float64(flat.slowClients),
			"failures":             float64(report.Totals.Failures),
			"gomemlimit_bytes":     float64(configured.memoryLimit),
		}
		return nil
	})
	return out, err
}

// slowClients hold connections with bodies that hardly come.
type slowClients struct {
	cancel  context.CancelFunc
	clients sync.WaitGroup
	now     atomic.Int64 // connected
	most    atomic.Int64
	ended   atomic.Int64 // by the server
}

func startSlowClients(ctx context.Context, url string, count int) *slowClients {
	ctx, cancel := context.WithCancel(ctx)
	s := &slowClients{cancel: cancel}
	address := strings.TrimPrefix(url, "http://")
	for range count {
		s.clients.Go(func() {
			for ctx.Err() == nil {
				if s.trickle(ctx, address) != nil {
					s.ended.Add(1)
				}
				wait(ctx, slowInterval)
			}
		})
	}
	return s
}

func (s *slowClients) stop() {
	s.cancel()
	s.clients.Wait()
}

// A slow client sends a few bytes at a time of a body that it says to be long.
const (
	slowInterval  = 250 * time.Millisecond
	slowBodyBytes = 60_000
	slowLine      = "slow,client=yes level=1\n"
)

// trickle returns an error when the server ends the connection.
func (s *slowClients) trickle(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: askLimit}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer connection.Close()
	unhook := context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Now()) })
	defer unhook()
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	_, err = fmt.Fprintf(connection, "POST /write?db=slow HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n",
		address, slowBodyBytes)
	for sent := 0; err == nil && ctx.Err() == nil && sent+len(slowLine) < slowBodyBytes; sent += len(slowLine) {
		wait(ctx, slowInterval)
		_, err = connection.Write([]byte(slowLine))
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// wait returns early when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
