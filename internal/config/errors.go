package config

import (
	"errors"
	"fmt"
	"strings"
)

// Returned, wrapped, while reading a value.
var (
	errEmptyValue  = errors.New("the value is empty")
	errUnknownKey  = errors.New("unknown key")
	errUnknownUnit = errors.New("a size is a whole number and one of the units B, kB, MB, GB, KiB, MiB, GiB")
	errTooLarge    = errors.New("the value does not fit 64 bits")
)

// InvalidError holds everything that is wrong with a configuration: at least one problem, each a sentence that
// names the place and the key, in the order in which an operator would look.
type InvalidError struct {
	Problems []string
}

// Error returns the problems, one to a line.
func (e *InvalidError) Error() string {
	return strings.Join(e.Problems, "\n")
}

// problems collects what is wrong, and which keys can no longer be judged together with others.
type problems struct {
	found      []string
	keys       map[string]bool // paths of keys whose value was refused
	unreadable bool            // the file could not be read: nothing is known about the values it meant to set
}

func (p *problems) add(format string, arguments ...any) {
	p.found = append(p.found, fmt.Sprintf(format, arguments...))
}

// refuse records that the value of a known key was refused, so that no rule judges the default in its stead.
func (p *problems) refuse(path, format string, arguments ...any) {
	if p.keys == nil {
		p.keys = make(map[string]bool)
	}
	p.keys[path] = true
	p.add(format, arguments...)
}

// anyRefused tells whether a value of one of paths was refused.
func (p *problems) anyRefused(paths []string) bool {
	for _, path := range paths {
		if p.keys[path] {
			return true
		}
	}
	return false
}

func (p *problems) err() error {
	if len(p.found) == 0 {
		return nil
	}
	return &InvalidError{Problems: p.found}
}
