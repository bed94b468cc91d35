package segment

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"lineweir/internal/vfs"
)

// A manifest is one file: a checkpoint, written whole before the file got its name, and the edits since, each made
// durable before the next is written. So only the last record can be torn, and none of the checkpoint can. FORMAT.md
// has the bytes.
//
// The checkpoint lies in front of its edits, rather than in a file of its own, so that no crash can leave one without
// the other. The file of the highest number is the manifest; a lower one is what it replaced.
type manifest struct {
	fs              vfs.FS
	dir             string // of the manifest files
	number          uint64
	file            vfs.File
	sizeBytes       int64
	checkpointBytes int64
	rotateBytes     int64 // size at which the next checkpoint is due
	records         uint64
}

const (
	manifestMagic       = "lwmanif\n"
	manifestVersion     = 2
	manifestHeaderBytes = 24
	recordMagic         = "lwed"
	recordHeaderBytes   = 20
	recordPayloadMax    = 1 << 30
	rotateBytesMin      = 1 << 20
	recordSegmentsMax   = 1000   // in one record of a checkpoint
	recordColumnsMax    = 20_000 // of all segments in one record of a checkpoint
)

func manifestChecksum(parts ...[]byte) uint32 {
	var sum uint32
	for _, part := range parts {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), part)
	}
	return sum
}

// appendManifestHeader writes:
//
//	0  magic "lwmanif\n"
//	8  version, uint32
//	12 number of the file, uint64
//	20 CRC32C of bytes 0 to 20
func appendManifestHeader(dst []byte, number uint64) []byte {
	start := len(dst)
	dst = append(dst, manifestMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, manifestVersion)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	return binary.LittleEndian.AppendUint32(dst, manifestChecksum(dst[start:]))
}

func checkManifestHeader(data []byte, number uint64) error {
	if len(data) < manifestHeaderBytes || string(data[:8]) != manifestMagic {
		return errors.New("it does not begin as a manifest")
	}
	if manifestChecksum(data[:20]) != binary.LittleEndian.Uint32(data[20:]) {
		return errors.New("the checksum of its header does not match")
	}
	if version := binary.LittleEndian.Uint32(data[8:]); version != manifestVersion {
		return fmt.Errorf("%w: it has version %d, and this program reads version %d only", ErrManifestVersion, version,
			manifestVersion)
	}
	if got := binary.LittleEndian.Uint64(data[12:]); got != number {
		return fmt.Errorf("its header says that it is manifest %d", got)
	}
	return nil
}

// appendRecord writes:
//
//	0  magic "lwed"
//	4  length of the payload, uint32
//	8  number of the record in its file from 1, uint64
//	16 CRC32C of bytes 0 to 16 and the payload
//	20 payload
func appendRecord(dst []byte, number uint64, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, recordMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint64(dst, number)
	crc := manifestChecksum(dst[start:], payload)
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	return append(dst, payload...)
}

// parseRecord returns the number and payload of the record at the beginning of data, if a whole one lies there.
func parseRecord(data []byte) (number uint64, payload []byte, ok bool) {
	if len(data) < recordHeaderBytes || string(data[:4]) != recordMagic {
		return 0, nil, false
	}
	length := binary.LittleEndian.Uint32(data[4:])
	if length > recordPayloadMax || int64(length) > int64(len(data)-recordHeaderBytes) {
		return 0, nil, false
	}
	payload = data[recordHeaderBytes:][:length]
	if manifestChecksum(data[:16], payload) != binary.LittleEndian.Uint32(data[16:]) {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint64(data[8:]), payload, true
}

func encodeRecord(r record) ([]byte, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(payload) > recordPayloadMax {
		return nil, fmt.Errorf("the edit needs %d bytes, and at most %d can be written", len(payload), recordPayloadMax)
	}
	return payload, nil
}

// openManifest makes the replayed file the one to append to. A torn tail goes first. The rest is synced, because the
// process that wrote it may have ended between a write and its sync.
func openManifest(fsys vfs.FS, r *replayed) (*manifest, error) {
	file, err := fsys.OpenFile(r.path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	if r.tornBytes > 0 {
		err = file.Truncate(r.validBytes)
	}
	if err = errors.Join(err, file.Sync()); err != nil {
		return nil, errors.Join(fmt.Errorf("make manifest %s durable: %w", r.path, err), file.Close())
	}
	m := &manifest{
		fs: fsys, dir: filepath.Dir(r.path), number: r.number, file: file, sizeBytes: r.validBytes,
		checkpointBytes: r.checkpointBytes, records: r.records,
	}
	m.planRotation()
	return m, nil
}

// planRotation sets the size that makes the next checkpoint due: then the edits have as many bytes as the checkpoint
// before them, so that checkpoints cost no more than the edits do.
func (m *manifest) planRotation() {
	m.rotateBytes = m.sizeBytes + max(m.checkpointBytes, rotateBytesMin)
}

// append makes a payload durable. After an error nobody knows whether it is.
func (m *manifest) append(payload []byte) error {
	data := appendRecord(make([]byte, 0, recordHeaderBytes+len(payload)), m.records+1, payload)
	if _, err := m.file.WriteAt(data, m.sizeBytes); err != nil {
		return fmt.Errorf("write record %d of manifest %d: %w", m.records+1, m.number, err)
	}
	if err := m.file.Sync(); err != nil {
		return fmt.Errorf("sync record %d of manifest %d: %w", m.records+1, m.number, err)
	}
	m.records++
	m.sizeBytes += int64(len(data))
	return nil
}

// rotationDue tells when a checkpoint should be written.
func (m *manifest) rotationDue() bool { return m.sizeBytes >= m.rotateBytes }

// rotate goes on in a new file that begins with a checkpoint of c. An errRotationUnknown leaves open which of the two
// files the next start will take for the manifest, so nothing may be appended to either; after any other error the
// old file is still the one.
func (m *manifest) rotate(c *catalog, unlinked []uint64) error {
	next, err := createManifest(m.fs, m.dir, m.number+1, c, unlinked)
	if err != nil {
		m.planRotation()
		return err
	}
	old := *m
	*m = *next
	if err := errors.Join(old.file.Close(), m.fs.Remove(manifestPath(old.dir, old.number))); err != nil {
		return fmt.Errorf("remove manifest %d, which manifest %d replaces: %w", old.number, m.number, err)
	}
	return nil
}

func (m *manifest) close() error { return m.file.Close() }

func manifestPath(dir string, number uint64) string {
	return filepath.Join(dir, numberedName(number, manifestSuffix))
}

// listManifests returns the numbers of the manifest files, ascending, and the names of temporary files.
func listManifests(fsys vfs.FS, dir string) (numbers []uint64, temporary []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list manifests: %w", err)
	}
	for _, entry := range entries {
		if number, ok := parseNumberedName(entry.Name(), manifestSuffix); ok {
			numbers = append(numbers, number)
		}
		if isTemporary(entry.Name()) {
			temporary = append(temporary, entry.Name())
		}
	}
	return numbers, temporary, nil
}
