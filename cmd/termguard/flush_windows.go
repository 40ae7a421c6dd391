package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// flush drops input of a console that was not read yet.
func flush(terminal *os.File) {
	_ = windows.FlushConsoleInputBuffer(windows.Handle(terminal.Fd()))
}
