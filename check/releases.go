package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/check/release"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/shell"
)

// maxReleased bounds the objects of releases that are kept, some 10 KiB each.
const maxReleased = 5000

// Release is a Helm release with the objects that its uninstall deletes.
type Release struct {
	Namespace, Name string
	// Question is about helm uninstall of the release.
	Question Question
}

// Releases collects Helm's records as they arrive.
type Releases struct {
	mu     sync.Mutex
	newest map[types.NamespacedName]release.Record
}

// Arrived adds an object: see cluster.Options.
func (all *Releases) Arrived(res cluster.Resource, m metav1.Object) {
	r, is := release.RecordOf(res.String(), m)
	if !is {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.newest == nil {
		all.newest = map[types.NamespacedName]release.Record{}
	}
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Release}
	had, known := all.newest[key]
	// Secrets are Helm's default.
	if !known || r.Resource == had.Resource && r.Version > had.Version || r.Resource == "secrets" && had.Resource != "secrets" {
		all.newest[key] = r
	}
}

// Read reads the record and the objects of each release. lost are errors of single releases, err of all.
func (all *Releases) Read(ctx context.Context, config *rest.Config, served Types, user authenticationv1.UserInfo, within func(namespace string) bool) (read []*Release, lost []error, err error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	records := slices.SortedFunc(maps.Values(all.newest), func(a, b release.Record) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Release, b.Release))
	})
	records = slices.DeleteFunc(records, func(r release.Record) bool {
		return r.Status == "uninstalled" || !within(r.Namespace) // only the history is left
	})
	found, errs := make([]*Release, len(records)), make([]error, len(records))
	_ = parallel(ctx, reads, len(records), func(ctx context.Context, i int) error {
		r := records[i]
		stored, err := r.Read(ctx, core)
		if err != nil {
			errs[i] = fmt.Errorf("release %s -n %s: %w", r.Release, r.Namespace, explain(err))
			return nil
		}
		var together Together
		if together, errs[i] = ofRelease(stored, r.Namespace); errs[i] == nil {
			found[i] = &Release{Namespace: r.Namespace, Name: r.Release, Question: Question{Together: &together}}
		}
		return nil
	}) // each keeps its error
	objects := 0
	for i, one := range found {
		if one == nil {
			lost = append(lost, errs[i])
			continue
		}
		q := &one.Question
		n := len(q.Together.Names)
		if objects+n > maxReleased {
			lost = append(lost, fmt.Errorf("release %s -n %s: the releases before it have %d objects: ask %s", one.Name, one.Namespace, objects, shell.Join([]string{"termguard", "check", "--release", one.Name, "-n", one.Namespace})))
			continue
		}
		objects += n
		if q.Targets, q.Missing, err = served.Subjects(ctx, config, user, q.Together.Names); err != nil {
			lost = append(lost, fmt.Errorf("release %s -n %s: %w", one.Name, one.Namespace, err))
			continue
		}
		read = append(read, one)
	}
	return read, lost, nil
}
