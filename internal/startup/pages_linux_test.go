package startup

import (
	"testing"

	"github.com/prometheus/procfs"
)

// written is in the binary's data, and no longer what it is in the file.
var written = "as in the file"

// Pages that nothing needs now are no longer resident, and what was written is there.
func TestLeavePages(t *testing.T) {
	written = "since"
	before := residentPages(t)
	if err := LeavePages(); err != nil {
		t.Fatal(err)
	}
	if after := residentPages(t); after > before*9/10 {
		t.Errorf("%d KiB of the binary are resident, of %d before", after>>10, before>>10)
	}
	if written != "since" {
		t.Errorf("what was written is %q again", written)
	}
}

// residentPages are the bytes of files, such as the binary, that this process has mapped
// and that are resident.
func residentPages(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	status, err := self.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return status.RssFile
}
