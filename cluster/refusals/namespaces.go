package refusals

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

const ours = "termguard.dev/"

// Implied is the annotation of a namespace that manifests use but do not contain: its labels are unknown.
const Implied = ours + "implied"

type namespace struct {
	labels     map[string]string
	finalizers []string
	// whole lacks the status; nil if it is too large to keep.
	whole *corev1.Namespace
}

// maxAnnotations bounds a namespace's kept annotations, in bytes: an installer may have stored its manifest.
const maxAnnotations = 8 << 10

func wholeOf(o *corev1.Namespace) *corev1.Namespace {
	size := 0
	for key, value := range o.Annotations {
		size += len(key) + len(value)
	}
	if size > maxAnnotations {
		return nil
	}
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, UID: o.UID, CreationTimestamp: o.CreationTimestamp,
			Labels: o.Labels, Annotations: o.Annotations, Finalizers: o.Finalizers,
		},
		Spec: o.Spec,
	}
}

func (p *Part) keepNamespace(o *corev1.Namespace) bool {
	known := namespaceFacts(o)
	facts.Set(known, "implied", true, p.options.Manifests && o.Annotations[Implied] != "")
	p.doc.Child("namespaces")[o.Name] = known
	p.namespaces[o.Name] = namespace{o.Labels, o.Finalizers, wholeOf(o)}
	p.touched[o.Name] = true
	p.keepNamespaceStatement(o)
	return true
}

func (p *Part) forgetNamespace(key types.NamespacedName) {
	p.doc.Prune("namespaces", key.Name)
	delete(p.namespaces, key.Name)
	p.setStatement(key, statement{})
	p.touched[key.Name] = true
}

func namespaceFacts(ns *corev1.Namespace) map[string]any {
	found := map[string]any{
		"phase":          string(ns.Status.Phase),
		"finalizers":     facts.List(ns.Finalizers),
		"specFinalizers": facts.List(ns.Spec.Finalizers),
	}
	labels, annotations, conditions := ownKeys(ns.Labels), ownKeys(ns.Annotations), map[string]any{}
	for _, c := range ns.Status.Conditions {
		conditions[string(c.Type)] = map[string]any{"status": string(c.Status), "reason": c.Reason, "message": c.Message}
	}
	facts.Set(found, "deletionTimestamp", facts.Timestamp(facts.Or(ns.DeletionTimestamp, metav1.Time{})), ns.DeletionTimestamp != nil)
	facts.Set(found, "labels", labels, len(labels) > 0)
	facts.Set(found, "annotations", annotations, len(annotations) > 0)
	facts.Set(found, "conditions", conditions, len(conditions) > 0)
	return found
}

func ownKeys(m map[string]string) map[string]any {
	found := map[string]any{}
	for key, value := range m {
		if strings.HasPrefix(key, ours) {
			found[key] = value
		}
	}
	return found
}
