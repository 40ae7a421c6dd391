package ownership

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

type terminating struct {
	namespace, name string
	since           int64 // deletionTimestamp, in seconds of Unix time
	at              int   // the finalizer's index
}

type kindHeld struct{ finalizer, resource string }

// deletion is zero if it has not begun.
type deletion struct {
	since int64 // in seconds of Unix time
	// stops is set in a grace period, when another controller, such as a kubelet, finishes first.
	stops bool
}

// The API server sets the deletionTimestamp to the end of the grace period.
func deletionOf(m metav1.Object) deletion {
	at, grace := m.GetDeletionTimestamp(), m.GetDeletionGracePeriodSeconds()
	switch {
	case at == nil:
		return deletion{}
	case grace == nil || *grace <= 0:
		return deletion{since: at.Unix()}
	}
	return deletion{since: at.Unix() - *grace, stops: true}
}

const maxEndings = 2000

// Ending is a finalizer that a Terminating object lost.
type Ending struct {
	UID       types.UID
	Finalizer string
	Deletion  int64 // deletion time, in seconds of Unix time
}

func (p *Part) recordEndings(h *holding, left []evidence) {
	if h.deletion.since == 0 {
		return
	}
	for _, one := range h.finalizers {
		if len(p.endings) < maxEndings && !slices.ContainsFunc(left, func(e evidence) bool { return e.finalizer == one.finalizer }) {
			p.endings = append(p.endings, Ending{h.uid, one.finalizer, h.deletion.since})
		}
	}
}

// Gone records that an object was deleted, or lost its last finalizer, unlike Forget.
func (p *Part) Gone(resource string, key types.NamespacedName) {
	if h := p.holding(resource, key); h != nil {
		p.recordEndings(h, nil)
	}
}

// Endings returns the endings since the last call.
func (p *Part) Endings() []Ending {
	endings := p.endings
	p.endings = nil
	return endings
}

// addTerminating leaves out built-in finalizers, which wait for other things, with their own facts.
func (p *Part) addTerminating(b *bucket, name string, d deletion) {
	if d.since == 0 || d.stops || p.builtIn(b.verdict.key) {
		return
	}
	if b.ending == nil {
		b.ending = map[string]int64{}
	}
	b.ending[name] = d.since
	p.ending.Add(b.kind(), b)
	p.endingDirty[b.kind()] = true
}

func (p *Part) removeTerminating(b *bucket, name string) {
	if _, ending := b.ending[name]; !ending {
		return
	}
	if delete(b.ending, name); len(b.ending) == 0 {
		p.ending.Remove(b.kind(), b)
		delete(b.Facts(), "terminating")
	}
	p.endingDirty[b.kind()] = true
}

func (b *bucket) kind() kindHeld { return kindHeld{b.verdict.key.finalizer, b.verdict.key.resource} }

func (p *Part) builtIn(key verdictKey) bool {
	entry, ok := p.options.Catalog.Lookup(key.finalizer, key.resource)
	return ok && entry.BuiltIn()
}

// settleEnding publishes the Terminating objects that have waited longest.
func (p *Part) settleEnding() {
	for kind := range p.endingDirty {
		var all []terminating
		count := 0
		for b := range p.ending[kind] {
			oldest := facts.Least(b.terminating, p.options.MaxNames, before)
			b.Facts()["terminating"] = terminatingFacts(len(b.ending), oldest)
			all, count = append(all, oldest...), count+len(b.ending)
		}
		if path := []string{"terminating", kind.finalizer, kind.resource}; count == 0 {
			p.doc.Prune(path...)
		} else {
			p.doc.Put(terminatingFacts(count, facts.Least(slices.Values(all), p.options.MaxNames, before)), path...)
		}
	}
	clear(p.endingDirty)
}

func (b *bucket) terminating(yield func(terminating) bool) {
	for name, since := range b.ending {
		if !yield(terminating{b.path[1], name, since, b.At(name)}) {
			return
		}
	}
}

func before(a, b terminating) int {
	return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

func terminatingFacts(count int, oldest []terminating) map[string]any {
	objects := make([]any, len(oldest))
	for i, o := range oldest {
		since := time.Unix(o.since, 0).UTC().Format(time.RFC3339)
		objects[i] = map[string]any{"namespace": o.namespace, "name": o.name, "at": o.at, "since": since}
	}
	return map[string]any{"count": count, "objects": objects}
}
