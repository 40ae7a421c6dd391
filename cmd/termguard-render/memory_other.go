//go:build !linux

package main

import "runtime/debug"

// boundMemory sets only a soft limit: there is no portable hard limit.
func boundMemory() error {
	debug.SetMemoryLimit(1 << 30)
	return nil
}
