package nodes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// network returns the DaemonSet of a pod that installs a network plugin: it mounts the node's directory of
// plugins or of their configuration (usually /opt/cni/bin and /etc/cni/net.d).
func network(o *corev1.Pod) (daemonSet string, installs bool) {
	controller := metav1.GetControllerOf(o)
	if controller == nil || controller.Kind != "DaemonSet" || !mountsHost(&o.Spec, "/cni/bin", "/cni/net.d") {
		return "", false
	}
	return controller.Name, true
}
