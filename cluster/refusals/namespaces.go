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
	whole  *corev1.Namespace
	record map[string]any
	said   statement // by its conditions
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

func (p *Part) namespaceOf(o *corev1.Namespace) (n namespace, kept bool) {
	record := namespaceFacts(o)
	facts.Set(record, "implied", true, p.options.Manifests && o.Annotations[Implied] != "")
	return namespace{o.Labels, o.Finalizers, wholeOf(o), record, conditionStatement(o)}, true
}

func (p *Part) namespaceChanged(key types.NamespacedName, _, now namespace) {
	p.touched[key.Name] = true
	p.setStatement(key, now.said)
}

func (p *Part) Namespace(name string) (facts.Namespace, bool) {
	n, exists := p.namespaces[named(name)]
	return facts.Namespace{Labels: n.labels, Terminating: n.record["deletionTimestamp"] != nil}, exists
}

func (p *Part) namespace(name string) namespace { return p.namespaces[named(name)] }

func named(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

func namespaceFacts(ns *corev1.Namespace) map[string]any {
	record := map[string]any{
		"phase":          string(ns.Status.Phase),
		"finalizers":     facts.List(ns.Finalizers),
		"specFinalizers": facts.List(ns.Spec.Finalizers),
	}
	labels, annotations, conditions := ownKeys(ns.Labels), ownKeys(ns.Annotations), map[string]any{}
	for _, c := range ns.Status.Conditions {
		conditions[string(c.Type)] = map[string]any{"status": string(c.Status), "reason": c.Reason, "message": c.Message}
	}
	facts.Set(record, "deletionTimestamp", facts.Timestamp(facts.Or(ns.DeletionTimestamp, metav1.Time{})), ns.DeletionTimestamp != nil)
	facts.Set(record, "labels", labels, len(labels) > 0)
	facts.Set(record, "annotations", annotations, len(annotations) > 0)
	facts.Set(record, "conditions", conditions, len(conditions) > 0)
	return record
}

func ownKeys(m map[string]string) map[string]any {
	keys := map[string]any{}
	for key, value := range m {
		if strings.HasPrefix(key, ours) {
			keys[key] = value
		}
	}
	return keys
}
