package ownership

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// pausing matches annotations and labels that pause a controller for an object. Many then ignore its deletion,
// too (github.com/crossplane/crossplane#4839, github.com/kubernetes-sigs/cluster-api-provider-aws#4584,
// github.com/infinispan/infinispan-operator#2585).
var pausing = regexp.MustCompile(`(?i)^(reconcil\w*[-_.]?)?paused?([-_.]?reconcil\w*)?$|^(skip|stop|disable|do-not|no)[-_.]?reconcil\w*$`)

// pausesOf returns them by the key's site, once: an object may have any number of these and of finalizers.
func pausesOf(m metav1.Object) map[string]string {
	pauses := map[string]string{}
	for _, kept := range []struct {
		what  string
		texts map[string]string
	}{{"annotation", m.GetAnnotations()}, {"label", m.GetLabels()}} {
		for key, text := range kept.texts {
			domain, name, prefixed := strings.Cut(key, "/")
			if prefixed && text == "true" && pausing.MatchString(name) {
				pauses[site(domain)] = first(pauses[site(domain)], kept.what+" "+key)
			}
		}
	}
	return pauses
}

func pausedBy(pauses map[string]string, resource, finalizer string) string {
	own, _, _ := strings.Cut(finalizer, "/")
	return first(pauses[site(facts.GroupOf(resource))], pauses[site(own)])
}

func first(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// site returns the end of a domain that a project shares.
func site(domain string) string {
	labels := strings.Split(domain, ".")
	return strings.Join(labels[max(0, len(labels)-2):], ".")
}

func paused(by string) obstacle {
	return obstacle{Obstacle: catalog.Obstacle{
		ID: "paused", Symptom: by + " pauses it", Mend: "Remove " + by, Source: by + " is true",
	}}
}
