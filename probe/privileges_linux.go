package probe

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// needed are the capabilities that a look takes, each time anew since the node changes: to
// search directories of others, and to see into other processes (/proc/PID/root, cwd, fd, wchan).
const needed = 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_PTRACE

// Drop gives up for good what a look does not take: every other capability, now and for what
// might be executed, and any way to come by more (capabilities(7), PR_SET_NO_NEW_PRIVS). What
// there is none of already, as in a pod, needs no right to be dropped.
//
// It stays root: the runtime's socket is root's. Landlock, which could forbid to write files,
// forbids to see into other processes with it (security/landlock/task.c).
func Drop() error {
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
	if has[0].Effective&(1<<unix.CAP_SETPCAP) != 0 { // without it, no_new_privs bounds what is executed
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if needed&(1<<c) != 0 {
				continue
			}
			if errno := prctl(unix.PR_CAPBSET_DROP, c, 0); errno != 0 && errno != unix.EINVAL { // EINVAL: this kernel has not so many
				return fmt.Errorf("drop capability %d from the bounding set: %w", c, errno)
			}
		}
	}
	if errno := prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); errno != 0 {
		return fmt.Errorf("drop the ambient capabilities: %w", errno)
	}
	for i := range has {
		keep := has[i].Permitted & uint32(uint64(needed)>>(32*i))
		has[i] = unix.CapUserData{Effective: keep, Permitted: keep}
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&has[0])), 0); errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	return nil
}
