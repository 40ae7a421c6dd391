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

// This file finds pods whose node lacks a DRA driver that must release their devices: without the driver's
// plugin a kubelet does not finish terminating the pod (pkg/kubelet/cm/dra/manager.go, unprepareResources:
// "DRA driver … is not registered").

// devices is the state kept for DRA.
type devices struct {
	claims map[types.NamespacedName]claim
	slices map[string]slice // by name
	// local counts the slices by driver and node: a kubelet deletes them half a minute after the plugin is
	// gone (pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, wipeResourceSlices).
	local map[string]map[string]int
	users map[types.NamespacedName]map[types.NamespacedName]bool // pods, by claim
}

// claim is a ResourceClaim that is allocated on one node.
type claim struct {
	node    string
	drivers []string
	shared  bool // several pods use it: only the last one releases the devices
}

type slice struct{ driver, node string }

func newDevices() devices {
	return devices{
		claims: map[types.NamespacedName]claim{}, slices: map[string]slice{},
		local: map[string]map[string]int{}, users: map[types.NamespacedName]map[types.NamespacedName]bool{},
	}
}

// KeepClaim records a ResourceClaim whose devices belong to one node. The plugin on a node does not publish
// devices that any node may use, so nothing shows whether it runs.
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
	if _, ok := p.devices.claims[key]; ok {
		delete(p.devices.claims, key)
		p.reprepare(key)
	}
}

// nodeOf returns the node to which an allocation is tied by name, as it is for devices that the driver
// publishes for that node; "" if there is none.
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

// KeepSlice records that a driver has devices on a node.
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
	last, ok := p.devices.slices[key.Name]
	if !ok {
		return
	}
	delete(p.devices.slices, key.Name)
	on := p.devices.local[last.driver]
	if on[last.node]--; on[last.node] > 0 {
		return
	}
	if delete(on, last.node); len(on) == 0 {
		delete(p.devices.local, last.driver)
	}
	p.remountNode(last.node)
}

// claimsOf returns the names of the pod's ResourceClaims, in its namespace.
func claimsOf(o *corev1.Pod) []string {
	names := map[string]bool{}
	for _, c := range o.Spec.ResourceClaims {
		names[facts.Or(c.ResourceClaimName, "")] = true
	}
	for _, c := range o.Status.ResourceClaimStatuses {
		names[facts.Or(c.ResourceClaimName, "")] = true
	}
	if extended := o.Status.ExtendedResourceClaimStatus; extended != nil {
		names[extended.ResourceClaimName] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// listUndriven lists a pod whose node has no devices of a driver that one of its claims needs.
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

// reprepare relists the pods of a claim.
func (p *Part) reprepare(claim types.NamespacedName) {
	for key := range p.devices.users[claim] {
		o := p.pod(key)
		p.relist(key, o)
	}
}

// pluginDir ends the path of the directory for kubelet plugins, whatever the kubelet's root directory is.
const pluginDir = "/plugins_registry"

// registersPlugin reports whether a pod can register a plugin with its node's kubelet and is not failing.
func registersPlugin(o *corev1.Pod) bool {
	return !facts.Finished(o) && o.DeletionTimestamp == nil && facts.Failing(o) == "" && mountsHost(&o.Spec, pluginDir)
}

// mountsHost reports whether a spec mounts a host path with one of these ends.
func mountsHost(spec *corev1.PodSpec, ends ...string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && slices.ContainsFunc(ends, func(end string) bool {
			return strings.HasSuffix(strings.TrimSuffix(v.HostPath.Path, "/"), end)
		})
	})
}
