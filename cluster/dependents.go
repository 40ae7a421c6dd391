package cluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An object that is deleted in the foreground stays until each dependent whose
// owner reference has blockOwnerDeletion is gone, which the garbage collector
// deletes the same way (pkg/controller/garbagecollector). The section "owners"
// of the facts holds, by the UID of the owner, just the dependents that may not
// go: those with finalizers, those that are pods of a node that is not ready, and
// those that have such dependents in turn.

// link says which object blocks the deletion of which: a dependent and the one
// owner that it blocks.
type link struct {
	generation int
	uid, owner types.UID
}

// leaves own nothing, by decision: there are too many of them to remember whom
// they block.
var leaves = map[string]bool{"pods": true, "endpointslices.discovery.k8s.io": true, "controllerrevisions.apps": true}

// blockingOwner is the UID of the owner whose foreground deletion waits for an
// object; "" where there is none. An object with several owners is not deleted
// with one of them: it only loses its reference.
func blockingOwner(m metav1.Object) types.UID {
	refs := m.GetOwnerReferences()
	if len(refs) != 1 || !ptrOr(refs[0].BlockOwnerDeletion, false) {
		return ""
	}
	return refs[0].UID
}

// link remembers whom an object blocks.
func (w *World) link(r *resource, key types.NamespacedName, m metav1.Object) {
	if leaves[r.String()] {
		return
	}
	uid, owner := m.GetUID(), blockingOwner(m)
	if l := r.links[key]; l != nil {
		if l.uid == uid && l.owner == owner {
			l.generation = r.generation
			return
		}
		w.unlink(r, key)
	}
	if uid == "" || owner == "" {
		return
	}
	l := &link{generation: r.generation, uid: uid, owner: owner}
	r.links[key], w.links[uid] = l, l
	w.chain(uid)
}

func (w *World) unlink(r *resource, key types.NamespacedName) {
	l := r.links[key]
	if l == nil {
		return
	}
	delete(r.links, key)
	if w.links[l.uid] == l {
		delete(w.links, l.uid)
	}
	prune(w.doc, "owners", string(l.owner), "dependents", string(l.uid))
	w.chain(l.owner)
}

// chain makes the owner of an object show it as a dependent exactly if it has
// such itself, and so on upwards as long as something changes.
func (w *World) chain(uid types.UID) {
	for {
		l := w.links[uid]
		if l == nil {
			return
		}
		holds := lookup(w.doc, "owners", string(uid)) != nil
		if shown := lookup(w.doc, "owners", string(l.owner), "dependents", string(uid)) != nil; shown == holds {
			return
		}
		if holds {
			child(w.doc, "owners", string(l.owner), "dependents")[string(uid)] = true
		} else {
			prune(w.doc, "owners", string(l.owner), "dependents", string(uid))
		}
		uid = l.owner
	}
}

// block puts an object with finalizers under the owner that it blocks, and
// unblock takes it out.
func (w *World) block(key types.NamespacedName, h *holding) {
	for _, b := range w.blocking(h) {
		w.place(key.Name, b.members[key.Name], append([]string{"owners", string(h.owner), "finalized"}, b.path[1:]...)...)
	}
	w.chain(h.owner)
}

func (w *World) unblock(key types.NamespacedName, h *holding) {
	for _, b := range w.blocking(h) {
		w.unindex(key.Name, append([]string{"owners", string(h.owner), "finalized"}, b.path[1:]...)...)
	}
	w.chain(h.owner)
}

// blocking are the buckets of an object that may block its owner: those of all
// finalizers but the ones that Kubernetes itself removes, of which every pod of
// a Job has one.
func (w *World) blocking(h *holding) []*bucket {
	if h.owner == "" {
		return nil
	}
	var found []*bucket
	for _, b := range h.buckets {
		key := b.verdict.key
		if w.options.Owners[key.finalizer] == "" && b.verdict.evidence.declared == "" {
			if entry, known := w.options.Catalog.Lookup(key.finalizer, key.resource); known && builtIn(entry) {
				continue
			}
		}
		found = append(found, b)
	}
	return found
}

// strand puts a pod that needs its kubelet to go under the owner that it
// blocks, if its node is not ready.
func (w *World) strand(key types.NamespacedName, node string) {
	owner := w.running[key.String()].owner
	waiting := w.group("podsByNode", key.Namespace, node)
	if owner == "" || waiting == nil || lookup(w.doc, "notReady", node) == nil {
		return
	}
	if _, waits := waiting.members[key.Name]; !waits {
		return
	}
	path := []string{"owners", string(owner), "pods", key.Namespace, node}
	w.index(key.Name, path...)
	w.podPaths[key] = append(w.podPaths[key], path)
	w.chain(owner)
}

// restrand puts the pods of a node under their owners, or takes them out again,
// when the node has become ready or has ceased to be.
func (w *World) restrand(node string) {
	byNamespace, _ := w.doc["podsByNode"].(map[string]any)
	ready := lookup(w.doc, "notReady", node) == nil
	for namespace := range byNamespace {
		waiting := w.group("podsByNode", namespace, node)
		if waiting == nil {
			continue
		}
		for name := range waiting.members {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			if !ready {
				w.strand(key, node)
				continue
			}
			w.podPaths[key] = slices.DeleteFunc(w.podPaths[key], func(path []string) bool {
				if path[0] != "owners" {
					return false
				}
				w.unindex(name, path...)
				w.chain(types.UID(path[1]))
				return true
			})
		}
	}
}
