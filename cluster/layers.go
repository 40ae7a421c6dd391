package cluster

import (
	"maps"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

// Layers are the facts of manifests, with a snapshot's in their gaps, both final. They are for one goroutine.
type Layers struct {
	manifests, snapshot *World
	doc                 map[string]any
}

// NewLayers returns Layers; snapshot may be nil.
func NewLayers(manifests, snapshot *World) *Layers {
	return &Layers{manifests: manifests, snapshot: snapshot}
}

// View calls f with both as one document.
func (l *Layers) View(f func(doc map[string]any)) {
	if l.doc == nil {
		l.manifests.View(func(doc map[string]any) {
			l.doc = doc
			if l.snapshot != nil {
				l.snapshot.View(func(below map[string]any) { l.doc = over(below, doc, 0) })
			}
		})
	}
	f(l.doc)
}

// Ask is World.Ask for both.
func (l *Layers) Ask(r *question.Request, f func(Moment)) {
	l.View(func(doc map[string]any) {
		l.manifests.Ask(r, func(m Moment) {
			m = m.over(doc)
			if l.snapshot == nil {
				f(m)
				return
			}
			l.snapshot.Ask(r, func(below Moment) {
				m.below = &below
				f(m)
			})
		})
	})
}

// over merges above over below, key by key; equal and single values are shared, not copied.
func over(below, above map[string]any, depth int) map[string]any {
	if len(above) == 0 {
		return below
	}
	merged := maps.Clone(below)
	for key, value := range above {
		if section, made := value.(facts.Section); made {
			value = section.All()
		}
		inner, isMap := value.(map[string]any)
		under, wasMap := merged[key].(map[string]any)
		switch {
		case isMap && wasMap && depth < 3:
			merged[key] = over(under, inner, depth+1)
		case isMap && len(inner) == 0 && wasMap, depth == 0 && key == "unseen", depth == 0 && key == "now":
		default:
			merged[key] = value
		}
	}
	return merged
}
