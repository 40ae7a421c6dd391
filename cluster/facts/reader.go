package facts

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Reader is the only Go code that takes a document apart. A value of the wrong type, as snapshots may hold,
// reads as missing.
type Reader struct{ doc map[string]any }

// Read returns a Reader of a document, which must not change while it is used.
func Read(doc map[string]any) Reader { return Reader{doc} }

func (r Reader) Now() time.Time {
	now, _ := time.Parse(time.RFC3339, text(r.doc, "now"))
	return now
}

type Namespace struct {
	Labels      map[string]string // the labels of termguard.dev
	Terminating bool
}

// Namespace returns the record of a namespace, or the zero value.
func (r Reader) Namespace(name string) Namespace {
	record := walk(r.doc, "namespaces", name)
	labels, _ := under(record, "labels").(map[string]any)
	n := Namespace{Labels: make(map[string]string, len(labels)), Terminating: text(record, "deletionTimestamp") != ""}
	for key, value := range labels {
		if text, is := value.(string); is {
			n.Labels[key] = text
		}
	}
	return n
}

// Hidden is an unseen resource, and the reason.
type Hidden struct {
	Resource   string
	Namespaced bool
	Namespace  string // "" for all
	Reason     string
}

func (r Reader) Unseen() (unseen []Hidden) {
	for _, item := range list(r.doc, "unseen") {
		namespaced, _ := under(item, "namespaced").(bool)
		unseen = append(unseen, Hidden{text(item, "resource"), namespaced, text(item, "namespace"), text(item, "reason")})
	}
	return unseen
}

// Hides reports whether some of a resource is unseen.
func (r Reader) Hides(resource string) bool {
	return slices.ContainsFunc(list(r.doc, "unseen"), func(item any) bool { return text(item, "resource") == resource })
}

type Definition struct {
	Kind, Singular string
	Short          []string
	Namespaced     bool
	Served         []string // in its order
}

// Defines reports whether there is a definition of a resource.
func (r Reader) Defines(resource string) bool { return walk(r.doc, "crds", resource) != nil }

// Definition returns the definition of a resource, or the zero value.
func (r Reader) Definition(resource string) Definition {
	record := walk(r.doc, "crds", resource)
	d := Definition{Kind: text(record, "kind"), Namespaced: text(record, "scope") == "Namespaced"}
	if names := texts(record, "names"); len(names) > 0 {
		d.Singular, d.Short = names[0], names[1:]
	}
	for _, version := range list(record, "versions") {
		if under(version, "served") == true {
			d.Served = append(d.Served, text(version, "name"))
		}
	}
	return d
}

// Count returns the number of objects of a resource in a namespace, "" for cluster-scoped ones.
func (r Reader) Count(namespace, resource string) int {
	return number(walk(r.doc, "counts", namespace), resource)
}

type Pod struct {
	Namespace, Name string
	Node            string // "" for none
	Phase           string
	Kind            string // of its owner, "" for none
	Workload        string // as in Stops
	Terminating     bool
}

func (r Reader) Pods(namespace string) iter.Seq[Pod] {
	return func(yield func(Pod) bool) {
		for name, record := range each(walk(r.doc, "pods", namespace)) {
			if !yield(podOf(namespace, name, record)) {
				return
			}
		}
	}
}

func (r Reader) AllPods() iter.Seq[Pod] {
	return func(yield func(Pod) bool) {
		for namespace := range each(under(r.doc, "pods")) {
			for pod := range r.Pods(namespace) {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

func (r Reader) Pod(namespace, name string) Pod {
	return podOf(namespace, name, walk(r.doc, "pods", namespace, name))
}

func podOf(namespace, name string, record any) Pod {
	return Pod{
		Namespace: namespace, Name: name, Node: text(record, "node"), Phase: text(record, "phase"),
		Kind: text(under(record, "owner"), "kind"), Workload: text(record, "workload"),
		Terminating: text(record, "deletionTimestamp") != "",
	}
}

// LongestGrace returns the longest grace period of the pods that run in a namespace, in seconds.
func (r Reader) LongestGrace(namespace string) (longest int) {
	for key := range each(walk(r.doc, "podsByGrace", namespace)) {
		if seconds, err := strconv.Atoi(key); err == nil {
			longest = max(longest, seconds)
		}
	}
	return longest
}

type Durations struct{ Count, UsualSeconds, LongestSeconds int }

// Took returns how long owners took to remove a finalizer in a namespace, else in several, if that was seen.
func (r Reader) Took(finalizer, resource, namespace string) (d Durations, ok bool) {
	seen := walk(r.doc, "durations", finalizer, resource, namespace)
	if seen == nil {
		seen = walk(r.doc, "durations", finalizer, resource, "")
	}
	return durationsOf(seen), seen != nil
}

// Stops returns how long the pods of a workload ("Kind/name") took to stop.
func (r Reader) Stops(namespace, workload string) Durations {
	return durationsOf(walk(r.doc, "stops", namespace, workload))
}

func durationsOf(seen any) Durations {
	return Durations{number(seen, "count"), number(seen, "usualSeconds"), number(seen, "longestSeconds")}
}

// Webhooks returns the keys of all webhooks, TYPE/CONFIGURATION/NAME.
func (r Reader) Webhooks() []string { return keys(under(r.doc, "webhooks")) }

// Fronts returns the APIServices and fail-closed webhook configurations, each with a workload that must run.
func (r Reader) Fronts() iter.Seq2[Object, Object] {
	return func(yield func(front, workload Object) bool) {
		all := func(front Object, node any) bool {
			for _, workload := range list(under(node, "backend"), "workloads") {
				if !yield(front, Object{text(workload, "resource"), text(under(node, "service"), "namespace"), text(workload, "name")}) {
					return false
				}
			}
			return true
		}
		for name, service := range sorted(under(r.doc, "apiservices")) {
			if !all(Object{"apiservices.apiregistration.k8s.io", "", name}, service) {
				return
			}
		}
		for _, hook := range sorted(under(r.doc, "webhooks")) {
			front := Object{text(hook, "type") + "webhookconfigurations.admissionregistration.k8s.io", "", text(hook, "configuration")}
			if text(hook, "failurePolicy") == "Fail" && !all(front, hook) {
				return
			}
		}
	}
}

// Controller returns the controller of a finalized object, or the zero value.
func (r Reader) Controller(resource, namespace, name string) Object {
	by := namedBy(walk(r.doc, "controllers", resource, namespace+"/"+name))
	if by.Resource == "" {
		return Object{}
	}
	return by
}

// Place returns an object's position in the order of a command that deletes several.
func (r Reader) Place(resource, namespace, name string) (at int, in bool) {
	of := walk(r.doc, "set", resource, namespace)
	return number(of, name), under(of, name) != nil
}

func walk(node any, path ...string) any {
	for _, key := range path {
		node = under(node, key)
	}
	return node
}

func under(node any, key string) any {
	switch inner := node.(type) {
	case map[string]any:
		return inner[key]
	case Document:
		return inner[key]
	case Section:
		return inner.Get(key)
	}
	return nil
}

func each(node any) iter.Seq2[string, any] {
	switch inner := node.(type) {
	case map[string]any:
		return maps.All(inner)
	case Section:
		return func(yield func(string, any) bool) {
			for key := range inner.Keys() {
				if value := inner.Get(key); value != nil && !yield(key, value) {
					return
				}
			}
		}
	}
	return func(func(string, any) bool) {}
}

func sorted(node any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, key := range keys(node) {
			if !yield(key, under(node, key)) {
				return
			}
		}
	}
}

func keys(node any) []string {
	var found []string
	for key := range each(node) {
		found = append(found, key)
	}
	slices.Sort(found)
	return found
}

func text(node any, key string) string {
	s, _ := under(node, key).(string)
	return s
}

func list(node any, key string) []any {
	l, _ := under(node, key).([]any)
	return l
}

// texts is never nil.
func texts(node any, key string) []string {
	found := []string{}
	for _, item := range list(node, key) {
		if s, is := item.(string); is {
			found = append(found, s)
		}
	}
	return found
}

func number(node any, key string) int { return Number(under(node, key)) }

// Number returns a number of the document: an int from a cluster, a float64 from a file.
func Number(value any) int {
	switch n := value.(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}
