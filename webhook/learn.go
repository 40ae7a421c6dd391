package webhook

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster"
)

// Learner learns who removes which finalizers. *cluster.Learner is one. It must
// not block.
type Learner interface{ Saw(cluster.Removal) }

type unteachable struct{}

func (unteachable) Saw(cluster.Removal) {}

// boundToPod is what a token that is bound to a pod tells of it
// (k8s.io/apiserver, pkg/authentication/serviceaccount/util.go, PodNameKey).
const boundToPod = "authentication.kubernetes.io/pod-name"

// removalOf is what a request takes from an object that is being deleted, false
// if that is nothing. A dry run takes nothing.
func removalOf(r request) (cluster.Removal, bool) {
	if (r.occasion != onFinalizerEdit && r.occasion != onFinalize) || r.dryRun {
		return cluster.Removal{}, false
	}
	old, now := &unstructured.Unstructured{Object: r.old}, &unstructured.Unstructured{Object: r.object}
	if old.GetDeletionTimestamp() == nil {
		return cluster.Removal{}, false
	}
	left := slices.Concat(now.GetFinalizers(), specFinalizers(r.resource, r.object))
	gone := slices.DeleteFunc(slices.Concat(old.GetFinalizers(), specFinalizers(r.resource, r.old)), func(f string) bool {
		return f == "" || slices.Contains(left, f)
	})
	if len(gone) == 0 {
		return cluster.Removal{}, false
	}
	deleted := old.GetDeletionTimestamp().Time
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil { // which the API server adds
		deleted = deleted.Add(-time.Duration(*grace) * time.Second)
	}
	user := child(r.raw, "userInfo")
	groups, _, _ := unstructured.NestedStringSlice(user, "groups")
	return cluster.Removal{
		Resource: r.resource, Namespace: r.namespace, Name: r.name, UID: types.UID(str(child(r.old, "metadata"), "uid")),
		Finalizers: gone, Deleted: deleted,
		User: str(user, "username"), Groups: groups, Pod: child(user, "extra")[boundToPod] != nil,
		Manager: str(child(r.raw, "options"), "fieldManager"),
	}, true
}
