package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// flush drops unread input.
func flush(terminal *os.File) {
	_ = windows.FlushConsoleInputBuffer(windows.Handle(terminal.Fd()))
}
