package cluster

import (
	"strings"
	"testing"

	"github.com/termguard/termguard/cluster/facts"
)

// TestForeignFinalizer checks that the only controller of a kind counts as owner of the kind's own
// finalizers, but not of other known software's.
func TestForeignFinalizer(t *testing.T) {
	running := "---" + strings.NewReplacer("NAME", "mesh-console", "REPLICAS", "1", "READY", "1", "IMAGE", "corp/mesh:1").Replace(operator) +
		strings.NewReplacer("IMAGE", "corp/mesh:1", "READYCOND", "True", "CRASHES", "0", "STATE", "running: {}").Replace(operatorPod)
	widgets := strings.NewReplacer("kiali.io/finalizer", "FINALIZER", "kiali.io", "widgets.test", "Kiali", "Widget", "kialis", "widgets").Replace(kialiCRD + "---" + kiali + running)
	for finalizer, want := range map[string]string{
		"widgets.test/cleanup": Alive,
		"kiali.io/finalizer":   Unknown, // Kiali's, which is not installed
	} {
		w := world(t, strings.ReplaceAll(widgets, "FINALIZER", finalizer))
		buckets, _ := at(w, "finalized", "istio-system", finalizer, "widgets.widgets.test").(map[string]any)
		if len(buckets) != 1 {
			t.Fatalf("%s: want one group of objects, got %v", finalizer, buckets)
		}
		for _, bucket := range buckets {
			if state := facts.Lookup(bucket.(map[string]any), "ownership", "state"); state != want {
				t.Errorf("%s: %v, want %s: %v", finalizer, state, want, bucket)
			}
		}
	}
}
