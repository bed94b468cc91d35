package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A role is what the test binary does as a child of itself: something that must not happen in the process of the
// tests. It obeys commands, a line of JSON on standard input each, and answers each with one on its first extra file.
// When its standard input ends it ends.
//
// A child that serves a file system can't be the process that waits for it: a Go program whose threads all wait in the
// kernel for its own answers waits for ever. And a child may have a mount namespace of its own, which takes its mounts
// along when it ends, also by SIGKILL: no test run leaves a mount or a loop device behind, however it ends.
var roles = map[string]func(commands *json.Decoder, answers *json.Encoder) error{
	"disk":   serveDisk,
	"keeper": keepMounts,
}

const (
	roleVariable   = "LINEWEIR_E2E_ROLE"
	commandLimit   = 3 * time.Minute
	answersFile    = 3 // the first extra file of a child
	privateMounts  = syscall.CLONE_NEWNS
	mountPointMode = 0o755
)

// playRole ends the process if it was started as a child with a role.
func playRole() {
	name := os.Getenv(roleVariable)
	if name == "" {
		return
	}
	answers := os.NewFile(answersFile, "answers")
	err := roles[name](json.NewDecoder(os.Stdin), json.NewEncoder(answers))
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// reply is the answer to one command.
type reply struct {
	Error string    `json:"error,omitempty"`
	State diskState `json:"state"`
}

// helper is a child with a role.
type helper struct {
	*process
	commands *json.Encoder
	answers  *os.File
	decoder  *json.Decoder
}

// startHelper starts a child with a role and with mounts of its own.
func startHelper(t *testing.T, role string) *helper {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	answers, childAnswers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answers.Close() })
	defer childAnswers.Close()
	cmd := exec.Command(path)
	cmd.Env = append(foreignEnvironment(), roleVariable+"="+role)
	cmd.ExtraFiles = []*os.File{childAnswers}
	commands, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: privateMounts}
	h := &helper{commands: json.NewEncoder(commands), answers: answers, decoder: json.NewDecoder(answers)}
	process, err := tryProcess(t, cmd)
	require(t, "fuse", err)
	h.process = process
	return h
}

// try sends a command and returns its answer.
func (h *helper) try(t *testing.T, command any) (reply, error) {
	t.Helper()
	var got reply
	if err := h.commands.Encode(command); err != nil {
		t.Fatalf("command %+v: %v", command, err)
	}
	if err := h.answers.SetReadDeadline(time.Now().Add(commandLimit)); err != nil {
		t.Fatal(err)
	}
	if err := h.decoder.Decode(&got); err != nil {
		t.Fatalf("answer to the command %+v: %v", command, err)
	}
	if got.Error != "" {
		return got, errors.New(got.Error)
	}
	return got, nil
}

// do is try for a command that must succeed.
func (h *helper) do(t *testing.T, command any) reply {
	t.Helper()
	got, err := h.try(t, command)
	if err != nil {
		t.Fatalf("command %+v: %v", command, err)
	}
	return got
}

// within returns the path as the test and the server reach it: through the root of the child, whose mounts nobody else
// has.
func (h *helper) within(path string) string {
	return fmt.Sprintf("/proc/%d/root%s", h.cmd.Process.Pid, path)
}

// sendReply answers one command.
func sendReply(answers *json.Encoder, state diskState, err error) error {
	r := reply{State: state}
	if err != nil {
		r.Error = err.Error()
	}
	return answers.Encode(r)
}
