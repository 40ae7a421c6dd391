package nodes

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// pod is what is kept of one.
type pod struct {
	node     string
	waits    bool      // it needs its kubelet to go
	owner    types.UID // whose foreground deletion waits for it, "" if none
	workload string    // as workloadOf has it
	stranded bool      // under its owner, because its node is not ready
	wired    bool      // a network plugin connected it, and is asked when it goes
	leaves   *leaving  // nil unless it is being deleted
	uses     *use      // nil unless it has something mounted
	groups   [][]string
	drained  int64 // the seconds that a drain waits for it, 0 if it does not
	facts    map[string]any
	// controller is what its facts say of its owner, nil where it has none.
	controller *controller
}

// controller is the owner of pods, as the facts have it: once, however many they are.
type controller struct {
	controllerKey
	facts map[string]any
	pods  int
}

type controllerKey struct{ kind, name string }

// controls tells of one more pod of an owner, and controlsLess of one less.
func (p *Part) controls(kind, name string) *controller {
	key := controllerKey{kind, name}
	c := p.controllers[key]
	if c == nil {
		c = &controller{controllerKey: key, facts: map[string]any{"kind": p.strings.Box(kind), "name": name}}
		p.controllers[key] = c
	}
	c.pods++
	return c
}

func (p *Part) controlsLess(c *controller) {
	if c == nil {
		return
	}
	if c.pods--; c.pods == 0 {
		delete(p.controllers, c.controllerKey)
	}
}

// KeepPod takes in a pod, and which node's kubelet it needs to go.
func (p *Part) KeepPod(o *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	p.ForgetPod(key)
	found := map[string]any{"phase": p.strings.Box(string(o.Status.Phase))}
	if o.Spec.NodeName != "" {
		found["node"] = p.strings.Box(o.Spec.NodeName)
	}
	if grace := graceSeconds(o); grace != corev1.DefaultTerminationGracePeriodSeconds {
		found["gracePeriodSeconds"] = int(grace)
	}
	if o.DeletionTimestamp != nil {
		found["deletionTimestamp"] = facts.Timestamp(*o.DeletionTimestamp)
	}
	if len(o.Finalizers) > 0 {
		found["finalizers"] = facts.List(o.Finalizers)
	}
	if dangers := hazards(o); len(dangers) > 0 {
		found["hazards"] = facts.List(dangers)
	}
	var owner *controller
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		owner = p.controls(ref.Kind, ref.Name)
		found["owner"] = owner.facts
	}
	workload := workloadOf(o)
	if workload != "" {
		found["workload"] = p.strings.Box(workload)
	}
	p.doc.Child("pods", o.Namespace)[o.Name] = found
	kept := &pod{node: o.Spec.NodeName, waits: waits(o), workload: workload, facts: found, groups: groupsOf(o), drained: drained(o), controller: owner}
	kept.wired = kept.waits && !o.Spec.HostNetwork
	if !facts.Finished(o) {
		kept.owner = facts.BlockingOwner(o)
	}
	p.pods[key] = kept
	for _, path := range kept.groups {
		p.groups.Add(o.Name, path...)
	}
	if kept.drained > 0 {
		p.groups.Add(key.String(), kept.drainedAt()...)
	}
	if kept.waits {
		p.groups.Add(o.Name, "podsByNode", o.Namespace, kept.node)
		p.waitsOn[kept.node]++
		p.waitsIn[key.Namespace]++
		p.waitingDirty[kept.node] = true
	}
	if kept.wired {
		p.wire(kept.node, 1)
	}
	p.strand(key, kept)
	p.leave(kept, o)
	p.mount(key, kept, o)
	return true
}

// ForgetPod undoes KeepPod.
func (p *Part) ForgetPod(key types.NamespacedName) {
	gone := p.pods[key]
	if gone == nil {
		return
	}
	delete(p.pods, key)
	p.controlsLess(gone.controller)
	p.stay(gone)
	p.unmount(key, gone)
	p.unstrand(key, gone)
	if gone.waits {
		p.groups.Remove(key.Name, "podsByNode", key.Namespace, gone.node)
		if p.waitsOn[gone.node]--; p.waitsOn[gone.node] == 0 {
			delete(p.waitsOn, gone.node)
		}
		if p.waitsIn[key.Namespace]--; p.waitsIn[key.Namespace] == 0 {
			delete(p.waitsIn, key.Namespace)
		}
		p.waitingDirty[gone.node] = true
	}
	if gone.wired {
		p.wire(gone.node, -1)
	}
	for _, path := range gone.groups {
		p.groups.Remove(key.Name, path...)
	}
	if gone.drained > 0 {
		p.groups.Remove(key.String(), gone.drainedAt()...)
	}
	p.doc.Prune("pods", key.Namespace, key.Name)
}

// waits tells whether a pod needs its kubelet to go. Pods that are unscheduled,
// have finished or have no grace period the API server removes at once
// (pkg/registry/core/pod/strategy.go, CheckGracefulDelete); of one whose
// containers have ended since it was deleted, the node has to clean up.
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

// groupsOf are the groups that a pod is found by, but podsByNode, which every pod
// that waits is in.
func groupsOf(o *corev1.Pod) [][]string {
	if o.Spec.NodeName == "" {
		return nil
	}
	var paths [][]string
	if waits(o) && !facts.Finished(o) {
		paths = append(paths, []string{"podsByGrace", o.Namespace, strconv.FormatInt(stopSeconds(o), 10)})
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
		paths = append(paths, []string{"networks", o.Namespace, name, o.Spec.NodeName})
	}
	// Even a finished pod holds its claims, if a node ran it
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

// drained is how long a pod may take to stop that kubectl drain --ignore-daemonsets
// evicts, in seconds, and 0 for others.
func drained(o *corev1.Pod) int64 {
	if controller := metav1.GetControllerOfNoCopy(o); !waits(o) || facts.Finished(o) || controller != nil && controller.Kind == "DaemonSet" {
		return 0
	}
	return stopSeconds(o)
}

// drainedAt is where it stands among them.
func (o *pod) drainedAt() []string {
	return []string{"drainedByGrace", o.node, strconv.FormatInt(o.drained, 10)}
}

// strand puts a pod that needs its kubelet to go under the owner that it blocks,
// if its node is not ready, and unstrand takes it out again.
func (p *Part) strand(key types.NamespacedName, o *pod) {
	if o.owner == "" || !o.waits || !p.notReady(o.node) {
		return
	}
	o.stranded = true
	p.options.Dependents.Block(o.owner, key.Name, false, facts.Nowhere, "pods", key.Namespace, o.node)
}

func (p *Part) unstrand(key types.NamespacedName, o *pod) {
	if !o.stranded {
		return
	}
	o.stranded = false
	p.options.Dependents.Unblock(o.owner, key.Name, "pods", key.Namespace, o.node)
}
