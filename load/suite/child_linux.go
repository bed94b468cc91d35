package suite

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the child when this process dies without stopping it.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
