package release

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/page"
)

// maxListed bounds the records listed in a namespace. Helm keeps 10 of each release by default.
const maxListed = 10_000

// Record is Helm's record of one revision.
type Record struct {
	Resource        string // secrets, or configmaps if Helm is configured so
	Namespace, Name string
	Release         string
	Version         int
	Status          string
}

// RecordOf returns the record that an object is, by Helm's labels.
func RecordOf(resource string, object metav1.Object) (Record, bool) {
	labels := object.GetLabels()
	version, err := strconv.Atoi(labels["version"])
	return Record{resource, object.GetNamespace(), object.GetName(), labels["name"], version, labels["status"]},
		(resource == "secrets" || resource == "configmaps") && labels["owner"] == "helm" && labels["name"] != "" && err == nil
}

func (r Record) String() string { return fmt.Sprintf("%s/%s -n %s", r.Resource, r.Name, r.Namespace) }

func (r Record) Read(ctx context.Context, core typedcorev1.CoreV1Interface) (*Release, error) {
	value, err := r.value(ctx, core)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r, err)
	}
	stored, err := Decode(value)
	if err != nil {
		return nil, fmt.Errorf("%s, where Helm keeps release %q: %w", r, r.Release, err)
	}
	if stored.Name != r.Release || stored.Version != r.Version {
		return nil, fmt.Errorf("%s holds revision %d of release %q: want %d of %q", r, stored.Version, stored.Name, r.Version, r.Release)
	}
	return stored, nil
}

func (r Record) value(ctx context.Context, core typedcorev1.CoreV1Interface) ([]byte, error) {
	if r.Resource == "configmaps" {
		kept, err := core.ConfigMaps(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return []byte(kept.Data["release"]), nil
	}
	secret, err := core.Secrets(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if secret.Type != "helm.sh/release.v1" {
		return nil, fmt.Errorf("it is of type %q: termguard reads releases of Helm 3 and 4, helm.sh/release.v1", secret.Type)
	}
	return secret.Data["release"], nil
}

// Find reads the newest record of a release. The error names existing ones.
func Find(ctx context.Context, config *rest.Config, namespace, name string) (*Release, error) {
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	all, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	var there []string
	for _, resource := range []string{"secrets", "configmaps"} {
		objects := all.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace)
		list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm", Limit: maxListed})
		if apierrors.IsForbidden(err) && resource == "configmaps" {
			break // by default Helm stores nothing there
		}
		if err != nil {
			return nil, fmt.Errorf("list the records of releases in namespace %q: %w (with more rights: helm get manifest %s -n %s | termguard check -f - --helm)", namespace, err, name, namespace)
		}
		newest := Record{Version: -1}
		for i := range list.Items {
			there = append(there, list.Items[i].Labels["name"])
			if r, is := RecordOf(resource, &list.Items[i]); is && r.Release == name && r.Version > newest.Version {
				newest = r
			}
		}
		if newest.Name != "" {
			newest.Namespace = namespace
			return newest.Read(ctx, core)
		}
	}
	old := metav1.ListOptions{LabelSelector: "OWNER=TILLER,NAME=" + name, Limit: 1}
	if list, err := all.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).List(ctx, old); err == nil && len(list.Items) > 0 {
		return nil, fmt.Errorf("release %q is of Helm 2, whose records termguard does not read: convert it first (helm 2to3 convert %s)", name, name)
	}
	slices.Sort(there)
	there = slices.Compact(there)
	reason := "there are no releases of Helm 3 or 4"
	if len(there) > 0 {
		reason = "there are " + page.List(there, 20)
	}
	return nil, fmt.Errorf("release %q not found in namespace %q%s: %s (see: helm list -A)", name, namespace, nearest.Hint(name, there), reason)
}
