package main

import (
	"os"

	"golang.org/x/sys/windows"
)

func flush(terminal *os.File) {
	_ = windows.FlushConsoleInputBuffer(windows.Handle(terminal.Fd()))
}
