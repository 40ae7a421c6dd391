package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Wait is a group of objects whose deletion rests on the owner of a finalizer:
// it is alive, and has to remove that finalizer from each of them.
type Wait struct {
	Finalizer string `json:"finalizer"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	// Names are those of the first few objects; Count is how many there are.
	Names []string `json:"names"`
	Count int      `json:"count"`
	// Owner removes the finalizer; "" where nobody knows its name.
	Owner string `json:"owner,omitempty"`
	// Clears is what the owner does before that.
	Clears   string   `json:"clears,omitempty"`
	Evidence []string `json:"evidence"` // that the owner is alive
	// Took is how long it took with others, nil where that was not seen.
	Took *Took `json:"took,omitempty"`
}

// waitsFor lists the finalizers with a live owner that the deletion of s waits
// for: those of the object, of what is in a namespace, of the instances of a
// definition, and of the dependents of an object that goes in the foreground.
func waitsFor(facts policies.Facts, s Subject, ownership map[string]any, options map[string]any) []Wait {
	type key struct{ finalizer, resource, namespace, owner string }
	waits, known := []Wait{}, map[key]int{}
	add := func(finalizer, resource, namespace string, names []any, count int, owner map[string]any) {
		if owner["state"] != cluster.Alive || count == 0 {
			return
		}
		w := Wait{Finalizer: finalizer, Resource: resource, Namespace: namespace, Names: texts(names), Count: count, Evidence: texts(anyList(owner["evidence"]))}
		w.Owner, _ = owner["owner"].(string)
		w.Clears, _ = owner["clears"].(string)
		k := key{finalizer, resource, namespace, w.Owner}
		at, again := known[k]
		if !again {
			known[k] = len(waits)
			waits = append(waits, w)
			return
		}
		have := &waits[at]
		have.Count += w.Count
		have.Names = slices.Sorted(slices.Values(append(have.Names, w.Names...)))
		have.Evidence = slices.Compact(slices.Sorted(slices.Values(append(have.Evidence, w.Evidence...))))
	}
	resource := s.Type.GroupResource()
	for finalizer, owner := range ownership {
		owner, _ := owner.(map[string]any)
		add(finalizer, resource.String(), s.Namespace, []any{s.Name}, 1, owner)
	}
	facts.View(func(doc map[string]any) {
		defer func() {
			for i, w := range waits {
				waits[i].Took = tookOf(doc, w.Finalizer, w.Resource, w.Namespace)
				if n := unread(doc, w); n > 0 {
					waits[i].Evidence = append(waits[i].Evidence, fmt.Sprintf("what the status of %d of them says was not read", n))
				}
			}
		}()
		// in adds what is finalized in one namespace, of one resource or of all.
		in := func(namespace, only string, finalized map[string]any) {
			for finalizer := range finalized {
				resources := child(finalized, finalizer)
				for resource := range resources {
					for signature := range child(resources, resource) {
						group := child(child(resources, resource), signature)
						owner, beside := group["ownership"].(map[string]any)
						if !beside { // of dependents, it stands apart
							owner = child(child(child(child(doc, "finalizers"), finalizer), resource), signature)
						}
						if only == "" || only == resource {
							add(finalizer, resource, namespace, anyList(group["names"]), number(group["count"]), owner)
						}
					}
				}
			}
		}
		switch {
		case resource == namespaces:
			in(s.Name, "", child(child(doc, "finalized"), s.Name))
		case resource == definitions:
			for namespace, finalized := range child(doc, "finalized") {
				finalized, _ := finalized.(map[string]any)
				in(namespace, s.Name, finalized)
			}
		case options["propagationPolicy"] == "Foreground":
			uid, _ := child(s.Object, "metadata")["uid"].(string)
			owners, visited := child(doc, "owners"), map[string]bool{}
			for next := []string{uid}; len(next) > 0; next = next[1:] {
				if visited[next[0]] {
					continue
				}
				visited[next[0]] = true
				owner := child(owners, next[0])
				next = append(next, slices.Collect(maps.Keys(child(owner, "dependents")))...)
				for namespace := range child(owner, "finalized") {
					in(namespace, "", child(child(owner, "finalized"), namespace))
				}
			}
		}
	})
	slices.SortFunc(waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Finalizer, b.Finalizer),
			cmp.Compare(a.Namespace, b.Namespace))
	})
	return waits
}

// unread is how many objects of a group may say in their status that their owner
// fails, and were not read for that, though others of their namespace were.
func unread(doc map[string]any, w Wait) int {
	known, looked := child(doc, "conditions")[w.Namespace].(map[string]any)
	if !looked || child(doc, "crds")[w.Resource] == nil {
		return 0
	}
	read := child(known, w.Resource)
	n := w.Count
	for _, name := range w.Names {
		if read[name] != nil {
			n--
		}
	}
	return n
}

// String describes the group, without its owner.
func (w Wait) String() string {
	holds := "hold"
	if w.Count == 1 {
		holds = "holds"
	}
	return fmt.Sprintf("%d %s %s %s", w.Count, w.Resource, holds, w.Finalizer)
}

// owner names who removes the finalizer.
func (w Wait) owner() string { return cmp.Or(w.Owner, "the owner of "+w.Finalizer) }

// maxOwners bounds the owners that the first line of a report names.
const maxOwners = 3

// condition is on whom the deletion rests: "Kubernetes removes 2 finalizers and
// cert-manager removes 1".
func condition(waits []Wait) string {
	counts := map[string]int{}
	var owners []string
	for _, w := range waits {
		if counts[w.owner()] == 0 {
			owners = append(owners, w.owner())
		}
		counts[w.owner()] += w.Count
	}
	var parts []string
	for _, owner := range owners[:min(maxOwners, len(owners))] {
		noun := "finalizers"
		if counts[owner] == 1 {
			noun = "finalizer"
		}
		parts = append(parts, fmt.Sprintf("%s removes %d %s", owner, counts[owner], noun))
	}
	if more := len(owners) - maxOwners; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more owners remove theirs", more))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func texts(list []any) []string {
	found := []string{}
	for _, item := range list {
		if text, ok := item.(string); ok {
			found = append(found, text)
		}
	}
	return found
}
