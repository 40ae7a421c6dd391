package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

// What policies read of an object itself, the facts need not hold: the API server sends it
// to the webhook, and check reads it. Whoever asks a snapshot has neither, so a snapshot
// holds as much of objects as policies read of them, and no more: their specs may hold secrets.

const (
	// maxBodies bounds the objects of which a snapshot holds that, and maxMentions what is
	// kept of one: whoever writes objects may write any number. Of one with more, nothing is.
	maxBodies, maxMentions = 2000, 128
	// maxListed is how many entries of a list of a status policies read.
	maxListed = 64
	// bodiesWithin bounds how long reading them takes.
	bodiesWithin = time.Minute
)

// ReadBodies reads of the custom resources whose finalizers wait for an owner that is alive,
// of the first few of those that the facts name, what policies read of objects themselves.
// What cannot be read is left out, and is unknown to whoever asks about it.
func (w *World) ReadBodies(ctx context.Context, config *rest.Config, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, bodiesWithin)
	defer cancel()
	read, err := reader(ctx, config, log)
	if err != nil {
		return err
	}
	if err := w.ReadWarnings(ctx, config, "", log); err != nil {
		return err
	}
	w.keepBodies(read)
	return nil
}

// TakeBodies is ReadBodies for whoever reads the objects, several at once; nil for one that
// could not be read.
func (w *World) TakeBodies(read func(resource Resource, namespace, name string) *unstructured.Unstructured) {
	w.keepBodies(func(o conditioned) *unstructured.Unstructured {
		return read(Resource{GroupVersionResource: o.GroupVersionResource, Namespaced: o.namespace != ""}, o.namespace, o.name)
	})
}

func (w *World) keepBodies(read func(conditioned) *unstructured.Unstructured) {
	found := facts.Document{"bodies": map[string]any{}, "conditions": map[string]any{}}
	readAll(w.bodied(), read, func(o conditioned, object *unstructured.Unstructured) {
		found.Put(w.conditionsOf(o, object), "conditions", o.namespace, o.resource(), o.name)
		if body := w.bodyOf(object, o.resource()); body != nil {
			found.Put(body, "bodies", o.namespace, o.resource(), o.name)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.doc, found)
}

// bodied are the objects that matter, as many as are read.
func (w *World) bodied() (found []conditioned) {
	var namespaces []string
	w.Read(func(f Facts) { namespaces = f.Holding() })
	for _, namespace := range namespaces {
		found = append(found, w.conditioned(namespace)...)
		if len(found) >= maxBodies {
			return found[:maxBodies]
		}
	}
	return found
}

// bodyOf is what policies read of an object of a resource beside its conditions; nil where
// that is more than is kept, or cannot be kept as it is.
func (w *World) bodyOf(object *unstructured.Unstructured, resource string) map[string]any {
	m := &mentions{}
	spec, _ := object.Object["spec"].(map[string]any)
	m.within(1, "spec", spec)
	for key, value := range spec {
		if below, is := value.(map[string]any); is {
			m.within(2, "spec."+key, below)
		}
	}
	status, _ := object.Object["status"].(map[string]any)
	for key, value := range status {
		if list, is := value.([]any); is {
			m.listed(1, "status."+key, list[:min(len(list), maxListed)])
		}
	}
	if m.odd || len(m.found) > maxMentions {
		return nil
	}
	slices.SortFunc(m.found, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	body := map[string]any{}
	if len(m.found) > 0 {
		body["names"] = m.found
	}
	for _, finalizer := range object.GetFinalizers() {
		entry, _ := w.options.Catalog.Lookup(finalizer, resource)
		if entry.Drains == nil {
			continue
		}
		node, _, _ := unstructured.NestedString(object.Object, strings.Split(entry.Drains.Node, ".")...)
		bounded := []any{}
		for _, path := range entry.Drains.Bounded {
			switch value := facts.Lookup(object.Object, strings.Split(path, ".")...).(type) {
			case string, int64, float64:
				bounded = append(bounded, map[string]any{"at": path, "value": value})
			}
		}
		body["drains"] = map[string]any{"at": entry.Drains.Node, "node": node, "bounded": bounded}
	}
	return body
}

// mentions are objects that another names, by kind and name, in the fields that
// referred-object-stuck reads.
type mentions struct {
	found []any
	odd   bool // some cannot be kept as they are
}

// within takes in references among fields, which stand so deep.
func (m *mentions) within(depth int, path string, fields map[string]any) {
	for key, value := range fields {
		at := path + "." + key
		switch value := value.(type) {
		case map[string]any:
			if strings.HasSuffix(key, "Ref") {
				m.take(depth, at, value)
			}
			m.odd = m.odd || strings.HasSuffix(key, "Refs")
		case []any:
			if strings.HasSuffix(key, "Refs") {
				m.listed(depth, at, value)
			}
		}
	}
}

func (m *mentions) listed(depth int, at string, list []any) {
	for _, item := range list {
		if named, is := item.(map[string]any); is {
			m.take(depth, at, named)
		}
	}
}

func (m *mentions) take(depth int, at string, named map[string]any) {
	kept := map[string]any{"at": at}
	for _, key := range []string{"apiVersion", "kind", "namespace", "name"} {
		switch value := named[key].(type) {
		case nil:
		case string:
			m.odd = m.odd || len(value) > question.MaxConditionText
			kept[key] = value
		default:
			return // no object has such a name
		}
	}
	if kept["kind"] == nil || kept["name"] == nil {
		return
	}
	m.odd = m.odd || strings.Count(at, ".") > depth // dots in a key
	m.found = append(m.found, kept)
}
