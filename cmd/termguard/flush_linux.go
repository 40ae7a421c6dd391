package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops input of a terminal that was not read yet.
func flush(terminal *os.File) {
	_ = unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
