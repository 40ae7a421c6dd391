package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Each CSI driver brings its own sidecars (csi-provisioner, csi-attacher), and
// those of one driver do nothing for the volumes of another. Which driver a
// sidecar serves it asks a socket; here it shows where its pod names the driver.

// driverOf is the CSI driver that an object belongs to, "" if to none.
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
		}
	}
	return ""
}

// sidecar is a pod with containers of CSI sidecars.
type sidecar struct {
	images []string
	// says is all that may name its driver: arguments, environment, paths.
	says    string
	account string
}

// isSidecar tells whether an image is that of a CSI sidecar.
func isSidecar(image string) bool { return strings.HasPrefix(image, "csi-") }

// keepSidecar records a pod that is ready and has CSI sidecars.
func (w *World) keepSidecar(key types.NamespacedName, pod *corev1.Pod, p runningPod) {
	if !p.ready || p.goes || !slices.ContainsFunc(p.images, isSidecar) {
		return
	}
	said := []string{pod.Name}
	for _, c := range pod.Spec.Containers {
		said = append(said, c.Name, c.Image)
		said = append(said, c.Command...)
		said = append(said, c.Args...)
		for _, e := range c.Env {
			said = append(said, e.Value)
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.HostPath != nil {
			said = append(said, v.HostPath.Path)
		}
	}
	w.storage.sidecars[key] = sidecar{images: p.images, says: strings.Join(said, "\n"), account: p.account}
}

// judgeSidecar judges whether a sidecar of an image serves a driver; decided is
// false where the rest of the evidence has to tell.
func (w *World) judgeSidecar(j judgement, image, driver string) (_ judgement, decided bool) {
	installed := w.installedDrivers()
	var silent []types.NamespacedName // sidecars that name no driver
	unnamed := maps.Clone(installed)  // drivers that no sidecar names
	for _, key := range slices.SortedFunc(maps.Keys(w.storage.sidecars), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		s := w.storage.sidecars[key]
		if !slices.Contains(s.images, image) {
			continue
		}
		if s.names(driver) {
			j.workloads = w.workloadsUnder(s.account)
			return j.is(Alive, true, "pod %s with a ready %s names driver %s", key, image, driver), true
		}
		named := false
		for other := range installed {
			if s.names(other) {
				named = true
				delete(unnamed, other)
			}
		}
		if !named {
			silent = append(silent, key)
		}
	}
	accounts := map[string]bool{}
	for _, key := range silent {
		accounts[w.storage.sidecars[key].account] = true
	}
	switch {
	case installed[driver] && len(accounts) >= len(unnamed) && len(silent) > 0:
		j.workloads = w.workloadsUnder(w.storage.sidecars[silent[0]].account)
		return j.is(Alive, true, "driver %s is installed, and pod %s has a ready %s", driver, silent[0], image), true
	case installed[driver] && len(silent) > 0:
		return j.is(Unknown, false, "%d drivers are installed, and %d %s that name none: whether one serves %s, the cluster does not tell",
			len(unnamed), len(accounts), image, driver), true
	case installed[driver]:
		return j, false // its sidecars may run outside the cluster
	}
	for _, input := range []string{"pods", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io"} {
		if u, hidden := w.unseen[input]; hidden {
			return j.is(Unknown, false, "%s (%s) cannot be seen", input, u.reason), true
		}
	}
	j.owner = fmt.Sprintf("%s of CSI driver %s", image, driver)
	return j.is(Absent, true, "CSI driver %s is not installed: no CSIDriver, no node where it is registered, and no ready %s that names it", driver, image), true
}

// names tells whether a pod says the name of a driver, or the same with dashes
// for dots, as leases and paths have it.
func (s sidecar) names(driver string) bool {
	return strings.Contains(s.says, driver) || strings.Contains(s.says, strings.ReplaceAll(driver, ".", "-"))
}

// installedDrivers are those that have a CSIDriver or are registered on a node.
func (w *World) installedDrivers() map[string]bool {
	installed := map[string]bool{}
	for name := range child(w.doc, "csidrivers") {
		installed[name] = true
	}
	for _, drivers := range w.storage.nodes {
		for _, name := range drivers {
			installed[name] = true
		}
	}
	return installed
}
