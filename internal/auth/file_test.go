package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// newFile returns the token file of a directory that is empty.
func newFile(t testing.TB) *File {
	t.Helper()
	return NewFile(vfs.OS, t.TempDir())
}

func create(t testing.TB, f *File, name string, rights Rights) string {
	t.Helper()
	secret, err := f.Create(t.Context(), name, rights)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func names(t testing.TB, f *File) []string {
	t.Helper()
	tokens, err := f.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, token := range tokens {
		found = append(found, token.Name)
	}
	return found
}

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	f := newFile(t)
	if got := names(t, f); len(got) != 0 {
		t.Errorf("before the first: got %q, want none", got)
	}
	before := time.Now()
	first := create(t, f, "first", Rights{Admin: true})
	second := create(t, f, "second", Rights{Write: databases(t, "metrics")})
	if !regexp.MustCompile(`^lw_[A-Za-z0-9_-]{43}$`).MatchString(first) || first == second {
		t.Errorf("got the secrets %q and %q", first, second)
	}
	tokens, err := f.Tokens()
	if err != nil || len(tokens) != 2 {
		t.Fatalf("got %v, %v", tokens, err)
	}
	if made := tokens[1]; made.Name != "second" || made.Rights.Write.String() != "metrics" ||
		made.Created.Before(before) || made.Created.After(time.Now()) {
		t.Errorf("got %+v", made)
	}
	if left, err := f.Revoke(t.Context(), "first"); left != 1 || err != nil {
		t.Errorf("got %d left and %v, want 1", left, err)
	}
	if diff := cmp.Diff([]string{"second"}, names(t, f)); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if left, err := f.Revoke(t.Context(), "second"); left != 0 || err != nil {
		t.Errorf("got %d left and %v, want 0", left, err)
	}
}

func TestRefusedChanges(t *testing.T) {
	f := newFile(t)
	admin := Rights{Admin: true}
	create(t, f, "taken", admin)
	for _, tc := range []struct {
		name   string
		rights Rights
		want   error
	}{
		{"taken", admin, ErrExists},
		{"", admin, ErrInvalid},
		{"two words", admin, ErrInvalid},
		{"a\nb", admin, ErrInvalid},
		{strings.Repeat("n", labelBytesMax), admin, nil},
		{strings.Repeat("n", labelBytesMax+1), admin, ErrInvalid},
		{"useless", Rights{}, ErrInvalid},
	} {
		secret, err := f.Create(t.Context(), tc.name, tc.rights)
		if !errors.Is(err, tc.want) || (secret == "") != (err != nil) {
			t.Errorf("%q: got %q, %v, want %v", tc.name, secret, err, tc.want)
		}
	}
	if _, err := f.Revoke(t.Context(), "other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestTheNumberOfTokensIsBounded(t *testing.T) {
	f := newFile(t)
	tokens := make([]Token, tokensMax-1)
	for i := range tokens {
		tokens[i] = Token{Name: fmt.Sprint(i), Rights: Rights{Admin: true}}
	}
	if err := f.change(t.Context(), func([]Token) ([]Token, error) { return tokens, nil }); err != nil {
		t.Fatal(err)
	}
	create(t, f, "last", Rights{Admin: true})
	if _, err := f.Create(t.Context(), "one-more", Rights{Admin: true}); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v, want ErrTooMany", err)
	}
	if got := len(names(t, f)); got != tokensMax {
		t.Errorf("got %d tokens, want %d", got, tokensMax)
	}
}

// TestNoSecretIsOnDisk looks into every file for a secret and for its parts.
func TestNoSecretIsOnDisk(t *testing.T) {
	f := newFile(t)
	secret := create(t, f, "a", Rights{Admin: true})
	err := filepath.WalkDir(f.dataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), secret[len(secretPrefix):][:8]) {
			t.Errorf("%s holds a part of the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("got mode %v, %v, want none for others", info.Mode(), err)
	}
}

// unsyncedFS syncs nothing. A command waits for others for 5 s at most, in which a slow disk syncs for few of them.
type unsyncedFS struct{ vfs.FS }

func (f unsyncedFS) OpenFile(name string, flag int, mode os.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, mode)
	return unsyncedFile{file}, err
}

func (unsyncedFS) SyncDir(string) error { return nil }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// TestCommandsWaitForOneAnother runs many at once; every token is there afterwards.
func TestCommandsWaitForOneAnother(t *testing.T) {
	f := NewFile(unsyncedFS{vfs.OS}, t.TempDir())
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if _, err := f.Create(t.Context(), fmt.Sprint(i), Rights{Admin: true}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := len(names(t, f)); got != 20 {
		t.Errorf("got %d tokens, want 20", got)
	}
}

func TestAWaitForTheLockEnds(t *testing.T) {
	f := newFile(t)
	create(t, f, "a", Rights{Admin: true})
	lock, err := vfs.OS.Lock(filepath.Join(f.directory, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = f.Create(ctx, "b", Rights{Admin: true}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
}

var errInjected = errors.New("injected")

// memoryFile returns the token file of a data directory in memory.
func memoryFile(t testing.TB, fsys vfs.FS) *File {
	t.Helper()
	if err := fsys.MkdirAll("/data", 0o755); err != nil {
		t.Fatal(err)
	}
	return NewFile(fsys, "/data")
}

// TestACrashAtAnyCallKeepsTheTokens makes two tokens and revokes one, while the machine crashes before call 0, 1, 2 …
// of the file system. What was reported is there, and the file can be read.
func TestACrashAtAnyCallKeepsTheTokens(t *testing.T) {
	for call := 0; ; call++ {
		disk, calls := memory.New(), 0
		f := memoryFile(t, vfs.Inject(disk, func(vfs.Op) error {
			calls++
			if calls > call+1 { // the first makes the data directory
				return errInjected
			}
			return nil
		}))
		var want []string
		err := run(t, f, &want)
		for seed := range uint64(20) {
			crashed := memoryFile(t, disk.CrashClone(rand.New(rand.NewPCG(seed, 0))))
			got := names(t, crashed)
			if diff := cmp.Diff(want, got); diff != "" && !oneMore(got, want) {
				t.Errorf("crash before call %d, seed %d: tokens (-reported +found):\n%s", call, seed, diff)
			}
		}
		if err == nil {
			return
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("call %d: %v", call, err)
		}
	}
}

// run does what TestACrashAtAnyCallKeepsTheTokens describes, and keeps in want what was reported.
func run(t *testing.T, f *File, want *[]string) error {
	t.Helper()
	*want = []string{}
	for _, name := range []string{"a", "b"} {
		if _, err := f.Create(t.Context(), name, Rights{Admin: true}); err != nil {
			return err
		}
		*want = append(*want, name)
	}
	if _, err := f.Revoke(t.Context(), "a"); err != nil {
		return err
	}
	*want = []string{"b"}
	return nil
}

// oneMore tells whether got is want after the step that was cut short.
func oneMore(got, want []string) bool {
	next := map[string]string{"": "a", "a": "a b", "a b": "b"}
	return next[strings.Join(want, " ")] == strings.Join(got, " ")
}

func TestADamagedFileIsNotOverwritten(t *testing.T) {
	f := newFile(t)
	create(t, f, "a", Rights{Admin: true})
	if err := os.WriteFile(f.path, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	var damage *CorruptionError
	if _, err := f.Create(t.Context(), "b", Rights{Admin: true}); !errors.As(err, &damage) {
		t.Errorf("got %v, want a CorruptionError", err)
	}
	if content, err := os.ReadFile(f.path); string(content) != "garbage" {
		t.Errorf("got %q, %v: the file was changed", content, err)
	}
}

func TestAFileOfExcessiveSizeIsNotRead(t *testing.T) {
	f := newFile(t)
	create(t, f, "a", Rights{Admin: true})
	if err := os.Truncate(f.path, fileBytesMax+1); err != nil {
		t.Fatal(err)
	}
	var damage *CorruptionError
	if _, err := f.Tokens(); !errors.As(err, &damage) {
		t.Errorf("got %v, want a CorruptionError", err)
	}
}

// newVerifier returns the verifier of a server on the same directory.
func newVerifier(f *File) *Verifier { return NewVerifier(f.fs, f.dataDir, zap.NewNop()) }

func TestTokensAreCopiedAsTheyAre(t *testing.T) {
	for name, tokens := range map[string]int{"none": 0, "two": 2, "all revoked": -1} {
		fsys := memory.New()
		from := NewFile(fsys, "/data")
		for n := range max(tokens, -tokens) {
			if _, err := from.Create(t.Context(), fmt.Sprint(n), Rights{Admin: true}); err != nil {
				t.Fatal(err)
			}
		}
		if tokens < 0 {
			if _, err := from.Revoke(t.Context(), "0"); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(fsys.MkdirAll("/copy", 0o755), from.CopyTo(t.Context(), "/copy")); err != nil {
			t.Fatal(err)
		}
		want, wantErr := vfs.ReadFile(fsys, "/data/auth/tokens")
		got, err := vfs.ReadFile(fsys, "/copy/auth/tokens")
		if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) || (err != nil) != (tokens == 0) {
			t.Errorf("%s: the copy is %q, %v; the original %q, %v", name, got, err, want, wantErr)
		}
	}
}
