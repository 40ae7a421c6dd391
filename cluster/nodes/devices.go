package nodes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// This file keeps which DRA drivers a pod's node needs to give its devices back, and
// which have devices on their nodes: without its driver's plugin a kubelet does not
// finish with the pod (pkg/kubelet/cm/dra/manager.go, unprepareResources: "DRA driver
// … is not registered").

// devices is what is kept to tell that.
type devices struct {
	claims map[types.NamespacedName]claim
	slices map[string]slice // by name
	// local are how many slices a driver has on a node, by driver and node: a kubelet
	// deletes them half a minute after the plugin has gone
	// (pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, wipeResourceSlices).
	local map[string]map[string]int
	users map[types.NamespacedName]map[types.NamespacedName]bool // pods, by claim
}

// claim is what is kept of a ResourceClaim that is allocated to a node.
type claim struct {
	node    string
	drivers []string
	shared  bool // by several pods: the last one gives the devices back
}

type slice struct{ driver, node string }

func newDevices() devices {
	return devices{
		claims: map[types.NamespacedName]claim{}, slices: map[string]slice{},
		local: map[string]map[string]int{}, users: map[types.NamespacedName]map[types.NamespacedName]bool{},
	}
}

// KeepClaim takes in a ResourceClaim whose devices are those of one node. Devices
// that any node may use are not published by the plugin on it, so that nothing tells
// whether it is there.
func (p *Part) KeepClaim(o *resourcev1.ResourceClaim) bool {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	now := claim{node: nodeOf(o.Status.Allocation), shared: len(o.Status.ReservedFor) > 1}
	if now.node == "" {
		p.ForgetClaim(key)
		return false
	}
	drivers := map[string]bool{}
	for _, device := range o.Status.Allocation.Devices.Results {
		drivers[device.Driver] = true
	}
	now.drivers = slices.Sorted(maps.Keys(drivers))
	p.devices.claims[key] = now
	p.reprepare(key)
	return true
}

// ForgetClaim undoes KeepClaim.
func (p *Part) ForgetClaim(key types.NamespacedName) {
	if _, known := p.devices.claims[key]; known {
		delete(p.devices.claims, key)
		p.reprepare(key)
	}
}

// nodeOf is the node that an allocation is tied to by its name, as it is where the
// driver publishes the devices for that node; "" if there is none.
func nodeOf(allocation *resourcev1.AllocationResult) string {
	if allocation == nil || allocation.NodeSelector == nil {
		return ""
	}
	for _, term := range allocation.NodeSelector.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == "metadata.name" && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// KeepSlice takes in that a driver has devices on a node.
func (p *Part) KeepSlice(o *resourcev1.ResourceSlice) bool {
	p.ForgetSlice(types.NamespacedName{Name: o.Name})
	now := slice{driver: o.Spec.Driver, node: facts.Or(o.Spec.NodeName, "")}
	if now.node == "" {
		return false
	}
	p.devices.slices[o.Name] = now
	if p.devices.local[now.driver] == nil {
		p.devices.local[now.driver] = map[string]int{}
	}
	if p.devices.local[now.driver][now.node]++; p.devices.local[now.driver][now.node] == 1 {
		p.remountNode(now.node)
	}
	return true
}

// ForgetSlice undoes KeepSlice.
func (p *Part) ForgetSlice(key types.NamespacedName) {
	gone, known := p.devices.slices[key.Name]
	if !known {
		return
	}
	delete(p.devices.slices, key.Name)
	on := p.devices.local[gone.driver]
	if on[gone.node]--; on[gone.node] > 0 {
		return
	}
	if delete(on, gone.node); len(on) == 0 {
		delete(p.devices.local, gone.driver)
	}
	p.remountNode(gone.node)
}

// claimsOf are the names of the ResourceClaims of a pod, in its namespace.
func claimsOf(o *corev1.Pod) []string {
	found := map[string]bool{}
	for _, c := range o.Spec.ResourceClaims {
		found[facts.Or(c.ResourceClaimName, "")] = true
	}
	for _, c := range o.Status.ResourceClaimStatuses {
		found[facts.Or(c.ResourceClaimName, "")] = true
	}
	if extended := o.Status.ExtendedResourceClaimStatus; extended != nil {
		found[extended.ResourceClaimName] = true
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

// listUndriven puts a pod among those whose node has no devices of a driver that
// they have a claim of.
func (p *Part) listUndriven(key types.NamespacedName, o *pod) {
	u, node := o.uses(), o.on.name
	missing := map[string]bool{}
	for _, name := range u.devices {
		c := p.devices.claims[types.NamespacedName{Namespace: key.Namespace, Name: name}]
		for _, driver := range c.drivers {
			if c.node == node && p.devices.local[driver][node] == 0 {
				missing[driver] = missing[driver] || !c.shared
			}
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(missing)) {
		how := "shared"
		if missing[driver] {
			how = "alone"
		}
		path := []string{"undriven", key.Namespace, node, driver, how}
		p.groups.Add(key.Name, path...)
		u.in = append(u.in, path)
		u.undriven = append(u.undriven, map[string]any{"driver": driver, "how": how})
	}
}

// reprepare looks anew at the pods of a claim.
func (p *Part) reprepare(claim types.NamespacedName) {
	for key := range p.devices.users[claim] {
		o := p.pod(key)
		p.relist(key, o)
	}
}

// pluginDir is the last part of the directory in which plugins of the kubelet
// register, wherever that of the kubelet is.
const pluginDir = "/plugins_registry"

// registersPlugin tells whether a pod may register a plugin with the kubelet of its
// node, and comes up by itself.
func registersPlugin(o *corev1.Pod) bool {
	return !facts.Finished(o) && o.DeletionTimestamp == nil && facts.Failing(o) == "" && mountsHost(&o.Spec, pluginDir)
}

// mountsHost tells whether pods of a spec see a directory of their node whose path
// has one of these ends.
func mountsHost(spec *corev1.PodSpec, ends ...string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && slices.ContainsFunc(ends, func(end string) bool {
			return strings.HasSuffix(strings.TrimSuffix(v.HostPath.Path, "/"), end)
		})
	})
}
