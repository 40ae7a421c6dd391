package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops unread input.
func flush(terminal *os.File) {
	_ = unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
