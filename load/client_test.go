package load

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeServer answers by a script, in fake time.
type fakeServer struct {
	answer func(at time.Duration, number int) (took time.Duration, a answer)
	run    *run

	mu   sync.Mutex
	sent []time.Duration // when each attempt began
}

func (s *fakeServer) send(ctx context.Context, _ []byte) answer {
	at := time.Since(s.run.started)
	s.mu.Lock()
	s.sent = append(s.sent, at)
	number := len(s.sent)
	s.mu.Unlock()
	took, a := s.answer(at, number)
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return a
	case <-ctx.Done():
		return failed(context.Cause(ctx))
	}
}

func (*fakeServer) close() {}

var (
	taken = answer{outcome: acknowledged, status: 204}
	full  = answer{outcome: refused, status: 503, cause: "l0_full", retryAfter: time.Second, told: true}
)

// simulate runs the clients against a fake server in a bubble of fake time.
func simulate(
	t *testing.T, o Options, script func(at time.Duration, number int) (time.Duration, answer),
) (*Report, *fakeServer) {
	t.Helper()
	return simulateUntil(t.Context(), t, o, script)
}

// simulateUntil is simulate with an interrupt.
func simulateUntil(
	ctx context.Context, t *testing.T, o Options, script func(at time.Duration, number int) (time.Duration, answer),
) (*Report, *fakeServer) {
	t.Helper()
	r := &run{options: &o, corpus: mustCorpus(t, o.Workload, corpusOptions{bytesMax: 50_000})}
	var err error
	if r.maker, err = newBodyMaker(r.corpus, false); err != nil {
		t.Fatal(err)
	}
	server := &fakeServer{answer: script, run: r}
	r.connect = func(int) sender { return server }
	r.plan = newPlan(r.corpus, &o.Pace)
	r.collect = newCollector(r.plan, o.Pace.Writers, true)
	r.report = newReport(&o, r.corpus)
	r.drive(ctx)
	return r.report, server
}

// oneClient sends 100 batches a second.
func oneClient(duration time.Duration) Options {
	o := smallOptions("")
	o.Pace = Pace{Writers: 1, Rate: 1000, Duration: duration}
	return o
}

// TestAStandstillIsSeen is the test against coordinated omission: the server takes a millisecond, but stands still for
// a second. Only one request meets the standstill; the 100 that were due meanwhile must all show it.
func TestAStandstillIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, _ := simulate(t, oneClient(5*time.Second), func(at time.Duration, _ int) (time.Duration, answer) {
			if at >= 2*time.Second && at < 3*time.Second {
				return 3*time.Second - at + time.Millisecond, taken
			}
			return time.Millisecond, taken
		})
		if got := report.Admitted; got.P99 < 0.9 || got.Max < 1 || got.P50 > 0.01 || got.Count != 500 {
			t.Errorf("got %+v, want 500 times with p99 of at least 0.9 s", got)
		}
		if report.Totals.Offered != 5000 || report.Totals.Acknowledged != 5000 || report.Totals.Late != 0 {
			t.Errorf("got %+v", report.Totals)
		}
		want := []int64{1000, 1000, 0, 2000, 1000} // what stood still came in the next second
		var got []int64
		for _, second := range report.Seconds {
			got = append(got, second.Acknowledged/1000*1000)
		}
		if diff := cmp.Diff(want, got[:5]); diff != "" {
			t.Errorf("acknowledged per second, in thousands (-want +got):\n%s", diff)
		}
	})
}

// A server that never answers is late with everything, also with what is never sent.
func TestASilentServerLeavesLateBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, server := simulate(t, oneClient(2*time.Second), func(time.Duration, int) (time.Duration, answer) {
			return 3 * time.Second, answer{outcome: unknown, cause: "timeout"}
		})
		if len(server.sent) != 1 || report.Totals.Late != 1990 || report.Totals.GivenUp != 10 {
			t.Errorf("%d sent, %+v", len(server.sent), report.Totals)
		}
		if len(report.Warnings) != 1 {
			t.Errorf("got the warnings %q", report.Warnings)
		}
	})
}

// TestARefusedClientWaitsInOrder follows a client that is refused once at 1 s for a second. What fell due meanwhile
// queues in its buffer, the oldest is dropped, and nothing counts as late that the client held back.
func TestARefusedClientWaitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(3 * time.Second)
		o.Refusals.Buffer = 20
		report, server := simulate(t, o, func(_ time.Duration, number int) (time.Duration, answer) {
			if number == 100 {
				return time.Millisecond, full
			}
			return time.Millisecond, taken
		})
		if got, want := server.sent[100]-server.sent[99], time.Second+time.Millisecond; got != want {
			t.Errorf("the client came back after %v, want %v", got, want)
		}
		want := Totals{
			Offered: 3000, Acknowledged: report.Totals.Acknowledged, AcknowledgedBytes: report.Totals.AcknowledgedBytes,
			Refused: 10, Overflowed: 3000 - report.Totals.Acknowledged, Batches: report.Totals.Acknowledged / 10,
			Admissions: report.Totals.Acknowledged / 10, Refusals: 1, Retries: 1, FirstReturns: 1, FirstReturnsAdmitted: 1,
		}
		if diff := cmp.Diff(want, report.Totals); diff != "" {
			t.Errorf("totals (-want +got):\n%s", diff)
		}
		// 100 batches fell due in the second; 20 were kept.
		if dropped := report.Totals.Overflowed / 10; dropped < 78 || dropped > 81 {
			t.Errorf("%d batches were dropped, want about 80", dropped)
		}
		if report.Admitted.Max > 0.002 {
			t.Errorf("an attempt took %v s: the wait was the server's wish", report.Admitted.Max)
		}
		if report.Age.Max < 1 {
			t.Errorf("the oldest batch was acknowledged after %v s, want at least 1", report.Age.Max)
		}
		if diff := cmp.Diff([]RetryAfterCount{{1, 1}}, report.RetryAfter); diff != "" {
			t.Errorf("Retry-After (-want +got):\n%s", diff)
		}
	})
}

// A refusal excuses what comes after it. What a standstill delayed before it stays late.
func TestARefusalDoesNotExcuseTheStandstillBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(5 * time.Second)
		o.Refusals.Buffer = 1000
		report, _ := simulate(t, o, func(_ time.Duration, number int) (time.Duration, answer) {
			if number == 100 {
				return time.Second, full
			}
			return time.Millisecond, taken
		})
		if got := report.Admitted; got.P99 < 0.9 || got.Max > 1.1 || report.Totals.Acknowledged != 5000 {
			t.Errorf("got %+v of %+v, want a p99 of about 1 s", got, report.Totals)
		}
	})
}

// Once a client has caught up, lateness counts again.
func TestCatchingUpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, _ := simulate(t, oneClient(5*time.Second), func(at time.Duration, number int) (time.Duration, answer) {
			if number == 10 {
				return time.Millisecond, full
			}
			if at >= 3*time.Second && at < 4*time.Second {
				return 4*time.Second - at, taken
			}
			return time.Millisecond, taken
		})
		if report.Admitted.P99 < 0.9 {
			t.Errorf("got %+v, want a p99 of at least 0.9 s", report.Admitted)
		}
	})
}

func TestPolicies(t *testing.T) {
	refusing := func(time.Duration, int) (time.Duration, answer) { return time.Millisecond, full }
	for _, test := range []struct {
		policy Policy
		want   Totals
	}{
		// 100 batches, each refused once.
		{Drop, Totals{Offered: 1000, Refused: 1000, Batches: 100, Refusals: 100}},
		// One batch, refused each 50 + 1 ms; the others wait behind it or are dropped.
		{Retry, Totals{
			Offered: 1000, Refused: 200, Batches: 1, Refusals: 20, Retries: 19, GivenUp: 10, HeldBack: 100,
			Overflowed: 890, FirstReturns: 1,
		}},
		// One batch, refused once before the end.
		{Obey, Totals{Offered: 1000, Refused: 10, Batches: 1, Refusals: 1, GivenUp: 10, HeldBack: 990}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := oneClient(time.Second)
			o.Refusals = Refusals{Policy: test.policy, Delay: 50 * time.Millisecond, Buffer: 10}
			report, _ := simulate(t, o, refusing)
			got := report.Totals
			if test.policy == Retry { // how often the buffer was looked at is no promise
				test.want.HeldBack, test.want.Overflowed = got.HeldBack, got.Overflowed
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.policy, diff)
			}
			sum := got.Acknowledged + got.Overflowed + got.HeldBack + got.GivenUp + got.Late
			if test.policy != Drop && sum != got.Offered {
				t.Errorf("%s: %d points are accounted for, want %d", test.policy, sum, got.Offered)
			}
		})
	}
}

func TestProfileIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(0)
		o.Pace.Profile = Profile{{0.5, time.Second}, {0, time.Second}, {2, time.Second}}
		report, _ := simulate(t, o, func(time.Duration, int) (time.Duration, answer) { return time.Millisecond, taken })
		var offered []int64
		for _, second := range report.Seconds {
			offered = append(offered, second.Offered)
		}
		if diff := cmp.Diff([]int64{500, 0, 2000}, offered); diff != "" {
			t.Errorf("offered per second (-want +got):\n%s", diff)
		}
		var steps []int64
		for _, step := range report.Steps {
			steps = append(steps, step.Acknowledged)
		}
		if diff := cmp.Diff([]int64{500, 0, 2000}, steps); diff != "" {
			t.Errorf("acknowledged per step (-want +got):\n%s", diff)
		}
	})
}

// Batches go to the clients in turn, so that each has the same demand.
func TestClientsShareTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(time.Second)
		o.Pace.Writers = 4
		report, _ := simulate(t, o, func(time.Duration, int) (time.Duration, answer) { return time.Millisecond, taken })
		want := ClientCounts{Offered: 250, Acknowledged: 250}
		if diff := cmp.Diff([]ClientCounts{want, want, want, want}, report.Clients); diff != "" {
			t.Errorf("clients (-want +got):\n%s", diff)
		}
		if report.Jain() != 1 {
			t.Errorf("got a fairness of %v, want 1", report.Jain())
		}
	})
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(time.Second)
		o.Pace.Rate = 0
		report, _ := simulate(t, o, func(time.Duration, int) (time.Duration, answer) {
			return 30 * time.Millisecond, taken
		})
		if report.Totals.Acknowledged != 340 || report.Totals.Offered != 340 || report.Admitted.Max != 0.03 {
			t.Errorf("got %+v %+v", report.Totals, report.Admitted)
		}
	})
}

func TestPointsEndARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(time.Hour)
		o.Pace.Rate, o.Pace.Points = 0, 25
		report, _ := simulate(t, o, func(time.Duration, int) (time.Duration, answer) { return time.Second, taken })
		if report.Totals.Acknowledged != 25 || report.Run.Ended != EndedByPoints || report.Run.Seconds != 3 {
			t.Errorf("got %+v %+v", report.Totals, report.Run)
		}
	})
}

// An interrupt leaves what is on its way a while to be answered, and then cuts it off.
func TestAnInterruptCutsOff(t *testing.T) {
	for _, test := range []struct {
		name         string
		took         time.Duration
		seconds      float64
		acknowledged int64
	}{
		{"a request that ends soon", 2500 * time.Millisecond, 2.5, 10},
		{"a request that does not end", time.Hour, 1.5 + interruptedGrace.Seconds(), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			report, _ := simulateUntil(ctx, t, oneClient(time.Hour), func(time.Duration, int) (time.Duration, answer) {
				return test.took, taken
			})
			if report.Run.Ended != EndedByInterrupt || report.Run.Seconds != test.seconds ||
				report.Totals.Acknowledged != test.acknowledged {
				t.Errorf("%s: got %+v %+v", test.name, report.Run, report.Totals)
			}
		})
	}
}

// A run ends when its record of batches has no more room.
func TestARunBoundsItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(time.Hour)
		o.MemoryBytes = 64 * fatesShare
		report, _ := simulate(t, o, func(time.Duration, int) (time.Duration, answer) { return time.Millisecond, taken })
		if report.Run.Ended != EndedByMemory || report.Totals.Batches < 256 || report.Totals.Batches > 600 {
			t.Errorf("got %+v %+v", report.Run, report.Totals)
		}
	})
}

func TestFates(t *testing.T) {
	var f fates
	for _, step := range []struct {
		number int64
		with   outcome
		want   fate
	}{
		{5, refused, fateRefused}, {5, unknown, fateUnknown}, {5, refused, fateUnknown}, {5, acknowledged, fateAcknowledged},
		{5, unknown, fateAcknowledged}, {6, rejected, fateUnknown}, {4, refused, fateRefused},
	} {
		f.settle(step.number, step.with)
		if got := f.get(step.number); got != step.want {
			t.Errorf("batch %d after outcome %d: got fate %d, want %d", step.number, step.with, got, step.want)
		}
	}
	for _, number := range []int64{0, 3, 7, 1000} {
		if got := f.get(number); got != fateUnsent {
			t.Errorf("batch %d: got fate %d, want none", number, got)
		}
	}
}
