package live

import (
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/termguard/termguard/cluster"
)

// TestManyLeases checks that a few thousand leases of a tenant do not hide the leases of others.
func TestManyLeases(t *testing.T) {
	const pages = 10
	client, page := fake.NewClientset(), 0
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &coordinationv1.LeaseList{}
		if page++; page < pages {
			list.Continue = strconv.Itoa(page)
		}
		return true, list, nil
	})
	if err := readLeases(t.Context(), client.CoordinationV1(), cluster.NewWorld(cluster.Options{})); err != nil || page != pages {
		t.Errorf("%d pages were read: %v; want %d", page, err, pages)
	}
}
