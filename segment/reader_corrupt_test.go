package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"testing"
)

// smallRows has all kinds, nulls, two tags and several series.
func smallRows() []row {
	rows := mixedRows(250)
	for i := range rows {
		rows[i].Fields["unsigned"] = unsigned(uint64(i))
	}
	return rows
}

// read opens, verifies and scans a file.
func read(t *testing.T, file []byte) error {
	t.Helper()
	f, err := OpenFile("damaged.parquet", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	_, verifyErr := f.Verify(1)
	_, scanErr := drain(t, f.Scan(AllTime()))
	if scanErr != nil && verifyErr == nil {
		t.Errorf("verified, but: %v", scanErr)
	}
	return errors.Join(verifyErr, scanErr)
}

func TestEveryFlippedByteIsDetected(t *testing.T) {
	skipUnderRace(t)
	for level := range 2 {
		file, _, _ := encode(t, smallRows(), level)
		if err := read(t, file); err != nil {
			t.Fatal(err)
		}
		for i := range file {
			damaged := bytes.Clone(file)
			for _, mask := range []byte{0x01, 0x80} {
				damaged[i] = file[i] ^ mask
				err := read(t, damaged)
				var corruption *CorruptionError
				if !errors.As(err, &corruption) {
					t.Errorf("level %d: byte %d of %d ^ %#x: got %v", level, i, len(file), mask, err)
					continue
				}
				inside := corruption.Offset >= 0 && corruption.Offset < int64(len(file))
				if corruption.Path != "damaged.parquet" || corruption.Reason == "" || !inside {
					t.Errorf("level %d: byte %d: %+v", level, i, corruption)
				}
			}
		}
	}
}

func TestATruncatedFileIsDetected(t *testing.T) {
	file, _, _ := encode(t, smallRows(), 1)
	for n := range len(file) {
		var corruption *CorruptionError
		if err := read(t, file[:n]); !errors.As(err, &corruption) {
			t.Errorf("%d of %d bytes: got %v", n, len(file), err)
		}
	}
}

// withChecksum repairs the checksums of page index and footer, so that what is wrong in them gets past the first check.
func withChecksum(file []byte) []byte {
	file = bytes.Clone(file)
	if len(file) < 12 {
		return file
	}
	end := len(file) - 8
	length := int(binary.LittleEndian.Uint32(file[end:]))
	if length > end {
		return file
	}
	footer := file[end-length : end]
	if at, size, err := findChecksums(footer); err == nil && size > 2*checksumDigits {
		if sums, err := parseChecksums(string(footer[at : at+size])); err == nil && sums.dataBytes <= int64(end-length) {
			index := crc32.Checksum(file[sums.dataBytes:end-length], castagnoli)
			copy(footer[at+checksumDigits+1:], fmt.Sprintf("%08x", index))
		}
		copy(footer[at:], fmt.Sprintf("%08x", footerChecksum(footer, at)))
	}
	return file
}

func TestADamagedFooterWithARightChecksumIsNoPanic(t *testing.T) {
	skipUnderRace(t)
	file, _, _ := encode(t, smallRows(), 1)
	start := len(file) - 8 - int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	for i := start; i < len(file)-8; i++ {
		for _, mask := range []byte{0x01, 0x10, 0x80} {
			damaged := bytes.Clone(file)
			damaged[i] ^= mask
			var corruption *CorruptionError
			if err := read(t, withChecksum(damaged)); err != nil && !errors.As(err, &corruption) {
				t.Errorf("byte %d: %v", i, err)
			}
		}
	}
}

func FuzzOpenFile(f *testing.F) {
	for level := range 2 {
		for _, rows := range [][]row{smallRows(), mixedRows(30), roundTripCases()["kinds"]} {
			file, _, _ := encode(f, rows, level)
			f.Add(file)
			f.Add(file[:len(file)/2])
		}
	}
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, file := range [][]byte{file, withChecksum(file)} {
			var corruption *CorruptionError
			if err := scanAny(file); err != nil && !errors.As(err, &corruption) {
				t.Fatal(err)
			}
		}
	})
}

// scanAny opens, verifies and scans a file that may be anything.
func scanAny(file []byte) error {
	f, err := OpenFile("fuzz.parquet", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	if _, err := f.Verify(1); err != nil {
		return err
	}
	s := f.Scan(AllTime())
	for range 1000 {
		if _, err = s.Next(); err != nil {
			break
		}
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, s.Close())
}

// An error of the reader is handed on as it is, and is no corruption.
func TestErrorsOfReadingAreNotCorruption(t *testing.T) {
	file, _, _ := encode(t, mixedRows(3000), 0) // too large to be read at once
	broken := errors.New("broken disk")
	for failing := range 100 {
		r := &failingReader{Reader: bytes.NewReader(file), left: failing, err: broken}
		f, err := OpenFile("test.parquet", r, int64(len(file)))
		if err == nil {
			_, err = drain(t, f.Scan(AllTime()))
		}
		if r.left >= 0 {
			if err != nil || failing < 10 {
				t.Fatalf("%d reads, %v", failing, err)
			}
			return
		}
		var corruption *CorruptionError
		if !errors.Is(err, broken) || errors.As(err, &corruption) {
			t.Errorf("read %d fails: got %v", failing, err)
		}
	}
	t.Error("100 reads for one small file")
}

type failingReader struct {
	*bytes.Reader
	left int // calls that succeed
	err  error
}

func (r *failingReader) ReadAt(p []byte, offset int64) (int, error) {
	if r.left--; r.left < 0 {
		return 0, r.err
	}
	return r.Reader.ReadAt(p, offset)
}
