package wal

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lineweir/internal/vfs"
)

// Names in the directory of the log:
//
//	0000000001.wal  file with groups, by number
//	spare.wal       zero-filled, becomes the next file
//	spare.tmp       a spare that is being made; removed by Open
//	repair.tmp      a repaired log that is being written; the next repair writes it anew
//	repair.ready    a repaired log that waits for the damaged one to be set aside
const (
	fileSuffix   = ".wal"
	spareName    = "spare" + fileSuffix
	temporary    = "spare.tmp"
	repairing    = "repair.tmp"
	repaired     = "repair.ready"
	numberDigits = 10
)

func fileName(number uint64) string {
	return fmt.Sprintf("%0*d%s", numberDigits, number, fileSuffix)
}

// parseFileName is the inverse of fileName; ok is false for every other name.
func parseFileName(name string) (number uint64, ok bool) {
	digits, found := strings.CutSuffix(name, fileSuffix)
	if !found || len(digits) < numberDigits {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && number > 0 && fileName(number) == name
}

// listing is what a directory holds.
type listing struct {
	numbers   []uint64 // of files with groups, ascending
	spare     bool
	temporary bool
	repaired  bool
	unknown   []string
}

func listDir(fsys vfs.FS, dir string) (listing, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return listing{}, fmt.Errorf("list the write-ahead log: %w", err)
	}
	var found listing
	for _, entry := range entries {
		number, isFile := parseFileName(entry.Name())
		switch {
		case isFile:
			found.numbers = append(found.numbers, number)
		case entry.Name() == spareName:
			found.spare = true
		case entry.Name() == repaired:
			found.repaired = true
		case entry.Name() == temporary:
			found.temporary = true
		default:
			found.unknown = append(found.unknown, filepath.Join(dir, entry.Name()))
		}
	}
	// Names of more than 10 digits don't sort as their numbers do.
	slices.Sort(found.numbers)
	return found, nil
}
