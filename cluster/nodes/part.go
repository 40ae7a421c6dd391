// Package nodes tells what the nodes of a cluster keep pods from going with: nodes
// that do not answer or do not exist, drivers that are not registered, known bugs,
// full disks, and what pods leave on them. Who removes a finalizer and what
// refuses a request, other parts tell.
package nodes

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
)

// Options of a Part. All are needed.
type Options struct {
	// Manifests says that the objects are manifests: what they do not hold is unknown.
	Manifests bool
	// MaxNames bounds the names that the facts hold of a group of objects.
	MaxNames int
	// Dropped is told of events that are kept no longer, for want of space.
	Dropped func(event types.NamespacedName)
	// Dependents are told of pods that hold up their owner.
	Dependents *dependents.Part
}

// Part is the part of the facts that tells it. Whoever calls its methods makes
// sure that nobody else does; those that say so only read.
type Part struct {
	options Options
	doc     facts.Document
	groups  facts.Groups
	strings facts.Strings

	alike         facts.Shared[alike]
	spaces        map[string]*space // namespaces with pods
	hosts         map[string]*host  // nodes that pods name
	nodes         map[string]bool   // that exist, and whether they are ready
	stranded      map[*pod]bool     // pods under their owners, because their node is not ready
	kubeletEvents kubeletEvents
	storage       storage
	devices       devices
	servers       servers

	stops        []Stop // pods that are gone
	leaving      map[leavingGroup]map[types.NamespacedName]leaving
	leavingDirty map[leavingGroup]bool // since the last Settle
	waitingDirty map[string]bool       // nodes that came, went, or are waited for by others, since the last Settle
	nodesSeen    bool                  // at the last Settle
}

// New returns a Part that has seen nothing and writes into doc.
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

// Settle brings what changes with many pods at once up to date. It calls yield
// between two pieces of work: others may change the facts in it.
func (p *Part) Settle(yield func()) {
	p.settleLeaving(yield)
	p.settleGone()
}

// NeedsKubelet tells whether pods in a namespace wait for their kubelet when they
// are deleted. It only reads.
func (p *Part) NeedsKubelet(namespace string) bool {
	in := p.spaces[namespace]
	return in != nil && in.waits > 0
}
