package main

import (
	"os"
	"testing"

	typist "github.com/termguard/termguard/internal/typing"
)

// typing is a terminal, and the keys of it.
func typing(t *testing.T) (terminal, keys *os.File) {
	t.Helper()
	terminal, keys, err := typist.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close(); keys.Close() })
	return terminal, keys
}

// typed is a terminal at which some lines were typed.
func typed(t *testing.T, lines string) *os.File {
	t.Helper()
	terminal, keys := typing(t)
	if _, err := keys.WriteString(lines); err != nil {
		t.Fatal(err)
	}
	return terminal
}
