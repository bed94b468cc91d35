package config

import (
	"errors"
	"io/fs"
	"os"
)

const (
	// StandardFile is read where no file is named and it exists in the working directory.
	StandardFile = "./config.yaml"
	// BuiltIn is the origin of a configuration without a file.
	BuiltIn = "built-in defaults"
)

// Source is everything an operator can write a setting in.
type Source struct {
	File        string   // what --config names; "" for StandardFile, if there is one
	Environment []string // NAME=value, as os.Environ returns it
	Settings    []string // key=value, from flags; of two for one key the later wins
}

// Loaded is a configuration that can work, and what to say about it.
type Loaded struct {
	Config   Config   // effective: nothing is left to choose
	Origin   string   // the file that was read, or BuiltIn
	Warnings []string // what was ignored, a sentence each
}

// Load reads all layers for a process on machine. An error is an *InvalidError with every problem.
func Load(source Source, machine Machine) (*Loaded, error) {
	var found problems
	file, origin := source.readFile(&found)
	environment, warnings := readEnvironment(source.Environment, &found)
	flags := readFlags(source.Settings, &found)

	effective := merge(defaultLayer(), file, environment, flags).Effective(machine)
	if !found.unreadable {
		checkRules(&effective, machine, &found)
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	return &Loaded{Config: effective, Origin: origin, Warnings: warnings}, nil
}

// Default returns the built-in defaults as they are written: zeros that stand for a choice are still zero.
func Default() Config {
	return merge(defaultLayer())
}

// readFile reads the file that the source chooses, and returns its settings and its name.
func (s Source) readFile(found *problems) (layer, string) {
	name := s.File
	if name == "" {
		name = StandardFile
	}
	text, err := os.ReadFile(name)
	if s.File == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, BuiltIn
	}
	if err != nil {
		found.unreadable = true
		found.add("read the configuration: %v", err)
		return nil, name
	}
	return readFile(name, text, found), name
}
