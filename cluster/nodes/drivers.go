package nodes

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Pods whose node lacks a CSI driver of their volumes: without it a kubelet cannot unmount
// (pkg/volume/csi/csi_client.go, "not found in the list of registered CSI drivers").

type storage struct {
	volumes     map[types.NamespacedName]volume          // bound PersistentVolumes with CSI or NFS
	claims      facts.Sets[types.NamespacedName, string] // names of volumes
	nodes       map[types.NamespacedName][]string        // registered drivers by node; no entry without a CSINode
	attachments map[types.NamespacedName]attachment
}

type volume struct {
	driver string // "" for NFS
	server string
	claim  types.NamespacedName
}

// use is the volumes and devices of a running pod.
type use struct {
	claims  []string   // in the pod's namespace
	drivers []string   // of its inline volumes
	servers []string   // addresses in its inline volumes
	devices []string   // ResourceClaims
	in      [][]string // groups in the facts that list it
	// addresses are the servers of all its volumes.
	addresses []string
	// missing are the CSI drivers, and undriven the DRA drivers, that its node lacks; unserved are the
	// Services of its volumes without ready endpoints.
	missing  []string
	undriven []undriven
	unserved []string
}

func newStorage() storage {
	return storage{
		volumes: map[types.NamespacedName]volume{}, claims: facts.Sets[types.NamespacedName, string]{},
		nodes: map[types.NamespacedName][]string{}, attachments: map[types.NamespacedName]attachment{},
	}
}

func (p *Part) keepCSIDriver(o *storagev1.CSIDriver) bool {
	p.doc.Put(map[string]any{"attachRequired": facts.Or(o.Spec.AttachRequired, true)}, "csidrivers", o.Name)
	return true
}

func (p *Part) forgetCSIDriver(key types.NamespacedName) { p.doc.Prune("csidrivers", key.Name) }

// volumeOf omits released volumes: they still name their claim, which may be a new object by now.
func volumeOf(pv *corev1.PersistentVolume) (v volume, kept bool) {
	if pv.Spec.CSI == nil && pv.Spec.NFS == nil || pv.Spec.ClaimRef == nil || pv.Status.Phase != corev1.VolumeBound {
		return v, false
	}
	v = volume{server: serverOf(pv), claim: types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}}
	if pv.Spec.CSI != nil {
		v.driver = pv.Spec.CSI.Driver
	}
	return v, true
}

func (p *Part) volumeChanged(key types.NamespacedName, before, now volume) {
	p.storage.claims.Remove(before.claim, key.Name)
	p.storage.claims.Set(now.claim, key.Name, now != volume{})
	p.relistUsers(before.claim)
	p.relistUsers(now.claim)
}

func driversOf(n *storagev1.CSINode) (drivers []string, kept bool) {
	drivers = []string{}
	for _, d := range n.Spec.Drivers {
		drivers = append(drivers, d.Name)
	}
	slices.Sort(drivers)
	return drivers, true
}

func (p *Part) driversChanged(key types.NamespacedName, _, now []string) {
	p.set(now != nil, map[string]any{"drivers": facts.List(now)}, "csinodes", key.Name)
	p.relistNode(key.Name)
}

// usesOf returns nil for a pod without volumes and devices, and for one that has not started, which leaves
// nothing to clean up, or has finished: the API server removes it at once.
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

// cleaningUp reports whether a deleted pod ran, has ended, and waits for its node to unmount its volumes.
func cleaningUp(pod *corev1.Pod) bool {
	_, leaves := leavingOf(pod)
	return leaves && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && !c.State.Terminated.StartedAt.IsZero()
	})
}

// list lists a pod in the groups that depend on other objects; unlist undoes it.
func (p *Part) list(o *pod) {
	if u := o.uses(); u != nil {
		p.listDriverless(o, u)
		p.listUndriven(o, u)
		p.listServed(o, u)
	}
}

func (p *Part) unlist(o *pod) {
	u := o.uses()
	if u == nil {
		return
	}
	for _, path := range u.in {
		p.groups.Remove(o.name, path...)
	}
	for _, address := range u.addresses {
		p.servers.users.Remove(address, o)
	}
	u.in, u.addresses, u.missing, u.undriven, u.unserved = nil, nil, nil, nil, nil
}

func (p *Part) listIn(o *pod, u *use, path ...string) {
	p.groups.Add(o.name, path...)
	u.in = append(u.in, path)
}

func (p *Part) relist(o *pod) {
	p.unlist(o)
	p.list(o)
}

func (p *Part) relistUsers(claim types.NamespacedName) {
	if users := p.groups.At("storage", "claims", claim.Namespace, claim.Name); users != nil {
		for _, user := range users.Members() {
			p.relist(p.pod(types.NamespacedName{Namespace: claim.Namespace, Name: user}))
		}
	}
}

func (p *Part) relistOn(node string) {
	for o := range p.hosts[node].pods() {
		p.relist(o)
	}
}

func (p *Part) relistNode(node string) {
	p.relistOn(node)
	for key, a := range p.storage.attachments {
		if a.node == node {
			p.listAttachment(key, a, a)
		}
	}
}

func (p *Part) listDriverless(o *pod, u *use) {
	registered, seen := p.storage.nodes[named(o.on.name)]
	if !seen {
		return // the node's drivers are unknown
	}
	needed := map[string]bool{}
	for _, driver := range u.drivers {
		needed[driver] = true
	}
	for v := range p.volumesOf(o, u) {
		needed[v.driver] = true
	}
	delete(needed, "") // NFS, which the kubelet unmounts itself
	for _, driver := range slices.Sorted(maps.Keys(needed)) {
		if !slices.Contains(registered, driver) {
			u.missing = append(u.missing, driver)
			p.listIn(o, u, "driverless", o.in.name, o.on.name, driver)
		}
	}
}

func (p *Part) Lacks(node string) (csi, dra []string) {
	for o := range p.hosts[node].pods() {
		if u := o.uses(); u != nil {
			csi = append(csi, u.missing...)
			for _, plugin := range u.undriven {
				dra = append(dra, plugin.driver)
			}
		}
	}
	return csi, dra
}

func (p *Part) volumesOf(o *pod, u *use) iter.Seq[volume] {
	return func(yield func(volume) bool) {
		for _, claim := range u.claims {
			for name := range p.storage.claims[types.NamespacedName{Namespace: o.in.name, Name: claim}] {
				if !yield(p.storage.volumes[named(name)]) {
					return
				}
			}
		}
	}
}
