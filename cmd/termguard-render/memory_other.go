//go:build !linux

package main

import "runtime/debug"

// boundMemory bounds what is not garbage only softly: no limit of a process is known here.
func boundMemory() error {
	debug.SetMemoryLimit(1 << 30)
	return nil
}
