package lint

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// facts are those of a set of manifests, over those of a cluster where there is
// a snapshot of one. Neither changes any more.
type facts struct {
	set      *cluster.World
	snapshot *cluster.World // nil if there is none
	merged   map[string]any
}

// View calls f with the facts: those of the manifests, and what they leave open
// from the snapshot.
func (b *facts) View(f func(doc map[string]any)) {
	if b.merged == nil {
		b.set.View(func(doc map[string]any) {
			b.merged = doc
			if b.snapshot != nil {
				b.snapshot.View(func(below map[string]any) { b.merged = over(below, doc, 0) })
			}
		})
	}
	f(b.merged)
}

// Refusals are what refuses a request at once, by the manifests and the snapshot.
func (b *facts) Refusals(request map[string]any, admitted bool) []any {
	found := b.set.Refusals(request, admitted)
	if b.snapshot != nil {
		found = append(found, b.snapshot.Refusals(request, admitted)...)
	}
	return found
}

// over lays one document over another, key by key. What is equal in both, and
// what only one has, is shared, not copied.
func over(below, above map[string]any, depth int) map[string]any {
	if len(above) == 0 {
		return below
	}
	merged := maps.Clone(below)
	for key, value := range above {
		value = policies.Whole(value)
		inner, isMap := value.(map[string]any)
		under, wasMap := merged[key].(map[string]any)
		switch {
		case isMap && wasMap && depth < 3:
			merged[key] = over(under, inner, depth+1)
		case isMap && len(inner) == 0 && wasMap, depth == 0 && key == "unseen", depth == 0 && key == "now":
		default:
			merged[key] = value
		}
	}
	return merged
}

// Ownership tells who removes the finalizers of an object: what the manifests
// leave open, the snapshot may hold a verdict on. It holds those on finalizers
// that were on objects of the same kind when it was made, and cannot judge others.
func (b *facts) Ownership(obj metav1.Object, res schema.GroupResource, spec []string) map[string]any {
	verdicts := b.set.Ownership(obj, res, spec)
	if b.snapshot == nil {
		return verdicts
	}
	known := b.snapshot.Ownership(obj, res, spec)
	b.snapshot.View(func(doc map[string]any) {
		for finalizer, verdict := range verdicts {
			v, _ := verdict.(map[string]any)
			if v["state"] == cluster.Unasked && recorded(doc, finalizer, res.String()) {
				verdicts[finalizer] = known[finalizer]
			}
		}
	})
	return verdicts
}

func recorded(doc map[string]any, finalizer, resource string) bool {
	all, _ := doc["finalizers"].(map[string]any)
	byResource, _ := all[finalizer].(map[string]any)
	byEvidence, _ := byResource[resource].(map[string]any)
	return len(byEvidence) > 0
}
