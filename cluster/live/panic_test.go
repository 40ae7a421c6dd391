package live

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/background"
)

// TestPanicInWatch checks that a panic of a part makes only the object's resource unseen, and that
// the facts are complete once the part handles the object.
func TestPanicInWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted atomic.Int32
		ctx := background.With(t.Context(), func(string, any, []byte) { counted.Add(1) })
		want := func(panics int32) {
			t.Helper()
			if got := counted.Load(); got != panics {
				t.Errorf("%d panics were counted, want %d", got, panics)
			}
		}
		left := 2
		w := cluster.NewWorld(cluster.Options{Arrived: func(_ cluster.Resource, m metav1.Object) {
			if m.GetName() == "poison" && left > 0 {
				left--
				panic("boom")
			}
		}})
		c := feeding(w, 1)
		f := &feed{Resource: widgets, verbs: sets.New("list", "watch"), lister: fakeLister{watch: func(metav1.ListOptions) (watch.Interface, error) {
			return sent(
				watch.Event{Type: watch.Added, Object: widget("a")}, watch.Event{Type: watch.Added, Object: widget("poison")},
				watch.Event{Type: watch.Added, Object: widget("b")}, watch.Event{Type: watch.Bookmark, Object: bookmark()},
			), nil
		}}}
		c.feeds[f.String()] = f
		go c.feed(ctx, f)
		synctest.Wait()
		want(1)
		if got := unseenReason(w); got != "error" {
			t.Errorf("a resource whose watch failed is unseen for %v", got)
		}
		time.Sleep(time.Minute) // the bubble's own
		synctest.Wait()
		want(2)
		if got := unseenReason(w); got != nil {
			t.Errorf("once it is read, it is unseen for %v", got)
		}
		if got := at(w, "counts", "demo", "widgets.x.io"); got != 3 {
			t.Errorf("%v widgets are counted, want 3", got)
		}
		w.Settle()
		if groups, _ := at(w, "finalized", "demo", "x.io/f", "widgets.x.io").(map[string]any); len(groups) != 1 {
			t.Errorf("groups of widgets with finalizers: %v", groups)
		} else {
			for _, group := range groups {
				if got := group.(map[string]any)["count"]; got != 3 {
					t.Errorf("%v widgets with finalizers are counted, want 3", got)
				}
			}
		}
	})
}
