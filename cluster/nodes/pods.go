package nodes

import (
	"cmp"
	"iter"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// pod is kept small because there are many: pods of one workload share alike, and few need special.
type pod struct {
	name    string
	in      *space
	on      *host
	next    *pod
	before  *pod
	alike   *facts.One[alike]
	special *special // nil for most
}

func (o *pod) Named() string { return o.name }

type alike struct {
	phase       corev1.PodPhase
	kind, owner string // of its controller, "" if none
	workload    string
	blocks      types.UID // owner whose foreground deletion waits for it
	grace       int64     // in seconds
	stops       int64     // of stopSeconds
	waits       bool      // its deletion waits for its kubelet
	wired       bool      // a network plugin must disconnect it
	runs        bool      // it waits, and has not finished
}

type special struct {
	deleted             string // end of its grace period
	finalizers, hazards []string
	leaves              *leaving
	uses                *use
	groups              [][]string
}

// space is a namespace with pods, and host a node.
type space struct {
	name  string
	pods  facts.Directory[*pod]
	waits int
	stops facts.Counts[int64] // running pods, by stopSeconds
}

type host struct {
	name  string
	first *pod
	waits int
	wired int // pods with a network of their own
}

func (p *Part) pod(key types.NamespacedName) *pod {
	if in := p.spaces[key.Namespace]; in != nil {
		return in.pod(key.Name)
	}
	return nil
}

func (s *space) pod(name string) *pod {
	if o := s.pods.At(name); o != nil {
		return *o
	}
	return nil
}

func (o *pod) uses() *use {
	if o.special == nil {
		return nil
	}
	return o.special.uses
}

func (o *pod) leaves() *leaving {
	if o.special == nil {
		return nil
	}
	return o.special.leaves
}

func (p *Part) KeepPod(o *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	of, special := alikeOf(o), specialOf(o)
	if last := p.pod(key); last != nil && last.alike.Value == of && last.special == nil && special == nil && last.node() == o.Spec.NodeName {
		return true // as most updates
	}
	p.ForgetPod(key)
	in := p.spaces[key.Namespace]
	if in == nil {
		in = &space{name: key.Namespace, stops: facts.Counts[int64]{}}
		p.spaces[key.Namespace] = in
	}
	entry := &pod{name: key.Name, in: in, alike: p.alike.Take(of), special: special}
	in.pods.Put(entry)
	p.place(entry, o.Spec.NodeName)
	p.count(entry, 1)
	p.strand(entry)
	if special != nil {
		for _, path := range special.groups {
			p.groups.Add(entry.name, path...)
		}
		p.leave(special.leaves, true)
		p.list(entry)
	}
	return true
}

func (p *Part) count(o *pod, by int) {
	of := o.alike.Value
	if of.runs {
		o.in.stops.Add(of.stops, by)
	}
	if of.waits {
		o.in.waits += by
		o.on.waits += by
		p.goneDirty = true
	}
	if of.wired {
		o.on.wired += by
		p.set(o.on.wired > 0, o.on.wired, "wired", o.on.name)
	}
}

func (p *Part) ForgetPod(key types.NamespacedName) {
	entry := p.pod(key)
	if entry == nil {
		return
	}
	if special := entry.special; special != nil {
		p.leave(special.leaves, false)
		p.unlist(entry)
		for _, path := range special.groups {
			p.groups.Remove(entry.name, path...)
		}
	}
	p.unstrand(entry)
	p.count(entry, -1)
	p.displace(entry)
	p.alike.Drop(entry.alike)
	if entry.in.pods.Delete(entry.name); entry.in.pods.Empty() {
		delete(p.spaces, entry.in.name)
	}
}

func (p *Part) place(o *pod, node string) {
	if node == "" {
		return
	}
	on := p.hosts[node]
	if on == nil {
		on = &host{name: node}
		p.hosts[node] = on
	}
	o.on, o.next = on, on.first
	if o.next != nil {
		o.next.before = o
	}
	on.first = o
}

func (p *Part) displace(o *pod) {
	if o.on == nil {
		return
	}
	if o.before != nil {
		o.before.next = o.next
	} else {
		o.on.first = o.next
	}
	if o.next != nil {
		o.next.before = o.before
	}
	if o.on.first == nil {
		delete(p.hosts, o.on.name)
	}
}

func (h *host) pods() iter.Seq[*pod] {
	return func(yield func(*pod) bool) {
		if h == nil {
			return
		}
		for o := h.first; o != nil && yield(o); o = o.next {
		}
	}
}

func (o *pod) node() string {
	if o.on == nil {
		return ""
	}
	return o.on.name
}

func alikeOf(o *corev1.Pod) alike {
	of := alike{phase: o.Status.Phase, workload: workloadOf(o), grace: graceSeconds(o), waits: waits(o)}
	if controller := metav1.GetControllerOfNoCopy(o); controller != nil {
		of.kind, of.owner = controller.Kind, controller.Name
	}
	of.wired = of.waits && !o.Spec.HostNetwork
	if facts.Finished(o) {
		return of
	}
	of.blocks = facts.BlockingOwner(o)
	if of.runs = of.waits; of.runs {
		of.stops = stopSeconds(o)
	}
	return of
}

func specialOf(o *corev1.Pod) *special {
	s := special{finalizers: o.Finalizers, hazards: hazards(o), groups: groupsOf(o), uses: usesOf(o)}
	if o.DeletionTimestamp != nil {
		s.deleted = facts.Timestamp(*o.DeletionTimestamp)
	}
	if l, leaves := leavingOf(o); leaves {
		s.leaves = &l
	}
	if s.deleted == "" && s.leaves == nil && s.uses == nil && len(s.finalizers)+len(s.hazards)+len(s.groups) == 0 {
		return nil
	}
	return &s
}

func (p *Part) record(o *pod) map[string]any {
	of := o.alike.Value
	entry := map[string]any{"phase": string(of.phase)}
	facts.Set(entry, "node", o.node(), o.on != nil)
	facts.Set(entry, "gracePeriodSeconds", int(of.grace), of.grace != corev1.DefaultTerminationGracePeriodSeconds)
	facts.Set(entry, "owner", map[string]any{"kind": of.kind, "name": of.owner}, of.kind+of.owner != "")
	facts.Set(entry, "workload", of.workload, of.workload != "")
	if o.special == nil {
		return entry
	}
	facts.Set(entry, "deletionTimestamp", o.special.deleted, o.special.deleted != "")
	facts.Set(entry, "finalizers", facts.List(o.special.finalizers), len(o.special.finalizers) > 0)
	facts.Set(entry, "hazards", facts.List(o.special.hazards), len(o.special.hazards) > 0)
	if uses := o.special.uses; uses != nil {
		facts.Set(entry, "missingDrivers", facts.List(uses.missing), len(uses.missing) > 0)
		facts.Set(entry, "missingServers", facts.List(uses.unserved), len(uses.unserved) > 0)
		var plugins []any
		for _, plugin := range uses.undriven {
			plugins = append(plugins, map[string]any{"driver": plugin.driver, "how": plugin.how})
		}
		facts.Set(entry, "missingPlugins", plugins, len(plugins) > 0)
	}
	return entry
}

func (p *Part) Pods(namespace string) iter.Seq[facts.Pod] {
	return func(yield func(facts.Pod) bool) {
		spaces := p.spaces
		if namespace != "" {
			spaces = map[string]*space{}
			if in := p.spaces[namespace]; in != nil {
				spaces[namespace] = in
			}
		}
		for _, in := range spaces {
			for o := range in.pods.All() {
				if !yield(o.row()) {
					return
				}
			}
		}
	}
}

func (p *Part) Pod(key types.NamespacedName) (facts.Pod, bool) {
	if o := p.pod(key); o != nil {
		return o.row(), true
	}
	return facts.Pod{}, false
}

func (o *pod) row() facts.Pod {
	of := o.alike.Value
	return facts.Pod{
		Namespace: o.in.name, Name: o.name, Node: o.node(), Phase: string(of.phase), Kind: of.kind, Workload: of.workload,
		Terminating: o.special != nil && o.special.deleted != "",
	}
}

func (p *Part) LongestGrace(namespace string) (longest int) {
	if in := p.spaces[namespace]; in != nil {
		for seconds := range in.stops {
			longest = max(longest, int(seconds))
		}
	}
	return longest
}

// sections: drainedByGrace has the pods that kubectl drain --ignore-daemonsets evicts.
func (p *Part) sections() {
	p.doc["pods"] = facts.SectionOf(p.spaces, func(_ string, in *space) any {
		return in.pods.Section(func(o *pod) any { return p.record(o) })
	})
	p.doc["podsByNode"] = facts.SectionOf(p.spaces, func(_ string, in *space) any {
		if in.waits == 0 {
			return nil
		}
		return facts.Section{Keys: in.waitingFor, Below: func(node string) any {
			waiting := facts.Names{Limit: p.options.MaxNames}
			for o := range p.hosts[node].pods() {
				if o.in == in && o.alike.Value.waits {
					waiting.Add(o.name)
				}
			}
			return waiting.Facts()
		}}
	})
	p.doc["podsByGrace"] = facts.SectionOf(p.spaces, func(_ string, in *space) any {
		if len(in.stops) == 0 {
			return nil
		}
		counts := map[string]any{}
		for seconds, names := range in.stopping(p.options.MaxNames) {
			counts[strconv.FormatInt(seconds, 10)] = map[string]any{"count": in.stops[seconds], "names": facts.List(names)}
		}
		return counts
	})
	p.doc["drainedByGrace"] = facts.SectionOf(p.hosts, func(_ string, on *host) any {
		groups := map[int64]*facts.Names{}
		for o := range on.pods() {
			of := o.alike.Value
			if !of.runs || of.stops == 0 || of.kind == "DaemonSet" {
				continue
			}
			if groups[of.stops] == nil {
				groups[of.stops] = &facts.Names{Limit: p.options.MaxNames}
			}
			groups[of.stops].Add(o.in.name + "/" + o.name)
		}
		if len(groups) == 0 {
			return nil
		}
		counts := map[string]any{}
		for seconds, group := range groups {
			counts[strconv.FormatInt(seconds, 10)] = group.Facts()
		}
		return counts
	})
}

func (s *space) waitingFor() iter.Seq[string] {
	nodes := map[string]bool{}
	for o := range s.pods.All() {
		if o.alike.Value.waits {
			nodes[o.on.name] = true
		}
	}
	return maps.Keys(nodes)
}

func (s *space) stopping(few int) map[int64][]string {
	names, missing := map[int64][]string{}, 0
	for _, count := range s.stops {
		missing += min(count, few)
	}
	for o := range s.pods.All() {
		of := o.alike.Value
		if !of.runs || len(names[of.stops]) == few {
			continue
		}
		names[of.stops] = append(names[of.stops], o.name)
		if missing--; missing == 0 {
			break
		}
	}
	return names
}

// waits reports whether a deletion waits for the kubelet. The API server itself removes pods that are
// unscheduled, finished or without a grace period (pkg/registry/core/pod/strategy.go, CheckGracefulDelete),
// unless a pod ended after its deletion and the node must still clean up.
func waits(o *corev1.Pod) bool {
	if o.Spec.NodeName == "" {
		return false
	}
	if facts.Finished(o) {
		_, leaves := leavingOf(o)
		return leaves
	}
	return graceSeconds(o) > 0
}

func groupsOf(o *corev1.Pod) [][]string {
	if o.Spec.NodeName == "" {
		return nil
	}
	var paths [][]string
	if waits(o) && !facts.Finished(o) {
		for _, hazard := range hazards(o) {
			paths = append(paths, []string{"hazards", o.Namespace, hazard, o.Spec.NodeName})
		}
	}
	if dir, ok := registrar(o); ok {
		paths = append(paths, []string{"registrars", o.Spec.NodeName, dir, o.Namespace})
	} else if registersPlugin(o) {
		paths = append(paths, []string{"plugins", o.Spec.NodeName, o.Namespace})
	}
	if name, ok := network(o); ok {
		paths = append(paths,
			[]string{"networks", o.Namespace, name, o.Spec.NodeName},
			[]string{"networkAccounts", o.Namespace, cmp.Or(o.Spec.ServiceAccountName, "default"), name})
	}
	// Even a finished pod protects its claims, if a node ran it
	// (pkg/controller/volume/pvcprotection/pvc_protection_controller.go).
	for _, v := range o.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			paths = append(paths, []string{"storage", "claims", o.Namespace, v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			paths = append(paths, []string{"storage", "claims", o.Namespace, o.Name + "-" + v.Name})
		}
	}
	return paths
}

// strand lists a pod under the owner that it blocks if its node is not ready; unstrand undoes it.
func (p *Part) strand(o *pod) {
	if of := o.alike.Value; of.blocks != "" && of.waits && p.notReady(o.on.name) {
		p.options.Dependents.Block(of.blocks, o.name, false, facts.Nowhere, "pods", o.in.name, o.on.name)
	}
}

func (p *Part) unstrand(o *pod) {
	if of := o.alike.Value; of.blocks != "" && of.waits {
		p.options.Dependents.Unblock(of.blocks, o.name, "pods", o.in.name, o.on.name)
	}
}
