package scenario

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestShared checks that each caller gets a run that began after its call, shared with all who called before it
// began.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		begun, end := 0, make(chan struct{})
		got := make([]int, 4)
		ask := func(i int) {
			go func() {
				result, err := s.next(func() (int, error) {
					begun++
					result := begun
					<-end
					return result, nil
				})
				if err != nil {
					t.Error(err)
				}
				got[i] = result
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
			t.Errorf("which run each got: -want, +got:\n%s", diff)
		}
	})
}
