package release

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/internal/nearest"
)

// maxListed bounds the records that are listed of a namespace. Helm keeps 10 of each
// release, unless it is told otherwise.
const maxListed = 10_000

// Find reads the newest record of a release, with the user's own rights: from Secrets, or
// from ConfigMaps, where Helm was told to keep it there. The error of a release that is
// not there names those that are.
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
	for _, store := range []struct {
		resource string
		read     func(record string) ([]byte, error)
	}{
		{"secrets", func(record string) ([]byte, error) {
			secret, err := core.Secrets(namespace).Get(ctx, record, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			if secret.Type != "helm.sh/release.v1" {
				return nil, fmt.Errorf("it is of type %q: this reads releases of Helm 3 and 4, helm.sh/release.v1", secret.Type)
			}
			return secret.Data["release"], nil
		}},
		{"configmaps", func(record string) ([]byte, error) {
			kept, err := core.ConfigMaps(namespace).Get(ctx, record, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return []byte(kept.Data["release"]), nil
		}},
	} {
		objects := all.Resource(corev1.SchemeGroupVersion.WithResource(store.resource)).Namespace(namespace)
		list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm", Limit: maxListed})
		if apierrors.IsForbidden(err) && store.resource == "configmaps" {
			break // Helm keeps nothing there unless it is told to
		}
		if err != nil {
			return nil, fmt.Errorf("list the records of releases in namespace %q: %w (whoever may: helm get manifest %s -n %s | termguard check -f - --helm)", namespace, err, name, namespace)
		}
		newest, record := -1, ""
		for _, item := range list.Items {
			labels := item.Labels
			there = append(there, labels["name"])
			if version, err := strconv.Atoi(labels["version"]); err == nil && labels["name"] == name && version > newest {
				newest, record = version, item.Name
			}
		}
		if record == "" {
			continue
		}
		value, err := store.read(record)
		if err != nil {
			return nil, fmt.Errorf("read %s/%s -n %s: %w", store.resource, record, namespace, err)
		}
		r, err := Decode(value)
		if err != nil {
			return nil, fmt.Errorf("%s/%s -n %s, where Helm keeps release %q: %w", store.resource, record, namespace, name, err)
		}
		if r.Name != name || r.Version != newest {
			return nil, fmt.Errorf("%s/%s -n %s holds revision %d of release %q: want %d of %q", store.resource, record, namespace, r.Version, r.Name, newest, name)
		}
		return r, nil
	}
	old := metav1.ListOptions{LabelSelector: "OWNER=TILLER,NAME=" + name, Limit: 1}
	if list, err := all.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).List(ctx, old); err == nil && len(list.Items) > 0 {
		return nil, fmt.Errorf("release %q is of Helm 2, whose records this does not read: convert it first (helm 2to3 convert %s)", name, name)
	}
	return nil, notThere(namespace, name, there)
}

func notThere(namespace, name string, there []string) error {
	slices.Sort(there)
	there = slices.Compact(there)
	known := "there are no releases of Helm 3 or 4"
	if len(there) > 0 {
		known = "there are " + strings.Join(there[:min(len(there), 20)], ", ")
		if more := len(there) - 20; more > 0 {
			known += fmt.Sprintf(" and %d more", more)
		}
	}
	return fmt.Errorf("there is no release %q in namespace %q%s: %s (see: helm list -A)", name, namespace, nearest.Hint(name, there), known)
}
