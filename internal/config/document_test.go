package config

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write config.yaml anew from the table of keys")

const documentedFile = "../../config.yaml"

func TestConfigFileDocumentsTheTable(t *testing.T) {
	var want bytes.Buffer
	if err := WriteDefault(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentedFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(documentedFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("config.yaml differs from the table of keys (-want +got); `go test ./internal/config -update` "+
			"writes it anew:\n%s", diff)
	}
}

func TestConfigFileEqualsTheDefaults(t *testing.T) {
	text, err := os.ReadFile(documentedFile)
	if err != nil {
		t.Fatal(err)
	}
	var found problems
	values := readFile(documentedFile, text, &found)
	if err := found.err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaultLayer(), values); diff != "" {
		t.Errorf("config.yaml sets other values than the defaults (-want +got):\n%s", diff)
	}
}
