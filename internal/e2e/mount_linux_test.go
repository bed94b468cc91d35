package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keeperCommand is what a child that keeps mounts is told.
type keeperCommand struct {
	Operation string `json:"operation"`
	Image     string `json:"image,omitempty"` // file that is the disk
	Mount     string `json:"mount"`           // directory to mount on
	Options   string `json:"options,omitempty"`
}

// keepMounts is the role of a child whose mounts nobody else has.
func keepMounts(commands *json.Decoder, answers *json.Encoder) error {
	for {
		var c keeperCommand
		if err := commands.Decode(&c); err != nil {
			return err
		}
		var err error
		switch c.Operation {
		case "mount":
			err = mountImage(c)
		case "unmount":
			err = unmount(c.Mount)
		default:
			err = fmt.Errorf("there is no operation %q", c.Operation)
		}
		if err := sendReply(answers, diskState{}, err); err != nil {
			return err
		}
	}
}

// mountImage mounts the ext4 of an image through a loop device. The kernel detaches the device when it is unmounted.
func mountImage(c keeperCommand) error {
	device, file, err := attachLoop(c.Image, filepath.Dir(c.Mount))
	if err != nil {
		return fmt.Errorf("attach a loop device to %s: %w", c.Image, err)
	}
	defer file.Close()
	if err := unix.Mount(device, c.Mount, "ext4", unix.MS_NOATIME, c.Options); err != nil {
		return fmt.Errorf("mount %s on %s with %s: %w", c.Image, c.Mount, c.Options, err)
	}
	return nil
}

// loopAttempts is how often a loop device is asked for: between asking and taking, another process can take it.
const loopAttempts = 100

// attachLoop returns the path of a loop device and its open file, which keeps it until it is mounted. A device whose
// node is missing gets one in the directory.
func attachLoop(image, directory string) (string, *os.File, error) {
	backing, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer control.Close()
	for range loopAttempts {
		var path string
		var file *os.File
		if path, file, err = attachFreeLoop(control, backing, directory); err == nil {
			return path, file, nil
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENXIO) {
			return "", nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", nil, err
}

func attachFreeLoop(control, backing *os.File, directory string) (string, *os.File, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", nil, fmt.Errorf("ask for a free loop device: %w", err)
	}
	path, err := loopNode(number, directory)
	if err != nil {
		return "", nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	configuration := unix.LoopConfig{Fd: uint32(backing.Fd())}
	configuration.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	copy(configuration.Info.File_name[:len(configuration.Info.File_name)-1], backing.Name())
	if err := unix.IoctlLoopConfigure(int(file.Fd()), &configuration); err != nil {
		return "", nil, errors.Join(fmt.Errorf("configure %s: %w", path, err), file.Close())
	}
	return path, file, nil
}

// loopNode returns the path of a device, whose node need not exist in /dev.
func loopNode(number int, directory string) (string, error) {
	path := fmt.Sprintf("/dev/loop%d", number)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	const loopMajor = 7
	path = filepath.Join(directory, fmt.Sprintf("loop%d", number))
	err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(number))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return "", fmt.Errorf("make the node %s: %w", path, err)
	}
	return path, nil
}

// unmountLimit is how long a file system may be busy after its last user was killed.
const unmountLimit = 30 * time.Second

func unmount(path string) error {
	for deadline := time.Now().Add(unmountLimit); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Unmount(path, 0)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

// canMountDisks returns nil if this process may serve a disk, attach it and mount its file system.
func canMountDisks() error {
	_, err := makeExt4()
	errs := []error{err, canServeFUSE(), openable("/dev/loop-control")}
	systems, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(systems), "ext4") {
		err = errors.New("the kernel has no ext4")
	}
	return errors.Join(append(errs, err)...)
}

// makeExt4 is the path of mkfs.ext4, which lies where only root looks for programs.
func makeExt4() (string, error) {
	const name = "mkfs.ext4"
	for _, directory := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(directory, name)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

func canServeFUSE() error {
	if os.Geteuid() != 0 {
		return errors.New("mounting needs root")
	}
	return openable("/dev/fuse")
}

func openable(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return file.Close()
}
