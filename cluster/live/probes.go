package live

import (
	"context"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/termguard/termguard/probe/report"
)

// maxReports bounds the reports of one read: Kubernetes supports 5,000 nodes.
const maxReports = 5000

// Reports of node probes are in termguard's own namespace, where no tenant writes.

func (c *Cluster) readProbes(ctx context.Context) {
	options := metav1.ListOptions{LabelSelector: report.Label, Limit: pageSize}
	for read := 0; read < maxReports; {
		list, err := c.kube.CoreV1().ConfigMaps(c.options.Home).List(ctx, options)
		if err != nil {
			c.log.Debug("reports of node probes are unseen", "namespace", c.options.Home, "error", err)
			return
		}
		for _, cm := range list.Items {
			c.keepReport(&cm)
		}
		read += len(list.Items)
		if options.Continue = list.Continue; options.Continue == "" {
			return
		}
	}
}

func (c *Cluster) followProbes(ctx context.Context) {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(c.kube.CoreV1().RESTClient(), "configmaps", c.options.Home, func(o *metav1.ListOptions) {
			o.LabelSelector = report.Label
		}),
		ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    c.keepReport,
			UpdateFunc: func(_, obj any) { c.keepReport(obj) },
			DeleteFunc: func(obj any) {
				if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
					c.forgetReport(path.Base(name))
				}
			},
		},
	})
	controller.RunWithContext(ctx)
}

func (c *Cluster) keepReport(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return
	}
	r, err := report.Read(cm)
	if err != nil {
		c.log.Warn("the report of a node probe is ignored", "error", err)
		c.forgetReport(cm.Name)
		return
	}
	c.world.KeepReport(r)
}

func (c *Cluster) forgetReport(configMap string) {
	if node, ok := report.NodeOf(configMap); ok {
		c.world.ForgetReport(node)
	}
}
