package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"time"
)

// reseal gives the group at the start of data the checksums that its content needs, so that the fuzzer gets behind
// them.
func reseal(data []byte) {
	if len(data) < groupHeaderBytes {
		return
	}
	binary.LittleEndian.PutUint32(data, groupMagic)
	binary.LittleEndian.PutUint64(data[8:], goldenHeader.Number)
	binary.LittleEndian.PutUint64(data[16:], goldenHeader.FirstGroup)
	binary.LittleEndian.PutUint64(data[24:], goldenHeader.Salt)
	binary.LittleEndian.PutUint32(data[40:], goldenHeader.PreviousCRC)
	binary.LittleEndian.PutUint32(data[44:], crc32.Checksum(data[:44], castagnoli))
	end := groupBytes(int64(binary.LittleEndian.Uint32(data[32:])))
	if end > int64(len(data)) {
		return
	}
	footer := data[end-footerBytes:]
	binary.LittleEndian.PutUint64(footer, uint64(groupCRC(data[:end-footerBytes])))
}

// fuzzTimeMax bounds one execution: a scan that does not end is a fault like any other.
const fuzzTimeMax = 20 * time.Second

// FuzzOpenGroup opens a file with arbitrary bytes behind its header. Whatever is accepted must be what the encoder
// makes of the same frames.
func FuzzOpenGroup(f *testing.F) {
	file := encodeFile(f)
	groups := groupsOf(f, file)
	body := file[fileHeaderBytes:]
	f.Add([]byte(body), false)
	f.Add([]byte(body), true)
	f.Add([]byte(file[groups[1]:]), true)
	f.Add([]byte(file[groups[2]:]), true)
	f.Add([]byte(body[:len(body)/3]), false)
	f.Add(make([]byte, 100), false)
	f.Add([]byte(overwrite(body, groupHeaderBytes+8, "\xff\xff\xff\xff")), true)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		timer := time.AfterFunc(fuzzTimeMax, func() { panic(fmt.Sprintf("opening %q does not end", data)) })
		defer timer.Stop()
		data = append([]byte(nil), data...)
		if sealed {
			reseal(data)
		}
		scanAny(t, string(goldenHeader.encode())+string(data))
	})
}

func scanAny(t *testing.T, content string) {
	s, err := newScanner(strings.NewReader(content), int64(len(content)), "fuzzed", nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		before := s.sequence
		g, err := s.next()
		var bad *badGroupError
		var damage *CorruptionError
		switch {
		case errors.As(err, &bad):
			if offset, found, err := s.laterGroup(bad.offset, s.group); err != nil || (found && offset < bad.offset) {
				t.Fatalf("later group at %d, %v", offset, err)
			}
			return
		case errors.Is(err, io.EOF), errors.As(err, &damage):
			return
		case err != nil:
			t.Fatal(err)
		}
		if g.header.Kind != kindFrames || !sameAsEncoded(t, s, g, before, content) {
			return
		}
	}
}

// sameAsEncoded encodes the frames of a group again. It reports false where the frames are refused.
func sameAsEncoded(t *testing.T, s *scanner, g scannedGroup, sequence uint64, content string) bool {
	var frames []Frame
	err := s.frames(g, func(_ int64, f Frame) error {
		if f.Sequence != sequence {
			t.Fatalf("got frame %d, want %d", f.Sequence, sequence)
		}
		sequence++
		frames = append(frames, f)
		return nil
	})
	if err != nil {
		return false
	}
	header := g.header
	header.BodyBytes = 0
	encoded, _ := encodeGroup(t, header, frames...)
	got := content[g.offset:][:len(encoded)]
	// Padding and reserved bytes are covered by the checksum, but not looked at.
	if len(encoded) != int(groupBytes(int64(len(g.body)))) || encoded[:groupHeaderBytes] != got[:groupHeaderBytes] {
		t.Fatalf("the encoder makes %d bytes of %d frames, the file has %d",
			len(encoded), len(frames), groupBytes(int64(len(g.body))))
	}
	return true
}
