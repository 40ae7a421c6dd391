//go:build !linux

package main

import "runtime/debug"

// boundMemory sets only a soft limit: no hard one is portable.
func boundMemory() error {
	debug.SetMemoryLimit(1 << 30)
	return nil
}
