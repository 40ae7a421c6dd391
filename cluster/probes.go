package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/termguard/termguard/probe/report"
)

// KeepReport adds the report of a node probe.
func (w *World) KeepReport(r report.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.KeepReport(r)
}

// ForgetReport removes the report about a node.
func (w *World) ForgetReport(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.ForgetReport(node)
}

// isProbe reports whether an object holds the report of a node probe.
func (w *World) isProbe(obj *unstructured.Unstructured) bool {
	_, labelled := obj.GetLabels()[report.Label]
	return labelled && obj.GetNamespace() == w.options.Home && obj.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("ConfigMap")
}

// reported returns the report in an object.
func reported(obj *unstructured.Unstructured) (report.Report, error) {
	var cm corev1.ConfigMap
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &cm); err != nil {
		return report.Report{}, fmt.Errorf("ConfigMap %s: %w", obj.GetName(), err)
	}
	return report.Read(&cm)
}
