package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lineweir/internal/vfs"
)

// verdict tells what a secret is good for: the databases that it may write, or why there is no answer.
func verdict(v *Verifier, secret string) string {
	rights, err := v.Verify(secret)
	for _, known := range []error{ErrNoSecret, ErrUnknown, ErrVanished, ErrUnreadable} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	switch {
	case err != nil:
		return err.Error()
	case rights.Admin:
		return "everything"
	default:
		return rights.Write.String()
	}
}

func expect(t *testing.T, when string, v *Verifier, secret, want string) {
	t.Helper()
	if got := verdict(v, secret); got != want {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestVerify(t *testing.T) {
	f := newFile(t)
	expect(t, "no file", newVerifier(f), "whatever", "everything")
	one := create(t, f, "one", Rights{Write: databases(t, "one")})
	two := create(t, f, "two", Rights{Write: databases(t, "two")})
	v := newVerifier(f)
	for secret, want := range map[string]string{
		"": ErrNoSecret.Error(), one: "one", two: "two",
		one + "x": ErrUnknown.Error(), one[1:]: ErrUnknown.Error(), strings.ToUpper(one): ErrUnknown.Error(),
		"one": ErrUnknown.Error(), strings.Repeat("x", 1000): ErrUnknown.Error(),
	} {
		expect(t, secret, v, secret, want)
	}
	if !v.On() || v.Ready() != nil {
		t.Errorf("got on %v, ready %v", v.On(), v.Ready())
	}
}

// TestChangesAreSeenAtOnce lives through the life of a server. Time stands still unless it is let go.
func TestChangesAreSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFile(t)
		v := newVerifier(f)
		expect(t, "no file", v, "", "everything")
		first := create(t, f, "first", Rights{Write: databases(t, "a")})
		expect(t, "the first token", v, "", ErrNoSecret.Error())
		expect(t, "the first token", v, first, "a")
		second := create(t, f, "second", Rights{Write: databases(t, "b")})
		expect(t, "a new token, in the same moment", v, second, "b")
		for _, name := range []string{"first", "second"} {
			if _, err := f.Revoke(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, "revoked", v, first, ErrUnknown.Error())
		expect(t, "revoked, no token left", v, "", ErrNoSecret.Error())
		if !v.On() {
			t.Error("the last revocation turned authentication off")
		}
	})
}

// TestUnreadableTokensAreNoVerdict breaks the file in each way, and mends it.
func TestUnreadableTokensAreNoVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(f *File) error
		want   string
	}{
		"garbage": {func(f *File) error { return os.WriteFile(f.path, []byte("garbage"), 0o600) }, ErrUnreadable.Error()},
		"empty":   {func(f *File) error { return os.Truncate(f.path, 0) }, ErrUnreadable.Error()},
		"gone":    {func(f *File) error { return os.Remove(f.path) }, ErrVanished.Error()},
		"a directory": {
			func(f *File) error { return errors.Join(os.Remove(f.path), os.Mkdir(f.path, 0o700)) }, ErrUnreadable.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFile(t)
				secret := create(t, f, "a", Rights{Write: databases(t, "a")})
				good, err := os.ReadFile(f.path)
				if err != nil {
					t.Fatal(err)
				}
				core, logs := observer.New(zap.ErrorLevel)
				v := NewVerifier(f.fs, f.dataDir, zap.New(core))
				expect(t, "good", v, secret, "a")
				if err = tc.breaks(f); err != nil {
					t.Fatal(err)
				}
				for range 5 {
					for _, sent := range []string{secret, "other", ""} {
						expect(t, "broken", v, sent, tc.want)
					}
				}
				if !errors.Is(v.Ready(), ErrUnreadable) || !v.On() {
					t.Errorf("got ready %v, on %v", v.Ready(), v.On())
				}
				if got := logs.Len(); got != 1 {
					t.Errorf("got %d log entries, want one for one fault", got)
				}
				if err = errors.Join(os.RemoveAll(f.path), os.WriteFile(f.path, good, 0o600)); err != nil {
					t.Fatal(err)
				}
				expect(t, "mended", v, secret, "a")
			})
		})
	}
}

func TestABrokenFileAtTheStartIsNoVerdictEither(t *testing.T) {
	f := newFile(t)
	create(t, f, "a", Rights{Admin: true})
	if err := os.Truncate(f.path, 10); err != nil {
		t.Fatal(err)
	}
	v := newVerifier(f)
	expect(t, "broken", v, "", ErrUnreadable.Error())
	if !v.On() {
		t.Error("authentication is off because its file is broken")
	}
}

// TestAFileIsReadWhenItChanged counts the calls of the file system that requests make, of a good file and of one that
// can't be opened until somebody grants it.
func TestAFileIsReadWhenItChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFile(t)
		secret := create(t, f, "a", Rights{Write: databases(t, "a")})
		calls, denied := map[string]int{}, false
		v := NewVerifier(vfs.Inject(vfs.OS, func(op vfs.Op) error {
			calls[op.Name]++
			if op.Name == "open" && denied {
				return fs.ErrPermission
			}
			return nil
		}), f.dataDir, zap.NewNop())
		clear(calls)
		for range 10 {
			for range 100 {
				expect(t, "good", v, secret, "a")
				expect(t, "none", v, "", ErrNoSecret.Error())
			}
			expect(t, "bad", v, "bad", ErrUnknown.Error())
		}
		if diff := cmp.Diff(map[string]int{"stat": 2010}, calls); diff != "" {
			t.Errorf("calls of an unchanged file (-want +got):\n%s", diff)
		}
		denied = true
		create(t, f, "b", Rights{Admin: true})
		clear(calls)
		for range 100 {
			time.Sleep(retryInterval / 10)
			expect(t, "denied", v, secret, ErrUnreadable.Error())
		}
		if calls["open"] != 10 {
			t.Errorf("a file that can't be opened was opened %d times in 10 intervals, want 10", calls["open"])
		}
		denied = false
		time.Sleep(retryInterval)
		expect(t, "granted", v, secret, "a")
	})
}

// TestVerifyWhileTokensChange never refuses a secret that is good all the time.
func TestVerifyWhileTokensChange(t *testing.T) {
	f := newFile(t)
	secret := create(t, f, "steady", Rights{Write: databases(t, "a")})
	v := newVerifier(f)
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					expect(t, "steady", v, secret, "a")
					expect(t, "bad", v, "bad", ErrUnknown.Error())
				}
			}
		})
	}
	for i := range 20 {
		added := create(t, f, fmt.Sprint(i), Rights{Write: databases(t, "b")})
		expect(t, "new", v, added, "b")
		if _, err := f.Revoke(t.Context(), fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	group.Wait()
}

// BenchmarkVerify shows what a request costs beside its work: a good secret and a bad one.
func BenchmarkVerify(b *testing.B) {
	for _, tokens := range []int{1, 100, tokensMax} {
		f := newFile(b)
		all := make([]Token, tokens)
		for i := range all {
			all[i] = Token{Name: fmt.Sprint(i), Rights: Rights{Admin: true}}
			all[i].digest, _ = digestOf(fmt.Sprint(i))
		}
		if err := f.change(b.Context(), func([]Token) ([]Token, error) { return all, nil }); err != nil {
			b.Fatal(err)
		}
		v := newVerifier(f)
		for name, secret := range map[string]string{"good": "0", "bad": newSecret()} {
			b.Run(fmt.Sprintf("%s/tokens=%d", name, tokens), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Verify(secret); (err == nil) != (name == "good") {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkVerifyBesideAFlood shows that bad secrets take no more from good ones than the processors they run on: with
// one to spare for the flood, a good secret costs what it costs alone.
func BenchmarkVerifyBesideAFlood(b *testing.B) {
	for _, flood := range []int{0, 1} {
		b.Run(fmt.Sprintf("flooding=%d", flood), func(b *testing.B) {
			f := newFile(b)
			secret := create(b, f, "good", Rights{Admin: true})
			v := newVerifier(f)
			var group sync.WaitGroup
			var bad atomic.Int64
			for range flood {
				group.Go(func() {
					for b.Context().Err() == nil && bad.Load() >= 0 {
						_, _ = v.Verify("lw_bad")
						bad.Add(1)
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(secret); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(bad.Load())/b.Elapsed().Seconds(), "bad/s")
			bad.Store(-1 << 62) // ends the flood
			group.Wait()
		})
	}
}
