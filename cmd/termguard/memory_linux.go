package main

import "syscall"

// boundMemory ends the process when it comes to need more than limit bytes of
// memory, and returns what takes that back. It is the kernel that counts
// (setrlimit(2), RLIMIT_DATA): a limit of the Go runtime's own is only a wish, and
// Rego has none.
func boundMemory(limit uint64) (undo func()) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &before); err != nil || before.Cur <= limit {
		return func() {}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		return func() {}
	}
	return func() { _ = syscall.Setrlimit(syscall.RLIMIT_DATA, &before) }
}
