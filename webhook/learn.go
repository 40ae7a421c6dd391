package webhook

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/question"
)

// Learner learns without blocking who removes which finalizers. *cluster.Learner is one.
type Learner interface{ Saw(cluster.Removal) }

// podNameKey is PodNameKey (k8s.io/apiserver, pkg/authentication/serviceaccount/util.go).
const podNameKey = "authentication.kubernetes.io/pod-name"

// removalOf has finalizers removed from a Terminating object, not by a dry run.
func removalOf(r *question.Request) (cluster.Removal, bool) {
	if !r.EditsFinalizers() || r.Dry() {
		return cluster.Removal{}, false
	}
	old := &unstructured.Unstructured{Object: r.Old()}
	if old.GetDeletionTimestamp() == nil {
		return cluster.Removal{}, false
	}
	remaining := r.Finalizers(r.New())
	finalizers := slices.DeleteFunc(r.Finalizers(r.Old()), func(f string) bool { return f == "" || slices.Contains(remaining, f) })
	if len(finalizers) == 0 {
		return cluster.Removal{}, false
	}
	deletedAt := old.GetDeletionTimestamp().Time
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil { // the API server adds it
		deletedAt = deletedAt.Add(-time.Duration(*grace) * time.Second)
	}
	key, user := r.Key(), r.UserInfo
	_, fromPod := user.Extra[podNameKey]
	manager, _ := r.With()["fieldManager"].(string)
	return cluster.Removal{
		Resource: r.GroupResource(), Namespace: key.Namespace, Name: key.Name, UID: old.GetUID(),
		Finalizers: finalizers, Deleted: deletedAt,
		User: user.Username, Groups: user.Groups, Pod: fromPod, Manager: manager,
	}, true
}
