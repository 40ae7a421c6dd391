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

// The facts need not hold the objects that policies read: the API server sends them to the webhook, and check
// reads them. A snapshot has neither, so it holds the fields that policies read, and no more: specs may hold
// secrets.

const (
	// maxBodies bounds the objects in a snapshot with such fields, and maxMentions the references kept of
	// one: users may write any number. An object with more has none.
	maxBodies, maxMentions = 2000, 128
	// maxListed is how many entries of a list of a status policies read.
	maxListed = 64
	// bodiesWithin bounds the time of reading them.
	bodiesWithin = time.Minute
)

// ReadBodies reads, of the first few custom resources whose finalizers wait for a live owner, the fields that
// policies read. Unreadable ones are left out, and unknown.
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

// TakeBodies is ReadBodies with the caller's read, called concurrently; nil for an unreadable object.
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

// bodied returns the objects to read, up to the limit.
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

// bodyOf returns the fields that policies read of an object, without its conditions; nil if that is beyond
// the limit, or cannot be kept unchanged.
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

// mentions are an object's references to others, by kind and name, in the fields that referred-object-stuck
// reads.
type mentions struct {
	found []any
	odd   bool // some cannot be kept unchanged
}

// within adds references in fields at this depth.
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
