package probe

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yield uses nice 19 and the idle disk class (ioprio_set(2)).
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

// requiredCapabilities are for directories of other users, and for /proc/PID/root, cwd, fd and wchan of their
// processes.
const requiredCapabilities = 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_PTRACE

// DropPrivileges takes the lowest priority, or complains, and permanently drops rights that an inspection does not
// need. Neither works with cgo; releases are built without.
func DropPrivileges(complain func(error)) error {
	if err := yield(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		complain(err)
	}
	if err := drop(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// drop drops capabilities permanently, also for executed programs, and prevents new ones (capabilities(7),
// PR_SET_NO_NEW_PRIVS). If they are dropped already, as in a pod, it needs no privilege.
//
// The process stays root because the runtime's socket belongs to root. Landlock could forbid writing files,
// but also forbids inspecting other processes (security/landlock/task.c).
func drop() error {
	prctl := func(option, value, third uintptr) syscall.Errno {
		_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, option, value, third, 0, 0, 0)
		return errno
	}
	if errno := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		return fmt.Errorf("give up new privileges: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData // 32 capabilities each
	if err := unix.Capget(&header, &has[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	if has[0].Effective&(1<<unix.CAP_SETPCAP) != 0 { // without it, no_new_privs bounds executed programs
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if requiredCapabilities&(1<<c) != 0 {
				continue
			}
			if errno := prctl(unix.PR_CAPBSET_DROP, c, 0); errno != 0 && errno != unix.EINVAL { // unknown to this kernel
				return fmt.Errorf("drop capability %d from the bounding set: %w", c, errno)
			}
		}
	}
	if errno := prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); errno != 0 {
		return fmt.Errorf("drop the ambient capabilities: %w", errno)
	}
	for i := range has {
		keep := has[i].Permitted & uint32(uint64(requiredCapabilities)>>(32*i))
		has[i] = unix.CapUserData{Effective: keep, Permitted: keep}
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&has[0])), 0); errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	return nil
}

// attributesOf (statx(2)) opens no file, follows no link, triggers no automount, and calls no file server.
func attributesOf(dir *os.File, name string) (attributes, error) {
	var x unix.Statx_t
	err := unix.Statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &x)
	const both = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	return attributes{
		immutable: x.Attributes&unix.STATX_ATTR_IMMUTABLE != 0, appendOnly: x.Attributes&unix.STATX_ATTR_APPEND != 0,
		supported: x.Attributes_mask&both == both, dir: x.Mode&unix.S_IFMT == unix.S_IFDIR, inode: x.Ino,
	}, err
}

// openBelow returns errSkip for a mount, a link or a removed directory.
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
