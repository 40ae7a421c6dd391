package main

import "syscall"

// boundMemory has the kernel end the process if it needs more than limit bytes (setrlimit(2), RLIMIT_DATA),
// until undo. The Go runtime's limit is soft, and Rego has none.
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
