package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

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

// releaseProgram gives back the pages of the program itself that starting it has
// touched, most of them for the last time. What is needed again, the kernel brings
// back: nothing in them was written (madvise(2), MADV_DONTNEED).
func releaseProgram() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 6 || fields[5] != program || strings.Contains(fields[1], "w") {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err == nil {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
