package probe

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// yield gives this process the lowest processor priority (nice 19) and the idle disk class (ioprio_set(2)).
func yield() error {
	const process, idle = 1, 3 << 13 // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 19); errno != 0 {
		return fmt.Errorf("take the lowest priority: %w", errno)
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_IOPRIO_SET, process, 0, idle); errno != 0 {
		return fmt.Errorf("take the idle class of the disk: %w", errno)
	}
	return nil
}

// attributesOf reads the attributes of a file (statx(2)) without opening it, following a link, triggering an
// automount or asking a file server.
func attributesOf(dir *os.File, name string) (attributes, error) {
	var x unix.Statx_t
	err := unix.Statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &x)
	const both = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	return attributes{
		immutable: x.Attributes&unix.STATX_ATTR_IMMUTABLE != 0, appendOnly: x.Attributes&unix.STATX_ATTR_APPEND != 0,
		supported: x.Attributes_mask&both == both, dir: x.Mode&unix.S_IFMT == unix.S_IFDIR, inode: x.Ino,
	}, err
}

// openBelow opens a directory below another, on the same file system and without following links. It returns
// errSkip for a mount, a link or a directory that was removed.
func openBelow(parent *os.File, name, shown string) (*os.File, error) {
	fd, err := unix.Openat2(int(parent.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, errSkip
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(fd), shown), nil
}

func spaceOf(name string) (space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(name, &s); err != nil {
		return space{}, err
	}
	return space{blocks: percentUsed(s.Blocks, s.Bavail), inodes: percentUsed(s.Files, s.Ffree)}, nil
}
