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

// Pods whose node lacks a DRA driver that must release their devices: without its plugin a kubelet does not
// finish terminating the pod (pkg/kubelet/cm/dra/manager.go, unprepareResources: "DRA driver … is not
// registered").

type devices struct {
	claims map[types.NamespacedName]claim
	slices map[types.NamespacedName]slice
	// local are the slices by driver and node: a kubelet deletes them half a minute after the plugin is gone
	// (pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, wipeResourceSlices).
	local facts.Sets[slice, string]
}

// claim is a ResourceClaim that is allocated on one node.
type claim struct {
	node    string
	drivers []string
	shared  bool // only the last of its pods releases the devices
}

type slice struct{ driver, node string }

// undriven is a missing DRA driver; how says whether the pod alone has its devices.
type undriven struct{ driver, how string }

func newDevices() devices {
	return devices{claims: map[types.NamespacedName]claim{}, slices: map[types.NamespacedName]slice{}, local: facts.Sets[slice, string]{}}
}

// claimOf keeps claims on the devices of one node: nothing shows whether a plugin runs for devices of any
// node.
func claimOf(o *resourcev1.ResourceClaim) (c claim, kept bool) {
	c = claim{node: nodeOf(o.Status.Allocation), shared: len(o.Status.ReservedFor) > 1}
	if c.node == "" {
		return c, false
	}
	for _, device := range o.Status.Allocation.Devices.Results {
		c.drivers = append(c.drivers, device.Driver)
	}
	slices.Sort(c.drivers)
	c.drivers = slices.Compact(c.drivers)
	return c, true
}

func (p *Part) claimChanged(_ types.NamespacedName, before, now claim) {
	p.relistOn(before.node)
	p.relistOn(now.node)
}

// nodeOf returns the only node that an allocation names, or "".
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

func sliceOf(o *resourcev1.ResourceSlice) (s slice, kept bool) {
	s = slice{driver: o.Spec.Driver, node: facts.Or(o.Spec.NodeName, "")}
	return s, s.node != ""
}

func (p *Part) sliceChanged(key types.NamespacedName, before, now slice) {
	p.devices.local.Remove(before, key.Name)
	p.devices.local.Set(now, key.Name, now != slice{})
	p.relistOn(before.node)
	p.relistOn(now.node)
}

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

func (p *Part) listUndriven(o *pod, u *use) {
	node := o.on.name
	missing := map[string]bool{}
	for _, name := range u.devices {
		c := p.devices.claims[types.NamespacedName{Namespace: o.in.name, Name: name}]
		for _, driver := range c.drivers {
			if c.node == node && len(p.devices.local[slice{driver, node}]) == 0 {
				missing[driver] = missing[driver] || !c.shared
			}
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(missing)) {
		how := "shared"
		if missing[driver] {
			how = "alone"
		}
		p.listIn(o, u, "undriven", o.in.name, node, driver, how)
		u.undriven = append(u.undriven, undriven{driver, how})
	}
}

// pluginDir ends the directory for kubelet plugins, below any root directory of the kubelet.
const pluginDir = "/plugins_registry"

func registersPlugin(o *corev1.Pod) bool {
	return !facts.Finished(o) && o.DeletionTimestamp == nil && facts.Failing(o) == "" && mountsHost(&o.Spec, pluginDir)
}

func mountsHost(spec *corev1.PodSpec, ends ...string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && slices.ContainsFunc(ends, func(end string) bool {
			return strings.HasSuffix(strings.TrimSuffix(v.HostPath.Path, "/"), end)
		})
	})
}
