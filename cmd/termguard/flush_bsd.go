//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops what was typed at a terminal and not read yet (tty(4), TIOCFLUSH with FREAD).
func flush(terminal *os.File) {
	_ = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCFLUSH, 1) // it is one
}
