package cluster

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/references"
)

// maxAsked bounds the objects in other namespaces requested by name: users may name any number.
const maxAsked = 64

// Needed is an object that objects of another namespace need.
type Needed struct {
	Resource
	types.NamespacedName
}

// Needs returns the needed objects that were not requested yet.
func (w *World) Needs(namespace string) (needs []Needed) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, thing := range w.references.Unknown(namespace) {
		_, done := w.requested[thing]
		if r := w.inventory.resources[thing.Resource]; !done && r != nil && r.named && thing.Namespace != "" && len(w.requested)+len(needs) < maxAsked {
			needs = append(needs, Needed{r.Resource, thing.NamespacedName})
		}
	}
	return needs
}

// Answered records the answers to requests for Needs.
func (w *World) Answered(needs []Needed, answers []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requested == nil {
		w.requested = map[references.Thing]error{}
	}
	for i, a := range needs {
		w.requested[references.Thing{Resource: a.Resource.String(), NamespacedName: a.NamespacedName}] = answers[i]
	}
	w.references.UpdateVisibility()
}

// Unread is an unreadable kind, or something named in words.
type Unread struct{ Resource, What, Reason string }

// Unread returns the objects of unknown existence that a namespace's objects need.
func (w *World) Unread(namespace string) (unread []Unread) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, thing := range w.references.Unknown(namespace) {
		reason, hidden := w.sight.Hidden(thing.Resource)
		named := thing.Resource + " " + thing.NamespacedName.String()
		switch err := w.requested[thing]; {
		case err != nil:
			unread = append(unread, Unread{What: named, Reason: facts.Shorten(err.Error(), facts.MaxText)})
		case thing.Namespace != namespace && len(w.requested) >= maxAsked:
			unread = append(unread, Unread{What: named, Reason: fmt.Sprintf("more than %d objects in other namespaces are needed", maxAsked)})
		case hidden && reason != facts.UnseenElsewhere:
			unread = append(unread, Unread{Resource: thing.Resource, Reason: reason})
		}
	}
	return slices.Compact(unread)
}

// UnreadOf returns the unseen kinds that objects of one kind need.
func (w *World) UnreadOf(resource string) (unread []Unread) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, thing := range w.references.UnknownOf(resource) {
		if reason, hidden := w.sight.Hidden(thing.Resource); hidden {
			unread = append(unread, Unread{Resource: thing.Resource, Reason: reason})
		}
	}
	return slices.Compact(unread)
}
