package ownership

import (
	"regexp"
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

// pausesOf are the annotations and labels of an object that tell a controller to leave it
// alone, as "annotation KEY", by the site of the key: of several the first. Who writes an
// object may give it any number of both, and of finalizers: they are gone through once.
func pausesOf(m metav1.Object) map[string]string {
	found := map[string]string{}
	for _, kept := range []struct {
		what  string
		texts map[string]string
	}{{"annotation", m.GetAnnotations()}, {"label", m.GetLabels()}} {
		for key, text := range kept.texts {
			domain, name, prefixed := strings.Cut(key, "/")
			if prefixed && text == "true" && pausing.MatchString(name) {
				found[site(domain)] = first(found[site(domain)], kept.what+" "+key)
			}
		}
	}
	return found
}

// pausedBy is which of an object's pauses is meant for whoever removes a finalizer, "" if none
// is: those of the domain of the object's API group, or of the finalizer.
func pausedBy(pauses map[string]string, resource, finalizer string) string {
	_, group, _ := strings.Cut(resource, ".")
	own, _, _ := strings.Cut(finalizer, "/")
	return first(pauses[site(group)], pauses[site(own)])
}

// first is the lesser of two texts that is not "", if one is not.
func first(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
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
