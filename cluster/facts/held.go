package facts

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Verdict is who removes a finalizer, and whether it is there to do so.
type Verdict struct {
	State    string // as in package ownership
	Owner    string // "" where nobody knows
	Clears   string // what the owner does before
	Evidence []string
	Runs     []Object // what removes it, as far as known
}

// Object is one as the facts name it.
type Object struct{ Resource, Namespace, Name string }

// Verdicts are those on the finalizers of an object, by finalizer, as policies read them.
type Verdicts map[string]any

// All are the verdicts for Go code.
func (v Verdicts) All() iter.Seq2[string, Verdict] {
	return func(yield func(string, Verdict) bool) {
		for finalizer, verdict := range v {
			if !yield(finalizer, verdictOf(verdict)) {
				return
			}
		}
	}
}

func verdictOf(node any) Verdict {
	v := Verdict{State: text(node, "state"), Owner: text(node, "owner"), Clears: text(node, "clears"), Evidence: texts(node, "evidence")}
	for _, workload := range list(node, "workloads") {
		v.Runs = append(v.Runs, namedBy(workload))
	}
	return v
}

func namedBy(node any) Object {
	return Object{text(node, "resource"), text(node, "namespace"), text(node, "name")}
}

// Holding are objects of one resource in one namespace that carry a finalizer, and of which
// the same is known of who removes it.
type Holding struct {
	Finalizer, Resource, Namespace string
	Names                          []string // the first few
	Count                          int
	// Terminating are those that are being deleted, the first few, with their deletionTimestamp.
	Terminating map[string]string
	owner       any
}

// Owner is who removes the finalizer.
func (h Holding) Owner() Verdict { return verdictOf(h.owner) }

// Holding are the namespaces that hold objects with finalizers; "" is none.
func (r Reader) Holding() []string { return keys(under(r.doc, "finalized")) }

// Held are the objects of a namespace that carry finalizers, in the order of these: of one
// resource, or where that is "", of all.
func (r Reader) Held(namespace, resource string) iter.Seq[Holding] {
	return r.held(namespace, resource, walk(r.doc, "finalized", namespace))
}

// held are those of a namespace. Where the verdict does not stand beside them, it stands in
// a section of its own.
func (r Reader) held(namespace, only string, byFinalizer any) iter.Seq[Holding] {
	return func(yield func(Holding) bool) {
		for finalizer, byResource := range sorted(byFinalizer) {
			for resource, bySignature := range each(byResource) {
				if only != "" && resource != only {
					continue
				}
				for signature, group := range each(bySignature) {
					h := Holding{Finalizer: finalizer, Resource: resource, Namespace: namespace, Names: texts(group, "names"), Count: number(group, "count")}
					for _, object := range list(under(group, "terminating"), "objects") {
						if h.Terminating == nil {
							h.Terminating = map[string]string{}
						}
						h.Terminating[text(object, "name")] = text(object, "since")
					}
					if h.owner = under(group, "ownership"); h.owner == nil {
						h.owner = walk(r.doc, "finalizers", finalizer, resource, signature)
					}
					if !yield(h) {
						return
					}
				}
			}
		}
	}
}

// Blocking are the objects that the deletion of an owner in the foreground waits for, and
// that carry finalizers: its dependents, and theirs.
func (r Reader) Blocking(uid string) iter.Seq[Holding] {
	return func(yield func(Holding) bool) {
		owners, visited := under(r.doc, "owners"), map[string]bool{}
		for next := []string{uid}; len(next) > 0; next = next[1:] {
			if visited[next[0]] {
				continue
			}
			visited[next[0]] = true
			owner := under(owners, next[0])
			next = append(next, keys(under(owner, "dependents"))...)
			for namespace, finalized := range each(under(owner, "finalized")) {
				for h := range r.held(namespace, "", finalized) {
					if !yield(h) {
						return
					}
				}
			}
		}
	}
}

// HoldsUp tells whether anything in a namespace, or where that is "" anywhere, may hold up the
// deletion of an owner in the foreground. Which owner, the facts know by its UID alone.
func (r Reader) HoldsUp(namespace string) bool {
	for _, owner := range each(under(r.doc, "owners")) {
		for _, blockers := range []any{under(owner, "finalized"), under(owner, "pods")} {
			if within := keys(blockers); len(within) > 0 && (namespace == "" || slices.Contains(within, namespace)) {
				return true
			}
		}
	}
	return false
}

// Owners are who removes a finalizer, of each of the groups of objects that carry it.
func (r Reader) Owners(finalizer string) []Verdict {
	var found []Verdict
	for _, bySignature := range each(walk(r.doc, "finalizers", finalizer)) {
		for _, verdict := range each(bySignature) {
			found = append(found, verdictOf(verdict))
		}
	}
	return found
}

// Waiting are objects that are being deleted and wait for a finalizer, the first few of each.
func (r Reader) Waiting() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, byResource := range each(under(r.doc, "terminating")) {
			for resource, held := range each(byResource) {
				for _, object := range list(held, "objects") {
					if !yield(Object{resource, text(object, "namespace"), text(object, "name")}) {
						return
					}
				}
			}
		}
	}
}

// Looked tells whether status conditions were read in a namespace, and Conditioned whether
// those of an object were.
func (r Reader) Looked(namespace string) bool { return walk(r.doc, "conditions", namespace) != nil }

// Conditioned tells whether the status conditions of an object were read.
func (r Reader) Conditioned(namespace, resource, name string) bool {
	return walk(r.doc, "conditions", namespace, resource, name) != nil
}

// Bodied tells whether the facts hold of an object what policies read of it beside its
// metadata; Embody fills that in.
func (r Reader) Bodied(namespace, resource, name string) bool {
	return walk(r.doc, "bodies", namespace, resource, name) != nil
}

// Embody fills in of an object, which has its name and namespace, what the facts hold of it
// beside its metadata, as policies read it.
func (r Reader) Embody(resource string, object map[string]any) {
	metadata, whole := object["metadata"], Document(object)
	namespace, name := text(metadata, "namespace"), text(metadata, "name")
	body := walk(r.doc, "bodies", namespace, resource, name)
	if body == nil {
		return
	}
	for _, mention := range list(body, "names") {
		at, named := strings.Split(text(mention, "at"), "."), map[string]any{}
		for key, value := range each(mention) {
			if key != "at" {
				named[key] = value
			}
		}
		if last := at[len(at)-1]; at[0] == "spec" && strings.HasSuffix(last, "Ref") {
			maps.Copy(whole.Child(at...), named)
		} else {
			whole.Put(append(list(whole.Child(at[:len(at)-1]...), last), named), at...)
		}
	}
	if drains := under(body, "drains"); drains != nil {
		whole.Put(text(drains, "node"), strings.Split(text(drains, "at"), ".")...)
		for _, bound := range list(drains, "bounded") {
			whole.Put(under(bound, "value"), strings.Split(text(bound, "at"), ".")...)
		}
	}
	events := func(condition any) bool { return walk(condition, "last") != nil } // are no part of the object
	if conditions := slices.DeleteFunc(slices.Clone(list(walk(r.doc, "conditions", namespace, resource), name)), events); len(conditions) > 0 {
		whole.Put(conditions, "status", "conditions")
	}
}

// Recorded tells whether the facts have a record of each object of a resource.
func (r Reader) Recorded(resource string) bool {
	switch resource {
	case "namespaces", "nodes", "pods", "customresourcedefinitions.apiextensions.k8s.io":
		return true
	}
	return false
}

// Names are the objects of a resource in a namespace that the facts have a record of, in order.
func (r Reader) Names(resource, namespace string) []string {
	return keys(r.records(resource, namespace))
}

func (r Reader) records(resource, namespace string) any {
	switch resource {
	case "namespaces", "nodes":
		return under(r.doc, resource)
	case "pods":
		return walk(r.doc, "pods", namespace)
	case "customresourcedefinitions.apiextensions.k8s.io":
		return under(r.doc, "crds")
	}
	return nil
}

// Describe fills in what the record of an object, which has its name and namespace, tells of
// it; found is false where there is none.
func (r Reader) Describe(resource string, object map[string]any) (found bool) {
	metadata, _ := object["metadata"].(map[string]any)
	record, found := under(r.records(resource, text(metadata, "namespace")), text(metadata, "name")).(map[string]any)
	if !found {
		return false
	}
	for _, key := range []string{"deletionTimestamp", "finalizers", "labels", "annotations"} {
		if value, set := record[key]; set && value != "" {
			metadata[key] = value
		}
	}
	switch resource {
	case "namespaces":
		object["spec"] = map[string]any{"finalizers": slices.Clone(list(record, "specFinalizers"))}
		object["status"] = map[string]any{"phase": record["phase"], "conditions": conditionsOf(under(record, "conditions"))}
	case "pods":
		spec := map[string]any{"nodeName": record["node"]}
		if grace, set := record["gracePeriodSeconds"]; set {
			spec["terminationGracePeriodSeconds"] = grace
			if metadata["deletionTimestamp"] != nil {
				metadata["deletionGracePeriodSeconds"] = grace
			}
		}
		object["spec"], object["status"] = spec, map[string]any{"phase": record["phase"]}
	}
	return true
}

// conditionsOf are those of the facts, by type, as they stand in a status.
func conditionsOf(byType any) []any {
	conditions := []any{}
	for name, record := range sorted(byType) {
		record, _ := record.(map[string]any)
		condition := maps.Clone(record)
		if condition == nil {
			condition = map[string]any{}
		}
		condition["type"] = name
		conditions = append(conditions, condition)
	}
	return conditions
}
