package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file keeps which CSI drivers the volumes of a pod need, and which are
// registered on its node: without its driver a kubelet unmounts nothing
// (pkg/volume/csi/csi_client.go, "not found in the list of registered CSI
// drivers").

// storage is what is kept to tell that.
type storage struct {
	volumes map[string]volume          // bound PersistentVolumes of CSI drivers, by name
	claims  map[string]map[string]bool // names of PersistentVolumes, by "namespace/claim"
	nodes   map[string][]string        // drivers registered on a node; nil entry: no CSINode seen
	uses    map[types.NamespacedName]use
	// sidecars are the ready pods that may serve a driver's volumes.
	sidecars map[types.NamespacedName]sidecar
}

type volume struct {
	driver string
	claim  string // "namespace/name"
}

// use is what a pod that runs has mounted.
type use struct {
	node    string
	claims  []string // names in the pod's namespace
	drivers []string // of its inline volumes
}

func newStorage() storage {
	return storage{
		volumes: map[string]volume{}, claims: map[string]map[string]bool{},
		nodes: map[string][]string{}, uses: map[types.NamespacedName]use{},
		sidecars: map[types.NamespacedName]sidecar{},
	}
}

// keepVolume records which driver serves a PersistentVolume, and for which claim.
func (w *World) keepVolume(pv *corev1.PersistentVolume) {
	w.forgetVolume(pv.Name)
	if pv.Spec.CSI == nil || pv.Spec.ClaimRef == nil || pv.Status.Phase != corev1.VolumeBound {
		return // a released volume still names a claim, which may be another by now
	}
	v := volume{driver: pv.Spec.CSI.Driver, claim: pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name}
	w.storage.volumes[pv.Name] = v
	if w.storage.claims[v.claim] == nil {
		w.storage.claims[v.claim] = map[string]bool{}
	}
	w.storage.claims[v.claim][pv.Name] = true
	w.remount(v.claim)
}

func (w *World) forgetVolume(name string) {
	v, known := w.storage.volumes[name]
	if !known {
		return
	}
	delete(w.storage.volumes, name)
	if delete(w.storage.claims[v.claim], name); len(w.storage.claims[v.claim]) == 0 {
		delete(w.storage.claims, v.claim)
	}
	w.remount(v.claim)
}

// keepCSINode records the drivers that are registered on a node.
func (w *World) keepCSINode(n *storagev1.CSINode) {
	drivers := []string{}
	for _, d := range n.Spec.Drivers {
		drivers = append(drivers, d.Name)
	}
	slices.Sort(drivers)
	before, known := w.storage.nodes[n.Name]
	w.storage.nodes[n.Name] = drivers
	child(w.doc, "csinodes")[n.Name] = map[string]any{"drivers": anys(drivers)}
	if !known || !slices.Equal(before, drivers) {
		w.remountNode(n.Name)
		w.ownersDirty = true
	}
}

func (w *World) forgetCSINode(name string) {
	delete(w.storage.nodes, name)
	prune(w.doc, "csinodes", name)
	w.remountNode(name)
	w.ownersDirty = true
}

// mount records what a pod that runs has mounted. One that has not started has
// mounted nothing that its kubelet could not forget, and one that has finished
// the API server removes at once.
func (w *World) mount(key types.NamespacedName, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || isMirror(pod) || pod.Status.Phase != corev1.PodRunning && !cleaningUp(pod) {
		return
	}
	u := use{node: pod.Spec.NodeName}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.CSI != nil:
			u.drivers = append(u.drivers, v.CSI.Driver)
		case v.PersistentVolumeClaim != nil:
			u.claims = append(u.claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			u.claims = append(u.claims, pod.Name+"-"+v.Name)
		}
	}
	if len(u.claims)+len(u.drivers) > 0 {
		w.storage.uses[key] = u
		w.miss(key)
	}
}

// cleaningUp tells whether a pod ran, has ended since it was deleted, and waits for
// its node to unmount its volumes.
func cleaningUp(pod *corev1.Pod) bool {
	_, leaves := leavingOf(pod)
	return leaves && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && !c.State.Terminated.StartedAt.IsZero()
	})
}

func (w *World) unmount(key types.NamespacedName) { delete(w.storage.uses, key) }

// miss puts a pod among those whose driver is not registered on their node.
func (w *World) miss(key types.NamespacedName) {
	u, mounts := w.storage.uses[key]
	if !mounts {
		return
	}
	registered, seen := w.storage.nodes[u.node]
	if !seen {
		return // no CSINode: nothing is known of the node's drivers
	}
	needed := map[string]bool{}
	for _, driver := range u.drivers {
		needed[driver] = true
	}
	for _, claim := range u.claims {
		for name := range w.storage.claims[key.Namespace+"/"+claim] {
			needed[w.storage.volumes[name].driver] = true
		}
	}
	var missing []string
	for _, driver := range slices.Sorted(maps.Keys(needed)) {
		if slices.Contains(registered, driver) {
			continue
		}
		missing = append(missing, driver)
		path := []string{"driverless", key.Namespace, u.node, driver}
		w.index(key.Name, path...)
		w.podPaths[key] = append(w.podPaths[key], path)
	}
	if facts, ok := lookup(w.doc, "pods", key.Namespace, key.Name).(map[string]any); ok && len(missing) > 0 {
		facts["missingDrivers"] = anys(missing)
	}
}

// unmiss undoes miss.
func (w *World) unmiss(key types.NamespacedName) {
	w.podPaths[key] = slices.DeleteFunc(w.podPaths[key], func(path []string) bool {
		if path[0] != "driverless" {
			return false
		}
		w.unindex(key.Name, path...)
		return true
	})
	if facts, ok := lookup(w.doc, "pods", key.Namespace, key.Name).(map[string]any); ok {
		delete(facts, "missingDrivers")
	}
}

// remount looks anew at the pods that use a claim.
func (w *World) remount(claim string) {
	namespace, name, _ := strings.Cut(claim, "/")
	users := w.group("storage", "claims", namespace, name)
	if users == nil {
		return
	}
	for pod := range users.members {
		key := types.NamespacedName{Namespace: namespace, Name: pod}
		w.unmiss(key)
		w.miss(key)
	}
}

// remountNode looks anew at the pods of a node.
func (w *World) remountNode(node string) {
	for key, u := range w.storage.uses {
		if u.node == node {
			w.unmiss(key)
			w.miss(key)
		}
	}
}
