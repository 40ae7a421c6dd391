package answer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/answer/release"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/shell"
)

// FromRelease returns the objects that helm uninstall deletes, by Helm's record.
func FromRelease(ctx context.Context, config *rest.Config, namespace, name string) (Question, error) {
	r, err := release.Find(ctx, config, namespace, name)
	if err != nil {
		return Question{}, Explain(err)
	}
	return ofRelease(r, namespace)
}

func ofRelease(r *release.Release, namespace string) (Question, error) {
	name := r.Name
	u, err := r.Uninstall()
	if err != nil {
		return Question{}, fmt.Errorf("release %q in namespace %q: %w", name, namespace, err)
	}
	q, err := uninstall(u, namespace)
	q.Of = fmt.Sprintf("release %s -n %s, revision %d, %s", name, namespace, r.Version, r.Info.Status)
	q.Command = fmt.Sprintf("helm uninstall %s -n %s", name, namespace)
	switch r.Info.Status {
	case "deployed":
	case "uninstalled":
		return Question{}, fmt.Errorf("release %q in namespace %q is uninstalled: helm has only kept its history", name, namespace)
	case "uninstalling":
		q.Notes = append(q.Notes, "an uninstall has begun and not ended: its Terminating objects hang already")
	default:
		q.Notes = append(q.Notes, fmt.Sprintf("the revision is %s: some of its objects may not exist, and objects that only an earlier revision had are left", r.Info.Status))
	}
	return q, err
}

// FromHelmManifest is FromRelease for helm get manifest or helm template, in a file, a folder, or stdin ("-").
func FromHelmManifest(path, namespace string, stdin io.Reader) (Question, error) {
	var all bytes.Buffer
	err := Files{Stdin: stdin}.each(path, func(_ string, text []byte) error {
		all.Write(text)
		all.WriteString("\n---\n")
		return nil
	})
	if err != nil {
		return Question{}, err
	}
	u, err := release.Order(all.String(), false)
	if err != nil {
		return Question{}, fmt.Errorf("%s: %w", path, err)
	}
	q, err := uninstall(u, namespace)
	if err == nil && len(q.Names) == 0 {
		err = fmt.Errorf("%s: no object in it that helm uninstall deletes", path)
	}
	return q, err
}

func uninstall(u release.Uninstall, namespace string) (Question, error) {
	q := Question{As: AsUninstall, Together: true, By: "helm uninstall", Notes: u.Sentences()}
	added := map[Name]bool{}
	for place, objects := range u.Deletes {
		for _, object := range objects {
			name, err := nameOf(object, namespace)
			if err != nil {
				return Question{}, fmt.Errorf("object %d of the manifest: %w", len(q.Names)+1, err)
			}
			if !added[name] {
				added[name], name.Place = true, place
				q.Names = append(q.Names, name)
			}
		}
	}
	return q, nil
}

// maxReleased bounds the kept objects of releases, some 10 KiB each.
const maxReleased = 5000

// Releases collects Helm's records as they arrive.
type Releases struct {
	mu     sync.Mutex
	newest map[types.NamespacedName]release.Record
}

// Arrived is for cluster.Options.
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
	had, ok := all.newest[key]
	// Secrets are Helm's default.
	if !ok || r.Resource == had.Resource && r.Version > had.Version || r.Resource == "secrets" && had.Resource != "secrets" {
		all.newest[key] = r
	}
}

// Read reads each release. lost are errors of single releases, err of all.
func (all *Releases) Read(ctx context.Context, config *rest.Config, served Types, user authenticationv1.UserInfo, within func(namespace string) bool) (read []Subject, lost []error, err error) {
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
	questions, errs := make([]Question, len(records)), make([]error, len(records))
	_ = ReadEach(ctx, len(records), func(ctx context.Context, i int) error {
		r := records[i]
		stored, err := r.Read(ctx, core)
		if err != nil {
			errs[i] = fmt.Errorf("release %s -n %s: %w", r.Release, r.Namespace, Explain(err))
			return nil
		}
		questions[i], errs[i] = ofRelease(stored, r.Namespace)
		return nil
	}) // each keeps its error
	objects := 0
	for i, r := range records {
		q, err := questions[i], errs[i]
		switch n := len(q.Names); {
		case err == nil && objects+n > maxReleased:
			err = fmt.Errorf("release %s -n %s: the releases before it have %d objects: run %s", r.Release, r.Namespace, objects, shell.Join([]string{"termguard", "check", "--release", r.Release, "-n", r.Namespace}))
		case err == nil:
			objects += n
			if q.Targets, q.Missing, err = served.Subjects(ctx, config, user, q.Names); err != nil {
				err = fmt.Errorf("release %s -n %s: %w", r.Release, r.Namespace, err)
			}
		}
		if err != nil {
			lost = append(lost, err)
			continue
		}
		s := Subject{Namespace: r.Namespace, Name: r.Release, Whole: &q}
		s.Type.Group, s.Type.Resource = "helm.sh", "releases"
		read = append(read, s)
	}
	return read, lost, nil
}
