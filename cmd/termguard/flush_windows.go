package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// flush drops what was typed at a console and not read yet.
func flush(terminal *os.File) {
	_ = windows.FlushConsoleInputBuffer(windows.Handle(terminal.Fd())) // it is one
}
