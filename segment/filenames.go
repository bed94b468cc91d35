package segment

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Every name that this package gives to something on disk is made here. All of them stand for the same thing on file
// systems that fold case or normalise Unicode, and none is special to an operating system.
const (
	manifestDirName   = "manifest"
	l0DirName         = "l0"
	l1DirName         = "l1"
	quarantineDirName = "quarantine"
	mixedDirName      = "mixed"

	segmentSuffix   = ".parquet"
	manifestSuffix  = ".manifest"
	temporarySuffix = ".tmp"

	idDigits         = 10
	nameBytesMax     = 80 // longest directory name made from a database or measurement
	hashedNamePrefix = nameBytesMax - 1 - 16
)

// numberedName is the name of a file that is identified by a number: digits first, so that names sort by number up to
// ten digits.
func numberedName(number uint64, suffix string) string {
	return fmt.Sprintf("%0*d%s", idDigits, number, suffix)
}

// parseNumberedName is the inverse of numberedName: it accepts exactly what that makes.
func parseNumberedName(name, suffix string) (number uint64, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
	if !found {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || numberedName(number, suffix) != name {
		return 0, false
	}
	return number, true
}

// isTemporary tells a file that was being written when the process ended.
func isTemporary(name string) bool { return strings.HasSuffix(name, temporarySuffix) }

// segmentPath is where the file of a segment lies under the data directory. A promoted segment stays where its flush
// put it, so that promotion is an edit and nothing else.
func segmentPath(m Meta) string {
	if m.Level == 0 || m.Promoted {
		return filepath.Join(l0DirName, numberedName(m.ID, segmentSuffix))
	}
	partition := mixedDirName
	if !m.Mixed {
		partition = partitionName(m.Partition)
	}
	return filepath.Join(l1DirName, encodeName(m.Database), encodeName(m.Measurement), partition,
		numberedName(m.ID, segmentSuffix))
}

// partitionName is the date of a partition. Every time of 64 bits of nanoseconds falls in a year of four digits.
func partitionName(partition int64) string {
	return time.Unix(partition*int64(partitionLength/time.Second), 0).UTC().Format(time.DateOnly)
}

// encodeName makes a directory name of a database or measurement. It keeps lower-case letters, digits, '_', '-' and
// dots inside, and writes every other byte as % and two hexadecimal digits. Upper-case letters are encoded, so that
// no two names differ in case only. A name that would be longer than 80 bytes becomes its beginning, a '~' (which
// stands in no shorter name) and the hash of the whole. Should two hashes be equal, two measurements share a
// directory; their files still have different names.
func encodeName(name string) string {
	encoded := escapeName(name)
	if len(encoded) <= nameBytesMax {
		return encoded
	}
	return fmt.Sprintf("%s~%016x", encoded[:hashedNamePrefix], xxhash.Sum64String(name))
}

func escapeName(name string) string {
	if name == "" {
		return "%" // stands in no other name without two digits behind it
	}
	var b strings.Builder
	escapeFirst := isDeviceName(name)
	for i := range len(name) {
		c := name[i]
		insideDot := c == '.' && i > 0 && i < len(name)-1
		if (insideDot || isPlain(c)) && (i > 0 || !escapeFirst) {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// isDeviceName tells the names that Windows gives to devices, whatever extension follows them.
func isDeviceName(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (base[:3] == "com" || base[:3] == "lpt") && '0' <= base[3] && base[3] <= '9'
}
