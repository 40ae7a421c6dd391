package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// backend is the state of a Service that the API server calls: behind a
// webhook, an APIService or the conversion of a CustomResourceDefinition.
type backend struct{ facts map[string]any }

type service struct {
	external bool
	address  string // its ClusterIP, "" where it has none
	selector map[string]string
}

type slice struct {
	service string // "namespace/name"
	ready   bool   // at least one ready endpoint
}

// backend returns the facts about a Service's endpoints, kept up to date.
func (w *World) backend(name string) map[string]any {
	b, found := w.backends[name]
	if !found {
		b = &backend{facts: map[string]any{}}
		w.backends[name] = b
		w.refreshBackend(name)
	}
	return b.facts
}

func (w *World) refreshBackend(name string) {
	b, wanted := w.backends[name]
	if !wanted {
		return
	}
	state, reason := "down", "Service "+name+" does not exist"
	delete(b.facts, "workloads")
	if s, exists := w.services[name]; exists {
		reason = "Service " + name + " has no ready endpoint"
		for _, slice := range w.slices {
			if slice.service == name && slice.ready {
				state, reason = "up", "Service "+name+" has ready endpoints"
			}
		}
		if s.external {
			state, reason = "unknown", "Service "+name+" is an ExternalName"
		}
		if workloads := w.behind(name, s); len(workloads) > 0 {
			b.facts["workloads"] = workloads
		}
	}
	if b.facts["state"] != state || b.facts["reason"] != reason {
		w.hooksDirty, w.conversionsDirty = true, true
	}
	b.facts["state"], b.facts["reason"] = state, reason
}

// behind are the workloads whose pods a Service selects, each as resource and
// name: they are in its namespace.
func (w *World) behind(name string, s service) []any {
	if len(s.selector) == 0 {
		return nil
	}
	var found []any
	selector := labels.SelectorFromSet(s.selector)
	templates := w.templates[namespaceOf(name)]
	for _, key := range slices.Sorted(maps.Keys(templates)) {
		if selector.Matches(labels.Set(templates[key])) {
			resource, workload := splitKey(key)
			found = append(found, map[string]any{"resource": resource, "name": workload})
		}
	}
	return found
}

func (w *World) keepService(o *corev1.Service) {
	name := o.Namespace + "/" + o.Name
	s := service{external: o.Spec.Type == corev1.ServiceTypeExternalName, selector: o.Spec.Selector}
	if !s.external && o.Spec.ClusterIP != corev1.ClusterIPNone {
		s.address = o.Spec.ClusterIP
	}
	w.services[name] = s
	w.refreshBackend(name)
}

func (w *World) forgetService(name string) {
	delete(w.services, name)
	w.refreshBackend(name)
}

func (w *World) keepSlice(o *discoveryv1.EndpointSlice) {
	s := slice{service: o.Namespace + "/" + o.Labels[discoveryv1.LabelServiceName]}
	for _, endpoint := range o.Endpoints {
		s.ready = s.ready || ptrOr(endpoint.Conditions.Ready, true)
	}
	name := o.Namespace + "/" + o.Name
	if before, found := w.slices[name]; found && before.service != s.service {
		delete(w.slices, name)
		w.refreshBackend(before.service)
	}
	w.slices[name] = s
	w.refreshBackend(s.service)
}

func (w *World) forgetSlice(name string) {
	s := w.slices[name]
	delete(w.slices, name)
	w.refreshBackend(s.service)
}

// keepTemplate records the labels of a workload's pods, by which Services
// select them. resource is the workload's, as in the facts.
func (w *World) keepTemplate(resource string, workload types.NamespacedName, pods map[string]string) {
	key := resource + "/" + workload.Name
	known := w.templates[workload.Namespace]
	if before, found := known[key]; found && maps.Equal(before, pods) {
		return
	}
	if known == nil {
		known = map[string]map[string]string{}
		w.templates[workload.Namespace] = known
	}
	known[key] = pods
	w.refreshBackendsIn(workload.Namespace)
}

func (w *World) forgetTemplate(resource string, workload types.NamespacedName) {
	known := w.templates[workload.Namespace]
	if delete(known, resource+"/"+workload.Name); len(known) == 0 {
		delete(w.templates, workload.Namespace)
	}
	w.refreshBackendsIn(workload.Namespace)
}

func (w *World) refreshBackendsIn(namespace string) {
	for name := range w.backends {
		if namespaceOf(name) == namespace {
			w.refreshBackend(name)
		}
	}
}

// namespaceOf is the first part of "namespace/name".
func namespaceOf(name string) string {
	namespace, _ := splitKey(name)
	return namespace
}

func splitKey(key string) (before, after string) {
	before, after, _ = strings.Cut(key, "/")
	return before, after
}
