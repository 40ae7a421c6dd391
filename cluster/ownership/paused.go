package ownership

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/cluster/catalog"
)

// pausing are the names of annotations and labels by which people tell a controller to leave
// an object alone. Many then do nothing about a deletion either, as Crossplane
// (github.com/crossplane/crossplane#4839), providers of Cluster API
// (github.com/kubernetes-sigs/cluster-api-provider-aws#4584) and Infinispan
// (github.com/infinispan/infinispan-operator#2585).
var pausing = regexp.MustCompile(`(?i)^(reconcil\w*[-_.]?)?paused?([-_.]?reconcil\w*)?$|^(skip|stop|disable|do-not|no)[-_.]?reconcil\w*$`)

// pausedBy is the annotation or label of an object, as "annotation KEY", that tells whoever
// removes a finalizer that it is paused, "" if none does. Only a key of the domain of the
// object's API group, or of the finalizer, is meant for that.
func pausedBy(m metav1.Object, resource, finalizer string) string {
	_, group, _ := strings.Cut(resource, ".")
	own, _, _ := strings.Cut(finalizer, "/")
	for _, kept := range []struct {
		what  string
		texts map[string]string
	}{{"annotation", m.GetAnnotations()}, {"label", m.GetLabels()}} {
		for _, key := range slices.Sorted(maps.Keys(kept.texts)) {
			domain, name, prefixed := strings.Cut(key, "/")
			if prefixed && kept.texts[key] == "true" && pausing.MatchString(name) && (site(domain) == site(group) || site(domain) == site(own)) {
				return kept.what + " " + key
			}
		}
	}
	return ""
}

// site is the end of a domain, as far as a project shares it.
func site(domain string) string {
	labels := strings.Split(domain, ".")
	return strings.Join(labels[max(0, len(labels)-2):], ".")
}

// paused is the obstacle that an owner whom the catalog does not know may see in what
// pausedBy has found.
func paused(by string) obstacle {
	return obstacle{Obstacle: catalog.Obstacle{
		ID: "paused", Symptom: by + " says that it is paused", Mend: "Take " + by + " off it", Source: by + " is true",
	}}
}
