package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// process is a child that prints into a file and doesn't outlive its test.
type process struct {
	cmd    *exec.Cmd
	output string        // path of what it printed, both streams
	exited chan struct{} // closed once cmd.ProcessState is set
}

// printedMax is how much of a child's output a failed test shows.
const printedMax = 8 << 10

func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p, err := tryProcess(t, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tryProcess is startProcess for a child that the system may not allow.
func tryProcess(t *testing.T, cmd *exec.Cmd) (*process, error) {
	t.Helper()
	output, err := os.CreateTemp(t.TempDir(), filepath.Base(cmd.Path)+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, output: output.Name(), exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // how it ended is read from its ProcessState
	}()
	t.Cleanup(func() { p.cleanUp(t) })
	return p, nil
}

func (p *process) cleanUp(t *testing.T) {
	p.kill()
	if t.Failed() {
		t.Logf("%s printed:\n%s", filepath.Base(p.cmd.Path), tail(p.printed(t), printedMax))
	}
}

// kill ends the child as a power cut would, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it is gone already
	<-p.exited
}

func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("send %v to %s: %v", signal, p.cmd.Path, err)
	}
}

// wait returns the exit status.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%s still runs after %v", p.cmd.Path, limit)
		return -1
	}
}

// running tells whether the child has not exited.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) printed(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.output)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func tail(text string, lenMax int) string {
	return text[max(0, len(text)-lenMax):]
}

// eventually polls what a child does until the condition holds.
func eventually(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", limit, what)
		case <-tick.C:
		}
	}
}
