package nodes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// network is the DaemonSet that a pod is of, if it sees the directories of its node
// that network plugins and their configuration are read from: it installs one. The
// directories are /opt/cni/bin and /etc/cni/net.d, or lie elsewhere and end alike.
func network(o *corev1.Pod) (daemonSet string, installs bool) {
	controller := metav1.GetControllerOf(o)
	if controller == nil || controller.Kind != "DaemonSet" || !mountsHost(&o.Spec, "/cni/bin", "/cni/net.d") {
		return "", false
	}
	return controller.Name, true
}

// wire counts the pods of a node that a network plugin connected.
func (p *Part) wire(on *host, pods int) {
	if on.wired += pods; on.wired > 0 {
		p.doc.Child("wired")[on.name] = on.wired
		return
	}
	p.doc.Prune("wired", on.name)
}
