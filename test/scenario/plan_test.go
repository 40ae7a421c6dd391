package scenario

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/scan"
)

// TestScans: whoever asks gets a scan that began after that, and shares it with all who
// asked before it began.
func TestScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s scans
		begun, end := 0, make(chan struct{})
		got := make([]int, 4)
		ask := func(i int) {
			go func() {
				found, err := s.next(func() (*scan.Scan, error) {
					begun++
					found := &scan.Scan{Items: make([]scan.Item, begun)}
					<-end
					return found, nil
				})
				if err != nil {
					t.Error(err)
				}
				got[i] = len(found.Items)
			}()
		}
		ask(0)
		synctest.Wait()
		for i := range 3 {
			ask(1 + i)
		}
		synctest.Wait()
		if begun != 1 {
			t.Errorf("%d are under way at once", begun)
		}
		close(end)
		synctest.Wait()
		if diff := cmp.Diff([]int{1, 2, 2, 2}, got); diff != "" {
			t.Errorf("which scan each got: -want, +got:\n%s", diff)
		}
	})
}
