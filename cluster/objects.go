package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/probe/report"
)

const apiVersion = "termguard.dev/v1"

// About holds the facts that objects cannot show: a document of kind Cluster.
type About struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Version is the API server's gitVersion.
	Version string     `json:"version"`
	Now     *time.Time `json:"now"`
	// Groups that are served beside built-in and defined ones.
	Groups []string `json:"groups"`
	// Set says that all objects are deleted together, as by kubectl delete -f.
	Set bool `json:"set"`
	// SetWithout are resources, as plural.group, outside the set.
	SetWithout []string `json:"setWithout"`
	// SetOrder says that another command deletes them, in their order.
	SetOrder map[string]any `json:"setOrder"`
	// Stale names APIServices whose group cannot be discovered.
	Stale []string `json:"stale"`
	// ListErrors are errors of listing, by APIService or CustomResourceDefinition.
	ListErrors map[string]string `json:"listErrors"`
	Unseen     []struct {
		Resource   string `json:"resource"`
		Namespaced bool   `json:"namespaced"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
	} `json:"unseen"`
	// ConditionsOf names the namespace whose conditions were read.
	ConditionsOf string `json:"conditionsOf"`
}

func (a About) sees(res Resource) bool {
	for _, u := range a.Unseen {
		if u.Resource == res.GroupResource().String() {
			return false
		}
	}
	return true
}

// FromObjects returns the facts about a cluster with exactly these objects; the one of kind Cluster is an
// About.
func FromObjects(options Options, objects []*unstructured.Unstructured) (*World, error) {
	w := NewWorld(options)
	var about About
	groups := BuiltinGroups()
	mapped := Resources(objects)
	begun := map[Resource][]runtime.Object{}
	var leases []coordinationv1.Lease
	held := false
	for _, res := range Whole() {
		if options.Manifests == nil { // manifests are never complete
			begun[res] = nil
		}
	}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if gvk == corev1.SchemeGroupVersion.WithKind("ConfigMap") {
			if err := w.keepConfigMap(obj); err != nil {
				return nil, fmt.Errorf("ConfigMap %s: %w", obj.GetName(), err)
			}
		}
		if gvk.GroupVersion().String() == apiVersion {
			if gvk.Kind == "Cluster" {
				if err := Decode(obj, &about); err != nil {
					return nil, fmt.Errorf("document of kind Cluster: %w", err)
				}
			}
			continue
		}
		read := typedObject
		if options.Manifests != nil && !Reduces(mapped[gvk]) {
			read = checkedObject
		}
		typed, err := read(obj)
		if err != nil && options.Manifests != nil {
			continue // the API server would reject it
		}
		if _, isObject := typed.(metav1.Object); !isObject && err == nil && options.Manifests != nil {
			continue // no object, such as DeleteOptions
		}
		if err != nil {
			return nil, err
		}
		if gvk == coordinationv1.SchemeGroupVersion.WithKind("Lease") && options.Manifests == nil { // no part keeps it as an object
			var lease coordinationv1.Lease
			if err := Decode(obj, &lease); err != nil {
				return nil, fmt.Errorf("lease %q: %w", obj.GetName(), err)
			}
			leases = append(leases, lease)
		}
		res := mapped[gvk]
		begun[res] = append(begun[res], typed)
		held = held || len(obj.GetFinalizers()) > 0
		groups = append(groups, gvk.Group)
		if group, ok, _ := unstructured.NestedString(obj.Object, "spec", "group"); ok && gvk.Kind == "CustomResourceDefinition" {
			groups = append(groups, group)
		}
	}
	if version := cmp.Or(cmp.Or(options.Manifests, &Manifests{}).Version, about.Version); version != "" {
		w.SetVersion(version)
	}
	if about.Now != nil {
		w.options.Now = func() time.Time { return *about.Now }
	}
	if about.Set || about.SetOrder != nil {
		w.doc["set"] = together(objects, about.SetOrder != nil, about.SetWithout)
	}
	if about.SetOrder != nil {
		w.doc["setOrder"] = about.SetOrder
	}
	stale := map[string]bool{}
	for _, name := range about.Stale {
		stale[name] = true
	}
	w.SetServed(append(groups, about.Groups...), stale)
	// Among manifests, references matter only to finalizers: other objects are unknown anyway.
	if options.Manifests == nil || held {
		w.Follow(slices.AppendSeq(slices.Clone(Whole()), maps.Keys(begun)))
	}
	for res, list := range begun {
		if !about.sees(res) {
			continue
		}
		w.Begin(res)
		for _, obj := range list {
			if err := w.Apply(res, obj, true); err != nil {
				return nil, err
			}
		}
		w.End(res)
	}
	w.SetLeases(leases)
	for name, message := range about.ListErrors {
		if w.refusals.Converts(name) {
			w.refusals.SetConversionError(name, message)
			continue
		}
		w.refusals.SetAPIServiceError(name, "", message)
	}
	for _, u := range about.Unseen {
		w.SetUnseen(Resource{GroupVersionResource: schema.ParseGroupResource(u.Resource).WithVersion(""), Namespaced: u.Namespaced}, u.Reason, u.Message)
	}
	if options.Manifests != nil {
		w.refusals.AskForObjects("")
	}
	w.Settle()
	for range ReadRounds {
		if !w.readFrom(objects) {
			break
		}
		w.Settle()
	}
	if options.Manifests != nil {
		w.onlyManifests(objects)
	}
	if namespace := about.ConditionsOf; namespace != "" {
		w.TakeWarnings(eventsAmong(objects))
		w.TakeConditions(namespace, func(o Conditioned) *unstructured.Unstructured {
			for _, obj := range objects {
				if mapped[obj.GroupVersionKind()].GroupResource() == o.GroupResource() && obj.GetNamespace() == namespace && obj.GetName() == o.Name {
					return obj
				}
			}
			return nil
		})
	}
	return w, nil
}

func (w *World) keepConfigMap(obj *unstructured.Unstructured) error {
	_, labelled := obj.GetLabels()[report.Label]
	probe := labelled && obj.GetNamespace() == w.options.Home && w.options.Manifests == nil
	if !probe && obj.GetName() != LearnedConfigMap {
		return nil
	}
	var cm corev1.ConfigMap
	if err := Decode(obj, &cm); err != nil {
		return err
	}
	if !probe {
		return w.recall(&cm)
	}
	r, err := report.Read(&cm)
	if err == nil {
		w.nodes.KeepReport(r)
	}
	return err
}

func eventsAmong(objects []*unstructured.Unstructured) (events []corev1.Event) {
	for _, obj := range objects {
		var e corev1.Event
		if obj.GetKind() == "Event" && Decode(obj, &e) == nil {
			events = append(events, e)
		}
	}
	return events
}

// together returns the objects' places in a set, all 0 unless ordered.
func together(objects []*unstructured.Unstructured, ordered bool, without []string) map[string]any {
	set := facts.Document{}
	mapped := Resources(objects)
	place := 0
	for i, obj := range objects {
		if ordered {
			place = i
		}
		if gvk := obj.GroupVersionKind(); gvk.GroupVersion().String() != apiVersion && !slices.Contains(without, mapped[gvk].String()) {
			set.Put(place, mapped[gvk].String(), obj.GetNamespace(), obj.GetName())
		}
	}
	return set
}

// Decode converts through JSON: its errors name the field, and apimachinery's converter is slower, as it
// copies its cache for each new field.
func Decode(obj *unstructured.Unstructured, into any) error {
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

func typedObject(obj *unstructured.Unstructured) (runtime.Object, error) {
	typed, err := scheme.New(readAs(obj.GroupVersionKind()))
	if err != nil {
		return obj, nil //nolint:nilerr // only the metadata of such a kind counts
	}
	if err := Decode(obj, typed); err != nil {
		return nil, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return typed, nil
}

// checkedObject returns an object whose metadata alone counts unchanged, if the API server would accept it.
func checkedObject(obj *unstructured.Unstructured) (runtime.Object, error) {
	typed, err := scheme.New(obj.GroupVersionKind())
	if err != nil {
		return obj, nil //nolint:nilerr // as in typedObject
	}
	if _, isObject := typed.(metav1.Object); !isObject {
		return typed, nil
	}
	return obj, Decode(obj, &metav1.PartialObjectMetadata{})
}

// Items returns the mappings in a list.
func Items(object map[string]any, path ...string) (items []map[string]any) {
	list, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	values, _ := list.([]any)
	for _, value := range values {
		if item, ok := value.(map[string]any); ok {
			items = append(items, item)
		}
	}
	return items
}
