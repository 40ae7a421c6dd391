// Package nodes finds what keeps pods from terminating on their nodes: nodes that do not respond or do not
// exist, missing drivers, known bugs, full disks, and effects of the pods themselves. Other parts find the
// owners of finalizers and the refusals of requests.
package nodes

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
)

// Options of a Part. All are required.
type Options struct {
	// Manifests means that the objects are manifests: anything not among them is unknown.
	Manifests bool
	// MaxNames bounds the names listed per group of objects.
	MaxNames int
	// Dropped is called for each event that is dropped to make room.
	Dropped func(event types.NamespacedName)
	// Dependents receives the pods that block their owner.
	Dependents *dependents.Part
}

// Part is the part of the facts about nodes. It is not safe for concurrent use, except for methods that only
// read.
type Part struct {
	options Options
	doc     facts.Document
	groups  facts.Groups
	strings facts.Strings

	alike         facts.Shared[alike]
	spaces        map[string]*space // namespaces with pods
	hosts         map[string]*host  // nodes that pods name
	nodes         map[string]bool   // existing nodes, and whether they are ready
	stranded      map[*pod]bool     // pods listed under their owners because their node is not ready
	kubeletEvents kubeletEvents
	storage       storage
	devices       devices
	servers       servers

	stops        []Stop // of pods that are gone
	leaving      map[leavingGroup]map[types.NamespacedName]leaving
	leavingDirty map[leavingGroup]bool // since the last Settle
	waitingDirty map[string]bool       // nodes added, removed, or newly waited for since the last Settle
	nodesSeen    bool                  // at the last Settle
}

// New returns an empty Part that writes into doc.
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
		options: options, doc: doc, groups: facts.NewGroups(doc, options.MaxNames), strings: facts.Strings{},
		alike: facts.NewShared[alike](), spaces: map[string]*space{}, hosts: map[string]*host{},
		nodes: map[string]bool{}, stranded: map[*pod]bool{}, kubeletEvents: newKubeletEvents(), storage: newStorage(), devices: newDevices(), servers: newServers(),
		leaving: map[leavingGroup]map[types.NamespacedName]leaving{}, leavingDirty: map[leavingGroup]bool{}, waitingDirty: map[string]bool{},
	}
	p.sections()
	return p
}

// Settle updates facts that change with many pods at once. It calls yield between steps, during which others
// may change the facts.
func (p *Part) Settle(yield func()) {
	p.settleLeaving(yield)
	p.settleGone()
}

// NeedsKubelet reports whether deleted pods in a namespace wait for their kubelet. It only reads.
func (p *Part) NeedsKubelet(namespace string) bool {
	in := p.spaces[namespace]
	return in != nil && in.waits > 0
}
