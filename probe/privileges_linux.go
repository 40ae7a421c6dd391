package probe

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// requiredCapabilities are the capabilities that each inspection needs: to search directories of other users,
// and to read /proc/PID/root, cwd, fd and wchan of their processes.
const requiredCapabilities = 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_PTRACE

// Restrain gives this process the lowest priority, and permanently drops what it may do beyond an inspection. A
// priority that stays as it is only goes to complain. With cgo neither is supported; releases are built without.
func Restrain(complain func(error)) error {
	if err := yield(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		complain(err)
	}
	if err := drop(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// drop permanently drops every capability that an inspection does not need, also for programs it might
// execute, and prevents gaining new ones (capabilities(7), PR_SET_NO_NEW_PRIVS). If they are dropped already,
// as in a pod, it needs no privilege.
//
// The process stays root because the runtime's socket belongs to root. Landlock could forbid writing files,
// but would also forbid inspecting other processes (security/landlock/task.c).
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
			if errno := prctl(unix.PR_CAPBSET_DROP, c, 0); errno != 0 && errno != unix.EINVAL { // EINVAL: unknown to this kernel
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
