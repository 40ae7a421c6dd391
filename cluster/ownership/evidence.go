package ownership

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

type evidence struct {
	finalizer string
	declared  string
	// managers are the field managers that wrote the finalizer.
	managers []string
	// status are the managers that wrote a custom object's status, for a finalizer outside the catalog.
	status []string
	// owners are the kinds of its owner references.
	owners []string
	driver string
	// spared says that the owner need not create anything for this object.
	spared bool
	// spares are the obstacles that do not occur with the object.
	spares []string
	// paused is the label or annotation that pauses an owner outside the catalog.
	paused string
	// at is the index in metadata.finalizers, or facts.Nowhere: no evidence, and not in the signature.
	at int
}

func (e evidence) equal(other evidence) bool {
	return e.finalizer == other.finalizer && e.at == other.at && e.signature() == other.signature()
}

func (e evidence) signature() string {
	spared := ""
	if e.spared {
		spared = "nothing"
	}
	var parts []string
	for _, part := range [][2]string{
		{"declared", e.declared}, {"managers", strings.Join(e.managers, ",")}, {"status", strings.Join(e.status, ",")},
		{"owners", strings.Join(e.owners, ",")}, {"driver", e.driver}, {"creates", spared}, {"without", strings.Join(e.spares, ",")}, {"paused", e.paused},
	} {
		if part[1] != "" {
			parts = append(parts, part[0]+"="+part[1])
		}
	}
	return strings.Join(parts, " ")
}

// Annotation declares the owner of an object's finalizers: a workload's "KIND/NAMESPACE/NAME", or "external".
const Annotation = "termguard.dev/finalizer-owner"

// maxFinalizers bounds the finalizers read of an object, and maxGroups the groups of objects in a namespace:
// users may create any number.
const maxFinalizers, maxGroups = 64, 128

// evidenceOf is finalizersOf with the catalog's conditions on the object.
func (p *Part) evidenceOf(resource string, m metav1.Object, spec []string) []evidence {
	list := finalizersOf(m, spec, p.trusts(resource, m))
	var pauses map[string]string // most objects need none
	var status []string
	for i := range list {
		e := &list[i]
		entry, exists := p.options.Catalog.Lookup(e.finalizer, resource)
		if !exists {
			if pauses == nil {
				pauses = pausesOf(m)
				if facts.Custom(facts.GroupOf(resource)) && len(m.GetFinalizers()) <= maxFinalizers {
					for _, c := range claims(m) {
						if c.finalizer == "" && !slices.Contains(status, c.manager) {
							status = append(status, c.manager)
						}
					}
					slices.Sort(status)
				}
			}
			e.paused = pausedBy(pauses, resource, e.finalizer)
			e.status = status
		}
		if !exists || len(entry.CreatesWhen)+len(entry.Obstacles) == 0 {
			continue
		}
		obstacles := entry.ObstaclesOf(resource)
		content := contentOf(m, len(entry.CreatesWhen) > 0 || slices.ContainsFunc(obstacles, func(f catalog.Obstacle) bool { return len(f.When) > 0 }))
		e.spared = len(entry.CreatesWhen) > 0 && !entry.CreatesFor(content)
		for _, f := range obstacles {
			if !f.Shows(content) {
				e.spares = append(slices.Clip(e.spares), f.ID)
			}
		}
	}
	return list
}

// contentOf returns at least labels and annotations.
func contentOf(m metav1.Object, all bool) map[string]any {
	if u, whole := m.(*unstructured.Unstructured); whole {
		return u.Object
	}
	if _, part := m.(*metav1.PartialObjectMetadata); !part && all {
		if whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m); err == nil {
			return whole
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetLabels(m.GetLabels())
	u.SetAnnotations(m.GetAnnotations())
	return u.Object
}

// finalizersOf omits the namespace controller's own in a namespace's spec, which is removed last.
func finalizersOf(m metav1.Object, spec []string, trusted bool) []evidence {
	all := m.GetFinalizers()
	if len(all) == 0 && !slices.ContainsFunc(spec, func(finalizer string) bool { return finalizer != "kubernetes" }) {
		return nil // most objects: skip their field managers
	}
	common := evidence{driver: driverOf(m), at: facts.Nowhere}
	if trusted {
		common.declared = m.GetAnnotations()[Annotation]
	}
	for _, ref := range m.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil {
			common.owners = append(common.owners, gv.WithKind(ref.Kind).GroupKind().String())
		}
	}
	slices.Sort(common.owners)
	common.owners = slices.Compact(common.owners)
	spec, listed := spec[:min(maxFinalizers, len(spec))], all[:min(maxFinalizers, len(all))]
	list := make([]evidence, 0, len(spec)+len(listed))
	of := func(finalizer string) *evidence {
		if i := slices.IndexFunc(list, func(e evidence) bool { return e.finalizer == finalizer }); i >= 0 {
			return &list[i]
		}
		return nil
	}
	for i, finalizer := range slices.Concat(spec, listed) {
		at := i - len(spec)
		if at < 0 {
			at = facts.Nowhere
		}
		switch e := of(finalizer); {
		case at == facts.Nowhere && finalizer == "kubernetes":
		case e == nil:
			common.finalizer, common.at = finalizer, at
			list = append(list, common)
		case e.at == facts.Nowhere:
			e.at = at
		}
	}
	if len(all) > maxFinalizers {
		return list
	}
	for _, c := range claims(m) {
		if t := of(c.finalizer); t != nil {
			t.managers = append(slices.Clone(t.managers), c.manager)
			slices.Sort(t.managers)
			t.managers = slices.Compact(t.managers)
		}
	}
	return list
}

// claim is a field manager's of a finalizer (v:"NAME" under f:finalizers; a namespace's f:spec has an atomic
// list without names), or of the status, "".
type claim struct{ manager, finalizer string }

func claims(m metav1.Object) (all []claim) {
	add := func(manager, subresource string, finalizers map[string]any) {
		if subresource == "status" {
			all = append(all, claim{manager, ""})
		}
		for key := range finalizers {
			var name string
			if value, isValue := strings.CutPrefix(key, "v:"); isValue && json.Unmarshal([]byte(value), &name) == nil {
				all = append(all, claim{manager, name})
			}
		}
	}
	if u, whole := m.(*unstructured.Unstructured); whole { // its own method takes ten times as long
		entries, _ := facts.Lookup(u.Object, "metadata", "managedFields").([]any)
		for _, entry := range entries {
			entry, _ := entry.(map[string]any)
			manager, _ := entry["manager"].(string)
			subresource, _ := entry["subresource"].(string)
			finalizers, _ := facts.Lookup(entry, "fieldsV1", "f:metadata", "f:finalizers").(map[string]any)
			add(manager, subresource, finalizers)
		}
		return all
	}
	for _, entry := range m.GetManagedFields() {
		var fields struct {
			Metadata struct {
				Finalizers map[string]any `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if raw := entry.FieldsV1.GetRawBytes(); bytes.Contains(raw, []byte("f:finalizers")) && json.Unmarshal(raw, &fields) != nil {
			fields.Metadata.Finalizers = nil
		}
		add(entry.Manager, entry.Subresource, fields.Metadata.Finalizers)
	}
	return all
}

func driverOf(m metav1.Object) string {
	switch o := m.(type) {
	case *corev1.PersistentVolume:
		if o.Spec.CSI != nil {
			return o.Spec.CSI.Driver
		}
	case *storagev1.VolumeAttachment:
		return o.Spec.Attacher
	case *unstructured.Unstructured:
		switch o.GetKind() {
		case "PersistentVolume":
			driver, _, _ := unstructured.NestedString(o.Object, "spec", "csi", "driver")
			return driver
		case "VolumeAttachment":
			driver, _, _ := unstructured.NestedString(o.Object, "spec", "attacher")
			return driver
		case "VolumeSnapshotContent":
			driver, _, _ := unstructured.NestedString(o.Object, "spec", "driver")
			return driver
		}
	}
	return ""
}
