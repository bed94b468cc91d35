package wal

import (
	"errors"
	"strings"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

func TestReplayIsForTheTimeBeforeAppend(t *testing.T) {
	l := openLog(t, smallOptions(memory.New()))
	appendEach(t, l, testFrame(1))
	wantErrors(t, "replay", l.Replay(0, func(Frame) error { return nil }), ErrReplayTooLate)
}

func TestReplayStopsAtAnErrorOfItsCaller(t *testing.T) {
	files, _ := manyFiles(t)
	l := openLog(t, smallOptions(restore(t, files)))
	seen := 0
	err := l.Replay(0, func(Frame) error {
		if seen++; seen == 50 {
			return errInjected
		}
		return nil
	})
	if !errors.Is(err, errInjected) || seen != 50 {
		t.Errorf("got %v after %d frames, want the injected error after 50", err, seen)
	}
}

func TestReplayNoticesDamageThatCameAfterOpen(t *testing.T) {
	files, _ := oneFile(t)
	for name, content := range map[string]string{
		"garbage": strings.Repeat("\xa5", 200),
		"zeros":   strings.Repeat("\x00", 8<<10-fileHeaderBytes),
	} {
		disk := restore(t, files)
		l := openLog(t, smallOptions(disk))
		file, err := disk.OpenFile(testDir+"/"+fileName(1), 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteAt([]byte(content), fileHeaderBytes)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		var damage *CorruptionError
		if err := l.Replay(0, func(Frame) error { return nil }); !errors.As(err, &damage) {
			t.Errorf("%s: got %v, want a CorruptionError", name, err)
		}
	}
}

func TestReplayNeedsTheMemoryOfOneGroup(t *testing.T) {
	disk := memory.New()
	o := Options{FS: disk, Dir: testDir, FileBytes: 1 << 20, MaxBytes: 64 << 20}
	l := openLog(t, o)
	payload := make([]byte, 10_000)
	var last *Ticket
	for sequence := range uint64(3000) {
		last = l.Append(Frame{Sequence: sequence + 1, Payload: payload})
	}
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	l = openLog(t, o)
	perReplay := func(after uint64) float64 {
		return testing.AllocsPerRun(3, func() {
			if err := l.Replay(after, func(Frame) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	few, many := perReplay(2990), perReplay(0)
	if files := float64(l.Stats().Files); many-few > 20*files {
		t.Errorf("got %v allocations for 10 frames and %v for 3,000 in %v files", few, many, files)
	}
}

func TestCheckAndDumpReadWhatIsWhole(t *testing.T) {
	files, frames := manyFiles(t)
	second, third := firstSequence(t, files[fileName(2)]), firstSequence(t, files[fileName(3)])
	damaged := overwrite(files[fileName(2)], fileHeaderBytes+100, "\xff\xff")
	torn := files[fileName(1)][:fileHeaderBytes+10]
	for _, test := range []struct {
		name   string
		files  map[string]string
		want   []Frame
		damage int
		torn   bool
	}{
		{"whole", files, frames, 0, false},
		{"damage", with(files, fileName(2), damaged), append(testFrames(1, second-1), testFrames(third, 120)...), 1, false},
		{"missing", without(files, fileName(2)), append(testFrames(1, second-1), testFrames(third, 120)...), 1, false},
		{"begins later", without(files, fileName(1)), testFrames(second, 120), 0, false},
		{"torn", map[string]string{fileName(1): torn}, nil, 0, true},
	} {
		disk := restore(t, test.files)
		report, err := Check(disk, testDir, Known{Floor: UnknownFloor})
		if err != nil || len(report.Damage) != test.damage || (report.Torn != "") != test.torn {
			t.Errorf("%s: check found %+v, %v", test.name, report, err)
		}
		checkFiles(t, test.name, report, test.want)
		var got []Frame
		err = Dump(vfs.Inject(disk, refuseWrites), testDir, func(file string, offset int64, f Frame) error {
			content := test.files[strings.TrimPrefix(file, testDir+"/")]
			if !strings.HasPrefix(content[offset+frameHeaderBytes:], string(f.Payload)) {
				t.Errorf("%s: frame %d doesn't lie at byte %d of %s", test.name, f.Sequence, offset, file)
			}
			f.Payload = append([]byte(nil), f.Payload...)
			got = append(got, f)
			return nil
		})
		var damage *CorruptionError
		if errors.As(err, &damage) != (test.damage > 0) {
			t.Errorf("%s: dump: %v", test.name, err)
		}
		if diff := diffFrames(test.want, got); diff != "" {
			t.Errorf("%s: dump (-want +got):\n%s", test.name, diff)
		}
	}
}

// Whoever mistypes the directory should not take the log for empty.
func TestDumpNeedsALog(t *testing.T) {
	nothing := func(string, int64, Frame) error { return nil }
	for name, files := range map[string]map[string]string{
		"an empty directory": {"LOCK": ""}, "only the spare file": {spareName: ""},
	} {
		if err := Dump(restore(t, files), testDir, nothing); !errors.Is(err, ErrNoLog) || !strings.Contains(err.Error(), testDir) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func checkFiles(t *testing.T, name string, report Report, want []Frame) {
	t.Helper()
	frames := 0
	for _, file := range report.Files {
		frames += file.Frames
	}
	if frames != len(want) {
		t.Errorf("%s: check counted %d frames, want %d", name, frames, len(want))
	}
}

// refuseWrites fails every call that could change something.
func refuseWrites(op vfs.Op) error {
	switch op.Name {
	case "write", "writeat", "truncate", "rename", "remove", "mkdirall":
		return errInjected
	}
	return nil
}
