package nodes

import (
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// This file finds pods whose node lacks a CSI driver that their volumes need: without it a kubelet cannot
// unmount (pkg/volume/csi/csi_client.go, "not found in the list of registered CSI drivers").

// storage is the state kept for volumes.
type storage struct {
	volumes map[string]volume                        // bound PersistentVolumes with CSI or NFS, by name
	claims  map[string]map[string]bool               // names of PersistentVolumes, by "namespace/claim"
	nodes   map[string][]string                      // registered drivers by node; no entry if it has no CSINode
	users   map[string]map[types.NamespacedName]*pod // pods with mounted volumes or devices, by node

	attachments map[string]*attachment     // by name
	attached    map[string]map[string]bool // names of attachments, by node
}

type volume struct {
	driver string // "" for NFS
	server string // the server's address, "" for none
	claim  string // "namespace/name"
}

// use is the volumes and devices of a running pod.
type use struct {
	claims  []string   // names in the pod's namespace
	drivers []string   // of its inline volumes
	servers []string   // server addresses in its inline volumes
	devices []string   // names of ResourceClaims in the pod's namespace
	in      [][]string // groups in the facts that list it
	// addresses are the servers of all its volumes.
	addresses []string
	// missing are the CSI drivers, and undriven the DRA drivers, that its node lacks; unserved are the
	// Services of its volumes without ready endpoints.
	missing  []string
	undriven []any
	unserved []string
}

func newStorage() storage {
	return storage{volumes: map[string]volume{}, claims: map[string]map[string]bool{}, nodes: map[string][]string{}, users: map[string]map[types.NamespacedName]*pod{},
		attachments: map[string]*attachment{}, attached: map[string]map[string]bool{}}
}

// KeepCSIDriver records a CSIDriver.
func (p *Part) KeepCSIDriver(o *storagev1.CSIDriver) bool {
	p.doc.Child("csidrivers")[o.Name] = map[string]any{"attachRequired": facts.Or(o.Spec.AttachRequired, true)}
	return true
}

// ForgetCSIDriver undoes KeepCSIDriver.
func (p *Part) ForgetCSIDriver(key types.NamespacedName) { p.doc.Prune("csidrivers", key.Name) }

// KeepVolume records the driver, the server and the claim of a PersistentVolume.
func (p *Part) KeepVolume(pv *corev1.PersistentVolume) bool {
	p.ForgetVolume(types.NamespacedName{Name: pv.Name})
	if pv.Spec.CSI == nil && pv.Spec.NFS == nil || pv.Spec.ClaimRef == nil || pv.Status.Phase != corev1.VolumeBound {
		return true // a released volume still names its claim, which may be a new object by now
	}
	v := volume{server: serverOf(pv), claim: pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name}
	if pv.Spec.CSI != nil {
		v.driver = pv.Spec.CSI.Driver
	}
	p.storage.volumes[pv.Name] = v
	if p.storage.claims[v.claim] == nil {
		p.storage.claims[v.claim] = map[string]bool{}
	}
	p.storage.claims[v.claim][pv.Name] = true
	p.remount(v.claim)
	return true
}

// ForgetVolume undoes KeepVolume.
func (p *Part) ForgetVolume(key types.NamespacedName) {
	name := key.Name
	v, ok := p.storage.volumes[name]
	if !ok {
		return
	}
	delete(p.storage.volumes, name)
	if delete(p.storage.claims[v.claim], name); len(p.storage.claims[v.claim]) == 0 {
		delete(p.storage.claims, v.claim)
	}
	p.remount(v.claim)
}

// KeepCSINode records the drivers that are registered on a node.
func (p *Part) KeepCSINode(n *storagev1.CSINode) bool {
	drivers := []string{}
	for _, d := range n.Spec.Drivers {
		drivers = append(drivers, d.Name)
	}
	slices.Sort(drivers)
	before, ok := p.storage.nodes[n.Name]
	p.storage.nodes[n.Name] = drivers
	p.doc.Child("csinodes")[n.Name] = map[string]any{"drivers": facts.List(drivers)}
	if !ok || !slices.Equal(before, drivers) {
		p.remountNode(n.Name)
	}
	return true
}

// ForgetCSINode undoes KeepCSINode.
func (p *Part) ForgetCSINode(key types.NamespacedName) {
	delete(p.storage.nodes, key.Name)
	p.doc.Prune("csinodes", key.Name)
	p.remountNode(key.Name)
}

// usesOf returns the volumes and devices of a running pod, nil if it has none. A pod that has not started
// leaves nothing for its kubelet to clean up, and the API server removes a finished pod at once.
func usesOf(o *corev1.Pod) *use {
	if o.Spec.NodeName == "" || isMirror(o) || o.Status.Phase != corev1.PodRunning && !cleaningUp(o) {
		return nil
	}
	u := use{devices: claimsOf(o)}
	for _, v := range o.Spec.Volumes {
		switch {
		case v.CSI != nil:
			u.drivers = append(u.drivers, v.CSI.Driver)
			u.servers = append(u.servers, v.CSI.VolumeAttributes[serverAttribute])
		case v.NFS != nil:
			u.servers = append(u.servers, v.NFS.Server)
		case v.PersistentVolumeClaim != nil:
			u.claims = append(u.claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			u.claims = append(u.claims, o.Name+"-"+v.Name)
		}
	}
	if len(u.claims)+len(u.drivers)+len(u.servers)+len(u.devices) == 0 {
		return nil
	}
	return &u
}

func (p *Part) mount(key types.NamespacedName, o *pod) {
	u := o.uses()
	if u == nil {
		return
	}
	if p.storage.users[o.on.name] == nil {
		p.storage.users[o.on.name] = map[types.NamespacedName]*pod{}
	}
	p.storage.users[o.on.name][key] = o
	for _, name := range u.devices {
		claim := types.NamespacedName{Namespace: key.Namespace, Name: name}
		if p.devices.users[claim] == nil {
			p.devices.users[claim] = map[types.NamespacedName]bool{}
		}
		p.devices.users[claim][key] = true
	}
	p.list(key, o)
}

// cleaningUp reports whether a deleted pod ran, has ended, and waits for its node to unmount its volumes.
func cleaningUp(pod *corev1.Pod) bool {
	_, leaves := leavingOf(pod)
	return leaves && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && !c.State.Terminated.StartedAt.IsZero()
	})
}

func (p *Part) unmount(key types.NamespacedName, o *pod) {
	u := o.uses()
	if u == nil {
		return
	}
	p.unlist(key, o)
	for _, name := range u.devices {
		claim := types.NamespacedName{Namespace: key.Namespace, Name: name}
		if delete(p.devices.users[claim], key); len(p.devices.users[claim]) == 0 {
			delete(p.devices.users, claim)
		}
	}
	node := o.on.name
	if delete(p.storage.users[node], key); len(p.storage.users[node]) == 0 {
		delete(p.storage.users, node)
	}
}

// list lists a pod in the groups for missing drivers and servers.
func (p *Part) list(key types.NamespacedName, o *pod) {
	if o.uses() == nil {
		return
	}
	p.listDriverless(key, o)
	p.listUndriven(key, o)
	p.listServed(key, o)
}

// listDriverless lists a pod whose node lacks a CSI driver of its volumes.
func (p *Part) listDriverless(key types.NamespacedName, o *pod) {
	u := o.uses()
	registered, seen := p.storage.nodes[o.on.name]
	if !seen {
		return // no CSINode: the node's drivers are unknown
	}
	needed := map[string]bool{}
	for _, driver := range u.drivers {
		needed[driver] = true
	}
	for v := range p.volumesOf(key, u) {
		needed[v.driver] = true
	}
	delete(needed, "") // NFS, which the kubelet unmounts itself
	for _, driver := range slices.Sorted(maps.Keys(needed)) {
		if slices.Contains(registered, driver) {
			continue
		}
		u.missing = append(u.missing, driver)
		path := []string{"driverless", key.Namespace, o.on.name, driver}
		p.groups.Add(key.Name, path...)
		u.in = append(u.in, path)
	}
}

// unlist undoes list.
func (p *Part) unlist(key types.NamespacedName, o *pod) {
	u := o.uses()
	if u == nil {
		return
	}
	for _, path := range u.in {
		p.groups.Remove(key.Name, path...)
	}
	p.unlistServed(key, u)
	u.in, u.missing, u.undriven = nil, nil, nil
}

// relist updates the groups of a pod.
func (p *Part) relist(key types.NamespacedName, o *pod) {
	p.unlist(key, o)
	p.list(key, o)
}

func (p *Part) volumesOf(key types.NamespacedName, u *use) iter.Seq[volume] {
	return func(yield func(volume) bool) {
		for _, claim := range u.claims {
			for name := range p.storage.claims[key.Namespace+"/"+claim] {
				if !yield(p.storage.volumes[name]) {
					return
				}
			}
		}
	}
}

// remount relists the pods that use a claim.
func (p *Part) remount(claim string) {
	namespace, name, _ := strings.Cut(claim, "/")
	users := p.groups.At("storage", "claims", namespace, name)
	if users == nil {
		return
	}
	for _, user := range users.Members() {
		key := types.NamespacedName{Namespace: namespace, Name: user}
		o := p.pod(key)
		p.relist(key, o)
	}
}

// remountNode relists the pods and the attachments of a node.
func (p *Part) remountNode(node string) {
	for key, o := range p.storage.users[node] {
		p.relist(key, o)
	}
	for name := range p.storage.attached[node] {
		p.judgeAttachment(name)
	}
}
