package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// lineMax is where comments of the documented file are broken.
const lineMax = 100

const preamble = "lineweir's configuration, with every key at its built-in default: a file may hold any part of it. " +
	"Flags win over environment variables, those over this file, and this file over the defaults. Sizes are whole " +
	"numbers with B, kB, MB, GB, KiB, MiB or GiB, or bytes without a unit; durations are written like 500ms, 2s or " +
	"1m30s. `lineweir config check FILE` reports everything that is wrong with a file."

// WriteDefault writes the documented default file: every key with its unit, default, range and the reasons to
// change it.
func WriteDefault(w io.Writer) error {
	var text bytes.Buffer
	writeComment(&text, "", preamble)
	section := ""
	for i := range keys {
		section = writeKey(&text, &keys[i], section)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write the default configuration: %w", err)
	}
	return nil
}

// writeKey writes one key, preceded by its section's head unless that is section, and returns the key's section.
func writeKey(text *bytes.Buffer, k *key, section string) string {
	own, name, nested := strings.Cut(k.path, delimiter)
	indent := "  "
	if !nested {
		own, name, indent = "", k.path, ""
	}
	text.WriteByte('\n')
	if nested && own != section {
		writeComment(text, "", sections[own])
		fmt.Fprintf(text, "%s:\n", own)
	}
	writeComment(text, indent, k.about)
	writeComment(text, indent, fmt.Sprintf("Unit: %s. Default: %s. Range: %s.", k.unit, k.standard, k.rangeText()))
	writeComment(text, indent, k.change)
	fmt.Fprintf(text, "%s%s: %s\n", indent, name, k.standard)
	return own
}

// writeComment writes sentences as comment lines that end before lineMax.
func writeComment(text *bytes.Buffer, indent, sentences string) {
	line := indent + "#"
	for word := range strings.FieldsSeq(sentences) {
		if len(line)+1+len(word) > lineMax {
			fmt.Fprintln(text, line)
			line = indent + "#"
		}
		line += " " + word
	}
	fmt.Fprintln(text, line)
}
