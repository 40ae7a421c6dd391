package facts

import (
	"iter"
	"maps"
	"slices"
)

// Verdict says who removes a finalizer, and whether that owner runs.
type Verdict struct {
	State    string // as in package ownership
	Owner    string // "" if unknown
	Clears   string // cleaned up first
	Evidence []string
	Runs     []Object // its workload, as far as known
	Seen     bool     // to remove it here, or Kubernetes itself does
}

// Object is an object as the facts name it.
type Object struct{ Resource, Namespace, Name string }

// Verdicts are an object's verdicts, by finalizer, as policies read them.
type Verdicts map[string]any

// All returns the verdicts for Go code.
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
	v := Verdict{State: text(node, "state"), Owner: text(node, "owner"), Clears: text(node, "clears"), Evidence: texts(node, "evidence"), Seen: under(node, "seen") == true}
	for _, workload := range list(node, "workloads") {
		v.Runs = append(v.Runs, namedBy(workload))
	}
	return v
}

func namedBy(node any) Object {
	return Object{text(node, "resource"), text(node, "namespace"), text(node, "name")}
}

// Holding are objects of one resource in one namespace with the same finalizer and owner.
type Holding struct {
	Finalizer, Resource, Namespace string
	Names                          []string // the first few
	Count                          int
	// Terminating are the first few, with their deletionTimestamp.
	Terminating map[string]string
	owner       any
}

func (h Holding) Owner() Verdict { return verdictOf(h.owner) }

// Holding returns the namespaces with finalized objects; "" for cluster-scoped ones.
func (r Reader) Holding() []string { return keys(under(r.doc, "finalized")) }

// Held returns the finalized objects of a namespace, by finalizer; "" is for all resources.
func (r Reader) Held(namespace, resource string) iter.Seq[Holding] {
	return r.held(namespace, resource, walk(r.doc, "finalized", namespace))
}

// held reads byFinalizer. A verdict that is not beside the objects is in its own section.
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

// Blocking returns the finalized dependents, at any depth, that an owner's foreground deletion waits for.
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

// HoldsUp reports whether anything in a namespace, "" for all, may block some owner's foreground deletion:
// the facts know owners only by UID.
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

// Owners returns a finalizer's owners, one for each group of objects.
func (r Reader) Owners(finalizer string) []Verdict {
	var found []Verdict
	for _, bySignature := range each(walk(r.doc, "finalizers", finalizer)) {
		for _, verdict := range each(bySignature) {
			found = append(found, verdictOf(verdict))
		}
	}
	return found
}

func (r Reader) Looked(namespace string) bool { return walk(r.doc, "conditions", namespace) != nil }

func (r Reader) Conditioned(namespace, resource, name string) bool {
	return walk(r.doc, "conditions", namespace, resource, name) != nil
}

// Describe fills in an object's record: recorded says that the facts have records of its resource, and found
// that they have this one.
func (r Reader) Describe(resource string, object map[string]any) (recorded, found bool) {
	metadata, _ := object["metadata"].(map[string]any)
	name := text(metadata, "name")
	path, recorded := map[string][]string{
		"namespaces": {"namespaces", name}, "nodes": {"nodes", name}, "pods": {"pods", text(metadata, "namespace"), name},
		"customresourcedefinitions.apiextensions.k8s.io": {"crds", name},
	}[resource]
	record, found := walk(r.doc, path...).(map[string]any)
	if !recorded || !found {
		return recorded, false
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
	return true, true
}

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
