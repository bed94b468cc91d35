package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lineweir/internal/vfs"
)

const (
	// lockWaitMax is how long a command waits for another one, which takes two fsyncs.
	lockWaitMax = 5 * time.Second
	lockPause   = 10 * time.Millisecond
)

// File is the token file of a data directory, for commands. A server may use the directory at the same time.
type File struct {
	fs        vfs.FS
	dataDir   string
	directory string
	path      string
}

// NewFile returns the token file of a data directory. Nothing is opened, and nothing has to exist.
func NewFile(fsys vfs.FS, dataDir string) *File {
	path := tokensPath(dataDir)
	return &File{fs: fsys, dataDir: dataDir, directory: filepath.Dir(path), path: path}
}

// Tokens returns all tokens in the order in which they were made; none if there is no file.
func (f *File) Tokens() ([]Token, error) {
	tokens, err := readTokens(f.fs, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return tokens, err
}

// Create makes a token and returns its secret, which nothing can show again. It is durable when Create returns.
func (f *File) Create(ctx context.Context, name string, rights Rights) (string, error) {
	if err := errors.Join(checkLabel(name), rights.check()); err != nil {
		return "", err
	}
	secret := newSecret()
	err := f.change(ctx, func(tokens []Token) ([]Token, error) {
		switch {
		case slices.ContainsFunc(tokens, func(t Token) bool { return t.Name == name }):
			return nil, fmt.Errorf("create token %s: %w", name, ErrExists)
		case len(tokens) >= tokensMax:
			return nil, fmt.Errorf("create token %s: %w", name, ErrTooMany)
		}
		token := Token{Name: name, Rights: rights, Created: time.Now()}
		token.digest, _ = digestOf(secret)
		return append(tokens, token), nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// check refuses a token that could do nothing.
func (r *Rights) check() error {
	if r.IsZero() {
		return invalid("it needs a right: to read or to write a database, or admin")
	}
	return nil
}

// Revoke takes a token out of the file and returns how many are left. It is durable when Revoke returns.
func (f *File) Revoke(ctx context.Context, name string) (int, error) {
	left := 0
	err := f.change(ctx, func(tokens []Token) ([]Token, error) {
		kept := slices.DeleteFunc(slices.Clone(tokens), func(t Token) bool { return t.Name == name })
		if len(kept) == len(tokens) {
			return nil, fmt.Errorf("revoke token %s: %w", name, ErrNotFound)
		}
		left = len(kept)
		return kept, nil
	})
	return left, err
}

// CopyTo copies the file, if there is one, to another data directory. It is durable when CopyTo returns.
func (f *File) CopyTo(ctx context.Context, dataDir string) error {
	tokens, err := readTokens(f.fs, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return NewFile(f.fs, dataDir).change(ctx, func([]Token) ([]Token, error) { return tokens, nil })
}

// change replaces the content of the file by what the function makes of it, while no other command does.
func (f *File) change(ctx context.Context, edit func([]Token) ([]Token, error)) error {
	if err := f.fs.MkdirAll(f.directory, 0o700); err != nil {
		return fmt.Errorf("make the directory of the tokens: %w", err)
	}
	lock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	tokens, err := f.Tokens()
	if err == nil {
		tokens, err = edit(tokens)
	}
	if err == nil {
		err = f.replace(encodeTokens(tokens))
	}
	return errors.Join(err, lock.Close())
}

// lock excludes other commands, for which it waits.
func (f *File) lock(ctx context.Context) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWaitMax)
	defer cancel()
	for {
		lock, err := f.fs.Lock(filepath.Join(f.directory, lockName))
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, vfs.ErrLocked) {
			return nil, fmt.Errorf("lock the tokens: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock the tokens, which another command changes: %w", err)
		case <-time.After(lockPause):
		}
	}
}

// replace writes the file anew: whole under another name first, so that a reader and a crash find the old content or
// the new one. If the last step fails, either may be found after a crash.
func (f *File) replace(content []byte) error {
	temporary := filepath.Join(f.directory, temporaryName)
	err := f.writeSynced(temporary, content)
	if err == nil {
		err = f.giveToOwner(temporary)
	}
	if err == nil {
		err = f.fs.Rename(temporary, f.path)
	}
	if err != nil {
		// A file that can't be removed does no harm: the next command overwrites it.
		_ = f.fs.Remove(temporary)
		return fmt.Errorf("write the tokens: %w", err)
	}
	if err = f.fs.SyncDir(f.directory); err != nil {
		return fmt.Errorf("the tokens are changed, but a crash may undo it: %w", err)
	}
	return nil
}

func (f *File) writeSynced(name string, content []byte) error {
	file, err := f.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(content); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// giveToOwner lets the server read what root has written: the files get the owner of the data directory.
func (f *File) giveToOwner(temporary string) error {
	info, err := f.fs.Stat(f.dataDir)
	if err != nil {
		return err
	}
	return giveTo(info, f.directory, filepath.Join(f.directory, lockName), temporary)
}

// readTokens reads a token file. Its errors are those of the file system, ErrVersion and *CorruptionError.
func readTokens(fsys vfs.FS, path string) ([]Token, error) {
	file, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	tokens, err := readFrom(file, path)
	return tokens, errors.Join(err, file.Close())
}

func readFrom(file vfs.File, path string) ([]Token, error) {
	sizeBytes, err := file.Size()
	if err != nil {
		return nil, err
	}
	if sizeBytes > fileBytesMax {
		return nil, &CorruptionError{path, fileBytesMax, fmt.Sprintf("it is longer than %d bytes", fileBytesMax)}
	}
	content := make([]byte, sizeBytes)
	if _, err = io.ReadFull(file, content); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return decodeTokens(path, content)
}
