//go:build !linux

package load

import (
	"errors"
	"fmt"
)

// usageOf knows no way here.
func usageOf(pid int) (processUsage, error) {
	return processUsage{}, fmt.Errorf("measure process %d: %w on this system", pid, errors.ErrUnsupported)
}
