package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"golang.org/x/sync/errgroup"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

const (
	// maxConditioned bounds the objects that are read of a namespace, conditionsAtOnce the concurrent reads.
	maxConditioned, conditionsAtOnce = 50, 8
	// conditionsWithin bounds the time of all reads.
	conditionsWithin = 10 * time.Second
)

type conditioned struct {
	schema.GroupVersionResource
	namespace, name string
}

func (o conditioned) resource() string { return o.GroupResource().String() }

// ReadConditions reads the status conditions of the first few custom resources in a namespace whose
// finalizers wait for an owner that may be alive, and warning Events about them.
func (w *World) ReadConditions(ctx context.Context, config *rest.Config, namespace string, log *slog.Logger) error {
	objects := w.conditioned(namespace)
	if len(objects) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, conditionsWithin)
	defer cancel()
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200 // as live.New
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to read objects: %w", err)
	}
	if err := w.ReadWarnings(ctx, config, namespace, log); err != nil {
		return err
	}
	w.keepConditions(namespace, objects, func(o conditioned) *unstructured.Unstructured {
		object, err := client.Resource(o.GroupVersionResource).Namespace(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
		if err != nil {
			log.Debug("what an object says is not known", "resource", o.resource(), "namespace", o.namespace, "name", o.name, "error", err)
			return nil
		}
		return object
	})
	return nil
}

// TakeConditions is ReadConditions for objects, by "plural.group", that were read; nil for unreadable ones.
func (w *World) TakeConditions(namespace string, read func(resource, name string) *unstructured.Unstructured) {
	if objects := w.conditioned(namespace); len(objects) > 0 {
		w.keepConditions(namespace, objects, func(o conditioned) *unstructured.Unstructured { return read(o.resource(), o.name) })
	}
}

// keepConditions calls read concurrently.
func (w *World) keepConditions(namespace string, objects []conditioned, read func(conditioned) *unstructured.Unstructured) {
	found := facts.Document{}
	var mu sync.Mutex
	var reading errgroup.Group
	reading.SetLimit(conditionsAtOnce)
	for _, o := range objects[:min(len(objects), maxConditioned)] {
		reading.Go(func() error {
			if object := read(o); object != nil {
				conditions := w.conditionsOf(o, object)
				mu.Lock()
				defer mu.Unlock()
				found.Put(conditions, o.resource(), o.name)
			}
			return nil
		})
	}
	_ = reading.Wait() // never fails
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doc.Put(map[string]any(found), "conditions", namespace)
}

// conditioned returns the objects in a namespace whose conditions matter, round-robin by group.
func (w *World) conditioned(namespace string) (found []conditioned) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	f := facts.Read(w.doc)
	names := map[string]map[string]bool{} // by resource
	for held := range f.Held(namespace, "") {
		if !f.Defines(held.Resource) || !able(held.Owner()) {
			continue
		}
		for _, name := range held.Names {
			if names[held.Resource] == nil {
				names[held.Resource] = map[string]bool{}
			}
			names[held.Resource][name] = true
		}
	}
	for nth, more := 0, true; more && len(found) < maxConditioned; nth++ {
		more = false
		for _, resource := range slices.Sorted(maps.Keys(names)) {
			if list := slices.Sorted(maps.Keys(names[resource])); nth < len(list) {
				version := ""
				if served := f.Definition(resource).Served; len(served) > 0 {
					version = served[0]
				}
				found, more = append(found, conditioned{schema.ParseGroupResource(resource).WithVersion(version), namespace, list[nth]}), true
			}
		}
	}
	return found
}

// able reports whether an owner may be alive: the words of a dead one are old.
func able(owner Verdict) bool { return owner.State == Alive || owner.State == Unknown }

func (w *World) conditionsOf(o conditioned, object *unstructured.Unstructured) []any {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return append(question.Conditions(object.Object), w.told(o.resource(), o.namespace, object.GetUID())...)
}
