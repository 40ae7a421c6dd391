// Package nodes finds what keeps pods from terminating on their nodes.
package nodes

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
)

// Options of a Part. All are required.
type Options struct {
	// Manifests means that the objects are manifests: anything else is unknown.
	Manifests bool
	MaxNames  int
	// Dropped is called for each event that is dropped to make room.
	Dropped func(event types.NamespacedName)
	// Dependents receives the pods that block their owner.
	Dependents *dependents.Part
}

// Part is the facts about nodes. Only NeedsKubelet is safe for concurrent use.
type Part struct {
	options Options
	doc     facts.Document
	groups  facts.Groups

	alike         facts.Shared[alike]
	spaces        map[string]*space
	hosts         map[string]*host // nodes that pods name
	nodes         map[types.NamespacedName]node
	kubeletEvents map[types.NamespacedName]kubeletEvent
	storage       storage
	devices       devices
	servers       servers

	stops        []Stop
	took         map[string]map[string]learned.Durations // stops, by namespace and workload
	leaving      facts.Sets[leavingGroup, *leaving]
	leavingDirty map[leavingGroup]bool // since the last Settle
	goneDirty    bool                  // nodes were added, removed, or are newly waited for since the last Settle
}

func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{
		"nodes", "notReady", "daemonsets", "csidrivers", "storage",
		"leaving", "kubeletEvents", "hazards", "csinodes", "driverless", "served", "servedByPods", "unserved", "buggy", "registrars", "gone", "stops",
		"attachments", "attachmentsOf", "undriven", "plugins", "networks", "networkAccounts", "wired",
		"probes", "nodeProblems",
	} {
		doc[section] = map[string]any{}
	}
	p := &Part{
		options: options, doc: doc, groups: facts.NewGroups(doc, options.MaxNames),
		alike: facts.NewShared[alike](), spaces: map[string]*space{}, hosts: map[string]*host{},
		nodes: map[types.NamespacedName]node{}, kubeletEvents: map[types.NamespacedName]kubeletEvent{}, storage: newStorage(), devices: newDevices(), servers: newServers(),
		leaving: facts.Sets[leavingGroup, *leaving]{}, leavingDirty: map[leavingGroup]bool{},
	}
	p.sections()
	return p
}

func (p *Part) Keepers() []facts.Keeper {
	return []facts.Keeper{
		facts.Rows("nodes", p.nodes, readinessOf, p.nodeChanged),
		facts.Keep("pods", p.KeepPod, p.ForgetPod),
		facts.Rows("pods", p.servers.pods, podAddressesOf, p.addressesChanged(servingPod)),
		facts.Keep("events", p.KeepEvent, p.ForgetEvent),
		facts.Rows("services", p.servers.services, addressesOf, p.addressesChanged(service)),
		facts.Keep("daemonsets.apps", p.keepDaemonSet, p.forgetDaemonSet),
		facts.Keep("csidrivers.storage.k8s.io", p.keepCSIDriver, p.forgetCSIDriver),
		facts.Rows("endpointslices.discovery.k8s.io", p.servers.slices, endpointsOf, p.endpointsChanged),
		facts.Rows("persistentvolumes", p.storage.volumes, volumeOf, p.volumeChanged),
		facts.Rows("csinodes.storage.k8s.io", p.storage.nodes, driversOf, p.driversChanged),
		facts.Rows("volumeattachments.storage.k8s.io", p.storage.attachments, attachmentOf, p.listAttachment),
		facts.Rows("resourceclaims.resource.k8s.io", p.devices.claims, claimOf, p.claimChanged),
		facts.Rows("resourceslices.resource.k8s.io", p.devices.slices, sliceOf, p.sliceChanged),
	}
}

func named(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// Settle updates facts that change with many pods. It calls yield between steps, when the facts may change.
func (p *Part) Settle(yield func()) {
	p.settleLeaving(yield)
	p.settleGone()
}

func (p *Part) NeedsKubelet(namespace string) bool {
	in := p.spaces[namespace]
	return in != nil && in.waits > 0
}
