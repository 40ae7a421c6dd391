package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/probe/report"
)

const apiVersion = "termguard.dev/v1"

// aside tells, beside objects, what objects cannot show of a cluster:
// a document of kind Cluster.
type aside struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Version of the API server, as in gitVersion.
	Version string `json:"version"`
	// Now is the time that the facts are told at.
	Now *time.Time `json:"now"`
	// Groups that are served beside the built-in ones and those of the
	// CustomResourceDefinitions at hand.
	Groups []string `json:"groups"`
	// Set tells that all objects are deleted together, as by kubectl delete -f.
	Set bool `json:"set"`
	// SetWithout are the resources, as plural.group, whose objects are not among them.
	SetWithout []string `json:"setWithout"`
	// SetOrder tells that another command deletes them, in the order that they stand in.
	SetOrder map[string]any `json:"setOrder"`
	// Stale names APIServices whose group cannot be discovered.
	Stale []string `json:"stale"`
	// ListErrors are errors of listing an aggregated API, by APIService, or a
	// custom resource, by CustomResourceDefinition.
	ListErrors map[string]string `json:"listErrors"`
	Unseen     []struct {
		Resource   string `json:"resource"`
		Namespaced bool   `json:"namespaced"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
	} `json:"unseen"`
	// ConditionsOf names the namespace whose conditions have been read, as ReadConditions does.
	ConditionsOf string `json:"conditionsOf"`
}

// sees tells whether objects of a resource are among the facts.
func (a aside) sees(res Resource) bool {
	for _, u := range a.Unseen {
		if u.Resource == res.GroupResource().String() {
			return false
		}
	}
	return true
}

// FromObjects returns the facts about a cluster that holds just the given
// objects, as `kubectl get -o yaml` prints them, with their status. A document
// of kind Cluster among them tells what objects cannot show.
func FromObjects(options Options, objects []*unstructured.Unstructured) (*World, error) {
	w := NewWorld(options)
	var about aside
	groups := BuiltinGroups()
	mapped := resourcesOf(objects)
	begun := map[Resource][]runtime.Object{}
	var reports []report.Report
	var leases []coordinationv1.Lease
	held := false
	for _, res := range typed {
		if !options.manifests { // of which none are known to be all
			begun[res] = nil
		}
	}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if gvk.Kind == "ConfigMap" && obj.GetName() == LearnedConfigMap {
			if err := w.recall(obj); err != nil {
				return nil, err
			}
		}
		if w.isProbe(obj) && !options.manifests {
			r, err := reported(obj)
			if err != nil {
				return nil, err
			}
			reports = append(reports, r)
		}
		if gvk.GroupVersion().String() == apiVersion {
			if gvk.Kind == "Cluster" {
				if err := decode(obj, &about); err != nil {
					return nil, fmt.Errorf("document of kind Cluster: %w", err)
				}
			}
			continue
		}
		convert := typedObject
		if options.manifests && !Reduces(mapped[gvk]) {
			convert = checkedObject
		}
		typed, err := convert(obj)
		if err != nil && options.manifests {
			continue // the API server would refuse it
		}
		if _, isObject := typed.(metav1.Object); !isObject && err == nil && options.manifests {
			continue // as DeleteOptions: a type of the API that is no object
		}
		if err != nil {
			return nil, err
		}
		if gvk == coordinationv1.SchemeGroupVersion.WithKind("Lease") && !options.manifests { // which no part keeps as an object
			var lease coordinationv1.Lease
			if err := decode(obj, &lease); err != nil {
				return nil, fmt.Errorf("lease %q: %w", obj.GetName(), err)
			}
			leases = append(leases, lease)
		}
		res := mapped[gvk]
		begun[res] = append(begun[res], typed)
		held = held || len(obj.GetFinalizers()) > 0
		groups = append(groups, gvk.Group)
		if group, found, _ := unstructured.NestedString(obj.Object, "spec", "group"); found && gvk.Kind == "CustomResourceDefinition" {
			groups = append(groups, group)
		}
	}
	if about.Version != "" {
		w.SetVersion(about.Version)
	}
	if about.Now != nil {
		w.at = about.Now
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
	further := map[Resource]map[string]int{} // how many, by namespace
	for obj := range w.options.further {
		res := mapped[obj.GroupVersionKind()]
		if further[res] == nil {
			further[res] = map[string]int{}
		}
		further[res][obj.GetNamespace()]++
	}
	// Of manifests, who names whom only matters where one of them has a finalizer: what is
	// not among them is unknown anyway.
	if !options.manifests || held {
		w.follow(slices.AppendSeq(slices.Clone(typed), maps.Keys(begun)))
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
		for namespace, n := range further[res] {
			w.inventory.count(w.inventory.resources[res.String()], namespace, n)
		}
		w.End(res)
	}
	for _, r := range reports {
		w.nodes.KeepReport(r)
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
	if options.manifests {
		w.refusals.AskForObjects("")
	}
	w.Settle()
	for range readRounds { // the objects, after the parameters
		if !w.readFrom(objects) {
			break
		}
		w.Settle()
	}
	if namespace := about.ConditionsOf; namespace != "" {
		found := facts.Document{}
		w.warnings = warningsIn(eventsAmong(objects))
		for _, o := range w.conditioned(namespace) {
			for _, obj := range objects {
				if mapped[obj.GroupVersionKind()].GroupResource() == o.GroupResource() && obj.GetNamespace() == namespace && obj.GetName() == o.name {
					found.Put(w.conditionsOf(o, obj), o.resource(), o.name)
				}
			}
		}
		w.doc.Put(map[string]any(found), "conditions", namespace)
	}
	return w, nil
}

// eventsAmong are the Events among objects that warn of something.
func eventsAmong(objects []*unstructured.Unstructured) (found []corev1.Event) {
	for _, obj := range objects {
		var e corev1.Event
		if obj.GetKind() == "Event" && decode(obj, &e) == nil && e.Type == corev1.EventTypeWarning {
			found = append(found, e)
		}
	}
	return found
}

// together is the part of the facts that tells which objects are deleted together:
// one after the other, or all at once.
func together(objects []*unstructured.Unstructured, ordered bool, without []string) map[string]any {
	set := facts.Document{}
	mapped := resourcesOf(objects)
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

// typedObject converts an object of a kind that the facts reduce to its Go
// type; others stay as they are.
func typedObject(obj *unstructured.Unstructured) (runtime.Object, error) {
	typed, err := scheme.New(readAs(obj.GroupVersionKind()))
	if err != nil {
		return obj, nil //nolint:nilerr // a kind of which only the metadata counts
	}
	if err := decode(obj, typed); err != nil {
		return nil, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return typed, nil
}

// checkedObject is an object of which only the metadata counts, as it is, if the
// API server would take that.
func checkedObject(obj *unstructured.Unstructured) (runtime.Object, error) {
	typed, err := scheme.New(obj.GroupVersionKind())
	if err != nil {
		return obj, nil //nolint:nilerr // as in typedObject
	}
	if _, isObject := typed.(metav1.Object); !isObject {
		return typed, nil
	}
	return obj, decode(obj, &metav1.PartialObjectMetadata{})
}

// decode converts an object to its Go type. Where that fails it goes through
// JSON, whose errors name the field, as those of the converter do not.
func decode(obj *unstructured.Unstructured, into any) error {
	if err := fromUnstructured(obj.Object, into); err == nil {
		return nil
	}
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// defined is what the CustomResourceDefinitions among objects say at a path, by
// the kind that they define.
func defined(objects []*unstructured.Unstructured, path ...string) map[schema.GroupKind]string {
	found := map[schema.GroupKind]string{}
	for _, obj := range objects {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		found[schema.GroupKind{Group: group, Kind: kind}], _, _ = unstructured.NestedString(obj.Object, path...)
	}
	return found
}

// resourcesOf maps the kinds of objects to resources: by the
// CustomResourceDefinitions among them, else by the plural that Kubernetes
// itself would guess.
func resourcesOf(objects []*unstructured.Unstructured) map[schema.GroupVersionKind]Resource {
	plurals := defined(objects, "spec", "names", "plural")
	mapped := map[schema.GroupVersionKind]Resource{}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if before, seen := mapped[gvk]; seen && (before.Namespaced || obj.GetNamespace() == "") {
			continue
		}
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		if plural := plurals[gvk.GroupKind()]; plural != "" {
			gvr.Resource = plural
		}
		res := Resource{GroupVersionResource: gvr, Namespaced: obj.GetNamespace() != ""}
		if i := slices.IndexFunc(typed, func(b Resource) bool { return b.GroupResource() == gvr.GroupResource() }); i >= 0 {
			res = typed[i]
		}
		mapped[gvk] = res
	}
	return mapped
}

// WriteSnapshot writes the facts as JSON.
func (w *World) WriteSnapshot(out io.Writer) error {
	var err error
	w.View(func(doc map[string]any) {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(doc)
	})
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// ErrNotSnapshot is returned for input that is no facts document of this
// version.
var ErrNotSnapshot = errors.New("not a snapshot of termguard.dev/v1 (make one with: termguard snapshot)")

// maxSnapshot bounds a snapshot, in bytes. One of 1,000,000 objects, 1 % of them with
// finalizers, is smaller by an order of magnitude.
const maxSnapshot = 1 << 30

// ReadSnapshot returns the facts that WriteSnapshot wrote. They stay as they
// are: a snapshot takes in no further objects.
func ReadSnapshot(in io.Reader) (*World, error) { return readSnapshot(in, maxSnapshot) }

func readSnapshot(in io.Reader, limit int64) (*World, error) {
	var doc map[string]any
	bounded := &io.LimitedReader{R: in, N: limit + 1}
	if err := json.NewDecoder(bounded).Decode(&doc); err != nil {
		if bounded.N <= 0 {
			return nil, fmt.Errorf("read snapshot: larger than %d MiB: make one of fewer namespaces, with termguard snapshot -n", limit>>20)
		}
		return nil, fmt.Errorf("read snapshot: %w: %w", ErrNotSnapshot, err)
	}
	if doc["apiVersion"] != apiVersion || doc["kind"] != "Facts" {
		return nil, fmt.Errorf("read snapshot: %w: it has apiVersion %v, kind %v", ErrNotSnapshot, doc["apiVersion"], doc["kind"])
	}
	w := NewWorld(Options{})
	var missing []any // what is not in it is not known, and not absent
	for _, key := range slices.Sorted(maps.Keys(w.doc)) {
		empty := w.doc[key]
		switch value := doc[key].(type) {
		case nil:
			if _, written := doc[key]; !written {
				missing = append(missing, map[string]any{"resource": key, "namespaced": false, "reason": facts.UnseenVersion, "message": "another version of termguard wrote the snapshot"})
			}
			doc[key] = empty
		default:
			if section, made := empty.(facts.Section); made {
				empty = section.All()
			}
			if fmt.Sprintf("%T", value) != fmt.Sprintf("%T", empty) {
				return nil, fmt.Errorf("read snapshot: %w: %q is a %T", ErrNotSnapshot, key, value)
			}
		}
	}
	unseen, _ := doc["unseen"].([]any)
	doc["unseen"] = append(unseen, missing...)
	maps.Copy(w.doc, doc)
	w.snapshot = true
	if text, told := doc["now"].(string); told {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			w.at = &at
		}
	}
	// What who judges by the document alone asks of it.
	for name := range w.doc.Child("crds") {
		w.ownership.Define(name)
	}
	for name := range w.doc.Child("csidrivers") {
		w.ownership.Install(name)
	}
	return w, nil
}
