package main

import (
	"os"

	"golang.org/x/sys/unix"
)

func flush(terminal *os.File) {
	_ = unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
