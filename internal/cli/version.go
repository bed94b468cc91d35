package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

func (versionCommand) Run(in *invocation) error {
	_, err := fmt.Fprintf(in.stdout, "lineweir %s %s %s/%s\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// Version returns the version that the Go tool stamped into the binary: a tag, or a pseudo-version that names the
// commit; "(devel)" where it was told or able to stamp neither.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
