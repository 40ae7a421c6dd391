package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/termguard/termguard/probe/report"
)

// maxReports bounds the reports that are read at once: Kubernetes is made for 5,000 nodes.
const maxReports = 5000

// Reports of node probes are in termguard's own namespace, where no tenant writes.
// Whoever may not read them does without.

// readProbes lists them into the facts.
func (w *World) readProbes(ctx context.Context, client typedcorev1.ConfigMapsGetter, log *slog.Logger) {
	options := metav1.ListOptions{LabelSelector: report.Label, Limit: pageSize}
	for read := 0; read < maxReports; {
		list, err := client.ConfigMaps(w.options.Home).List(ctx, options)
		if err != nil {
			log.Debug("what node probes found is not known", "namespace", w.options.Home, "error", err)
			return
		}
		for _, cm := range list.Items {
			w.keepReport(&cm, log)
		}
		read += len(list.Items)
		if options.Continue = list.Continue; options.Continue == "" {
			return
		}
	}
}

// followProbes keeps them up to date until ctx ends.
func (w *World) followProbes(ctx context.Context, client rest.Interface, log *slog.Logger) {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(client, "configmaps", w.options.Home, func(o *metav1.ListOptions) {
			o.LabelSelector = report.Label
		}),
		ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.keepReport(obj, log) },
			UpdateFunc: func(_, obj any) { w.keepReport(obj, log) },
			DeleteFunc: func(obj any) {
				if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
					w.forgetReport(path.Base(name))
				}
			},
		},
	})
	controller.RunWithContext(ctx)
}

// keepReport takes in the report that a ConfigMap holds. One that makes no sense counts
// as none.
func (w *World) keepReport(obj any, log *slog.Logger) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return
	}
	r, err := report.Read(cm)
	if err != nil {
		log.Warn("the report of a node probe is ignored", "error", err)
		w.forgetReport(cm.Name)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.KeepReport(r)
}

func (w *World) forgetReport(configMap string) {
	if node, ok := report.NodeOf(configMap); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.nodes.ForgetReport(node)
	}
}

// isProbe tells whether an object holds the report of a node probe.
func (w *World) isProbe(obj *unstructured.Unstructured) bool {
	_, labelled := obj.GetLabels()[report.Label]
	return labelled && obj.GetNamespace() == w.options.Home && obj.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("ConfigMap")
}

// reported is the report that an object holds.
func reported(obj *unstructured.Unstructured) (report.Report, error) {
	var cm corev1.ConfigMap
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &cm); err != nil {
		return report.Report{}, fmt.Errorf("ConfigMap %s: %w", obj.GetName(), err)
	}
	return report.Read(&cm)
}
