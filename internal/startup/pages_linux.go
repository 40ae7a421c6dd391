// Package startup gives back memory that a start took.
package startup

import (
	"fmt"
	"syscall"

	"github.com/prometheus/procfs"
)

// LeavePages unmaps the pages of the binary, which nobody writes: the start reads most of
// them once, and is over. What is needed of them comes back from the page cache, where they
// stay until the kernel needs the memory (madvise(2), MADV_DONTNEED of a mapped file).
func LeavePages() error {
	self, err := procfs.Self()
	if err != nil {
		return fmt.Errorf("find this process: %w", err)
	}
	binary, err := self.Executable()
	if err != nil {
		return fmt.Errorf("find its binary: %w", err)
	}
	mappings, err := self.ProcMaps()
	if err != nil {
		return fmt.Errorf("read what it has mapped: %w", err)
	}
	for _, m := range mappings {
		if m.Pathname != binary || m.Perms.Write {
			continue // what is written there would be lost
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("unmap pages of %s: %w", binary, errno)
		}
	}
	return nil
}
