package segment

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
)

func TestVerifyFindsWhatDiffers(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, p *PendingFile)
		want   bool // an error
	}{
		{"nothing", func(*testing.T, *PendingFile) {}, false},
		{"rows", func(_ *testing.T, p *PendingFile) { p.written.Rows++ }, true},
		{"times", func(_ *testing.T, p *PendingFile) { p.written.MaxTime++ }, true},
		{"nulls of a column", func(_ *testing.T, p *PendingFile) { p.written.Columns[1].Nulls++ }, true},
		{"bounds of a column", func(_ *testing.T, p *PendingFile) { p.written.Columns[1].Max++ }, true},
		{"a column too few", func(_ *testing.T, p *PendingFile) { p.written.Columns = p.written.Columns[:1] }, true},
		{"size", func(_ *testing.T, p *PendingFile) { p.written.SizeBytes-- }, true},
		{"rank", func(_ *testing.T, p *PendingFile) { p.info.Rank++ }, true},
		{"measurement", func(_ *testing.T, p *PendingFile) { p.info.Measurement = "other" }, true},
		{"a byte", func(t *testing.T, p *PendingFile) {
			data, err := os.ReadFile(p.path())
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/4] ^= 1
			if err := os.WriteFile(p.path(), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
			rows := series("a", noon, 100, 1)
			info := infoOf(rows)
			info.Rank = 1
			p := s.NewFile(1, info, partitionOf(noon.UnixNano()))
			if _, err := p.Write(sourceOf(blockOf(rows))); err != nil {
				t.Fatal(err)
			}
			defer p.Abort()
			p.written.Columns = slices.Clone(p.written.Columns)
			tt.change(t, p)
			err := p.verify()
			if (err != nil) != tt.want || err != nil && !isCorruption(err) {
				t.Errorf("verify returned %v", err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, StoreOptions{Dir: dir})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	addL0(t, s, map[string][]row{"a": series("a", noon, 10, 1)})
	compactAll(t, c)
	added := addL0(t, s, map[string][]row{"a": series("a", noon, 10, 1), "b": series("b", noon, 20, 1)})
	placeholder(t, s, Meta{Database: "db", Measurement: "m", ID: 20})
	check := func() CheckReport {
		t.Helper()
		before := files(t, dir)
		report, err := Check(vfs.OS, dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(before, files(t, dir)); diff != "" {
			t.Errorf("Check changed files:\n%s", diff)
		}
		return report
	}
	report := check()
	if report.Segments != 3 || report.Rows != 40 || report.SizeBytes != s.Level(0).SizeBytes+s.Level(1).SizeBytes {
		t.Errorf("report is %+v", report)
	}
	if len(report.Problems) != 0 || !slices.Equal(report.Unnamed, []string{"l0/0000000020.parquet"}) {
		t.Errorf("report is %+v", report)
	}
	damage(t, s, added[0])
	if err := os.Remove(s.path(&added[1])); err != nil {
		t.Fatal(err)
	}
	report = check()
	var corruption *CorruptionError
	if len(report.Problems) != 2 || !errors.As(report.Problems[0], &corruption) || corruption.Path != s.path(&added[0]) ||
		!errors.Is(report.Problems[1], os.ErrNotExist) {
		t.Errorf("problems are %v", report.Problems)
	}
	if err := os.RemoveAll(filepath.Join(dir, "manifest")); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(vfs.OS, dir); !isCorruption(err) {
		t.Errorf("without a manifest the error is %v", err)
	}
}
