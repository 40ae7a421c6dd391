package ownership

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// terminating is an object that is being deleted, and waits for its finalizers.
type terminating struct {
	namespace, name string
	since           int64 // its deletionTimestamp, in seconds of Unix time
	at              int   // where the finalizer stands in it
}

// kindHeld is what objects are told together by across namespaces.
type kindHeld struct{ finalizer, resource string }

// deletedSince is when an object should have been gone, but for its finalizers, in
// seconds of Unix time; 0 unless it is being deleted. With a grace period left,
// somebody else has to finish with it first: the kubelet of a pod.
func deletedSince(m metav1.Object) int64 {
	at, grace := m.GetDeletionTimestamp(), m.GetDeletionGracePeriodSeconds()
	if at == nil || grace != nil && *grace > 0 {
		return 0
	}
	return at.Unix()
}

// Deleted is since when an object with finalizers waits for nothing else, zero unless
// it is known to be deleted. It only reads.
func (p *Part) Deleted(resource string, key types.NamespacedName) time.Time {
	h := p.holding(resource, key)
	if h == nil || h.deleted == 0 {
		return time.Time{}
	}
	return time.Unix(h.deleted, 0)
}

// end notes that an object of a bucket is being deleted, and live undoes it. What
// Kubernetes itself removes waits for other things, which have facts of their own.
func (p *Part) end(b *bucket, name string, since int64) {
	if since == 0 || p.builtIn(b.verdict.key) {
		return
	}
	if b.ending == nil {
		b.ending = map[string]int64{}
	}
	b.ending[name] = since
	p.endingDirty[b] = true
}

func (p *Part) live(b *bucket, name string) {
	if _, ending := b.ending[name]; ending {
		delete(b.ending, name)
		p.endingDirty[b] = true
	}
}

// builtIn tells whether Kubernetes itself removes a finalizer.
func (p *Part) builtIn(key verdictKey) bool {
	entry, known := p.options.Catalog.Lookup(key.finalizer, key.resource)
	return known && builtIn(entry)
}

// settleEnding publishes the objects that are being deleted: of each bucket, and of
// each finalizer on each resource in all namespaces.
func (p *Part) settleEnding() {
	changed := map[kindHeld]bool{}
	for b := range p.endingDirty {
		kind := kindHeld{b.verdict.key.finalizer, b.verdict.key.resource}
		changed[kind] = true
		b.oldest = nil
		for name, since := range b.ending {
			b.oldest = p.withOldest(b.oldest, terminating{b.path[1], name, since, b.At(name)})
		}
		if len(b.ending) == 0 {
			delete(b.Facts(), "terminating")
			if delete(p.ending[kind], b); len(p.ending[kind]) == 0 {
				delete(p.ending, kind)
			}
			continue
		}
		if p.ending[kind] == nil {
			p.ending[kind] = map[*bucket]bool{}
		}
		p.ending[kind][b] = true
		b.Facts()["terminating"] = terminatingFacts(len(b.ending), b.oldest)
	}
	clear(p.endingDirty)
	for kind := range changed {
		path := []string{"terminating", kind.finalizer, kind.resource}
		if len(p.ending[kind]) == 0 {
			p.doc.Prune(path...)
			continue
		}
		var oldest []terminating
		count := 0
		for b := range p.ending[kind] {
			count += len(b.ending)
			for _, o := range b.oldest {
				oldest = p.withOldest(oldest, o)
			}
		}
		p.doc.Put(terminatingFacts(count, oldest), path...)
	}
}

func terminatingFacts(count int, oldest []terminating) map[string]any {
	objects := make([]any, len(oldest))
	for i, o := range oldest {
		since := time.Unix(o.since, 0).UTC().Format(time.RFC3339)
		objects[i] = map[string]any{"namespace": o.namespace, "name": o.name, "at": o.at, "since": since}
	}
	return map[string]any{"count": count, "objects": objects}
}

// withOldest is a list of those that have waited longest, as many as are named, with
// one more.
func (p *Part) withOldest(list []terminating, o terminating) []terminating {
	i, _ := slices.BinarySearchFunc(list, o, func(a, b terminating) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	if i == p.options.MaxNames {
		return list
	}
	list = slices.Insert(list, i, o)
	return list[:min(p.options.MaxNames, len(list))]
}
