package segment

import (
	"errors"
	"fmt"
)

// Errors of writing and reading segment files.
var (
	// ErrSourceOrder means that a Source handed out rows out of order, or columns that its file was not announced with.
	ErrSourceOrder = errors.New("rows of a source are not in order")

	// ErrKindMismatch means that two sources hold one field under different kinds, which the schema rules out.
	ErrKindMismatch = errors.New("one field has two kinds")
)

// CorruptionError says that bytes on disk are not what was written. It is never repaired silently: the file named by
// Path has to be set aside.
type CorruptionError struct {
	Path   string
	Offset int64 // of the part that is damaged, or of the page or frame that holds it
	Reason string
}

// remedy is what an operator can do.
const remedy = "restore the data directory from a backup, or run `lineweir repair DIR`, which says what would be lost"

// Error names the file, the place in it, what is wrong there, and what can be done.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s (remedy: %s)", e.Path, e.Offset, e.Reason, remedy)
}
