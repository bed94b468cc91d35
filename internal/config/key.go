package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is what the text of a value is read as.
type kind uint8

const (
	kindBytes    kind = iota // int64
	kindCount                // int64
	kindDuration             // time.Duration
	kindFraction             // float64
	kindAddress              // string, host:port
	kindPath                 // string
	kindFile                 // string, "" for none
	kindChoice               // string, one of key.choices
)

// key describes one setting. Whatever can be said about a setting is said here, and everything else is derived.
type key struct {
	path     string // where it stands in the file: section.name, or name alone
	kind     kind
	unit     string // what a plain number counts
	standard string // the default, as one would write it
	min, max string // inclusive bounds of the kinds that have an order
	zero     string // what 0 stands for, where it is allowed beside the range
	choices  []string
	about    string // what it is: one or more sentences
	change   string // why one would change it: one or more sentences
}

// environment returns the name of the variable that sets the key.
func (k *key) environment() string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))
}

// parse reads a value and checks it against the key's own range.
func (k *key) parse(text string) (any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errEmptyValue
	}
	value, err := k.read(text)
	if err != nil {
		return nil, err
	}
	if !k.allows(value) {
		return nil, fmt.Errorf("%s is outside the range: %s", text, k.rangeText())
	}
	return value, nil
}

// read turns text into the Go type of the key's kind.
func (k *key) read(text string) (any, error) {
	switch k.kind {
	case kindBytes:
		return ParseBytes(text)
	case kindCount:
		return readCount(text)
	case kindDuration:
		return readDuration(text)
	case kindFraction:
		return readFraction(text)
	case kindAddress:
		return readAddress(text)
	case kindPath:
		return text, nil
	case kindFile:
		return readFileName(text), nil
	case kindChoice:
		return k.readChoice(text)
	}
	panic(fmt.Sprintf("BUG: key %s has the unknown kind %d", k.path, k.kind))
}

func readCount(text string) (any, error) {
	count, err := strconv.ParseInt(text, 10, 64)
	if isRange(err) {
		return nil, fmt.Errorf("%q: %w", text, errTooLarge)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a whole number", text)
	}
	return count, nil
}

func readDuration(text string) (any, error) {
	duration, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a duration such as 500ms, 2s or 1m30s", text)
	}
	return duration, nil
}

func readFraction(text string) (any, error) {
	fraction, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number such as 0.75", text)
	}
	return fraction, nil
}

func readAddress(text string) (any, error) {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address such as 127.0.0.1:8086", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("%q: the port is not a number from 0 to 65535", text)
	}
	return text, nil
}

// noFile is how one writes that there is no file. An empty value is refused, because it is rarely meant.
const noFile = "none"

func readFileName(text string) any {
	if text == noFile {
		return ""
	}
	return text
}

func (k *key) readChoice(text string) (any, error) {
	if !slices.Contains(k.choices, text) {
		return nil, fmt.Errorf("%q is none of %s", text, strings.Join(k.choices, ", "))
	}
	return text, nil
}

// allows tells whether a value of the key's kind lies in its range.
func (k *key) allows(value any) bool {
	if k.min == "" {
		return true
	}
	number := magnitude(value)
	if number == 0 && k.zero != "" {
		return true
	}
	return number >= k.bound(k.min) && number <= k.bound(k.max) // false for NaN
}

// bound reads a limit of the table.
func (k *key) bound(text string) float64 {
	value, err := k.read(text)
	if err != nil {
		panic(fmt.Sprintf("BUG: bound of key %s: %v", k.path, err))
	}
	return magnitude(value)
}

// magnitude makes the ordered kinds comparable. No bound of the table comes near 2^53, so nothing is lost.
func magnitude(value any) float64 {
	switch value := value.(type) {
	case int64:
		return float64(value)
	case float64:
		return value
	case time.Duration:
		return float64(value)
	}
	panic(fmt.Sprintf("BUG: %T has no order", value))
}

// rangeText says which values the key takes.
func (k *key) rangeText() string {
	switch {
	case k.kind == kindAddress:
		return "any address and port of this machine; port 0 takes a free one"
	case k.kind == kindPath:
		return "any path, absolute or relative to the working directory"
	case k.kind == kindFile:
		return "the path of a file, absolute or relative to the working directory, or " + noFile
	case k.kind == kindChoice:
		return strings.Join(k.choices, ", ")
	case k.zero != "":
		return fmt.Sprintf("%s to %s, or 0 for %s", k.min, k.max, k.zero)
	}
	return fmt.Sprintf("%s to %s", k.min, k.max)
}

func isRange(err error) bool {
	return errors.Is(err, strconv.ErrRange)
}
