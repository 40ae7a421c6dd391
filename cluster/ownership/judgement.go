package ownership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// States of a finalizer's owner.
const (
	Alive   = "alive"
	Down    = "down"    // known, and does not run
	Absent  = "absent"  // not installed
	Barred  = "barred"  // it runs, and may not update the object
	Unknown = "unknown" // the cluster does not show it
	Unasked = "unasked" // unknown without a cluster
)

type judgement struct {
	state   string
	certain bool // an absent or down owner will never remove it
	// hearsay is the decisive evidence that a tenant may have written, "" for none.
	hearsay   string
	declared  bool // by an annotation, which a tenant may write
	owner     string
	clears    string
	creates   string // the resource that the owner must create to clear the object
	drains    *catalog.Drain
	obstacles []obstacle
	unsure    bool // the effect of a missing need is uncertain
	// watches are the namespaces that the owner watches, if not this one.
	watches []string
	// maker is the missing object that the definition was made from.
	maker    string
	evidence []string
	// workloads are the owner's, running or not.
	workloads []workload
	// circumstantial says that only permissions point to the owner: any other source outweighs them.
	circumstantial bool
	// seen says that the owner was seen to remove it, or is Kubernetes itself.
	seen bool
	idle []workload
	// bindings are the role bindings in the objects' namespace that the owner's right depends on.
	bindings []string
	// barred is the account that has no right to update resource.
	barred, resource string
	// namesake says that only a name or image points to the owner: its namespace's users may have chosen it.
	namesake bool
	// lease is one that it may not renew.
	lease string
}

func (j judgement) owned() facts.Verdict {
	v := facts.Verdict{State: j.state, Owner: j.owner, Clears: j.clears, Evidence: append([]string{}, j.evidence...), Seen: j.state == Alive && j.seen}
	for _, wl := range j.workloads {
		v.Runs = append(v.Runs, facts.Object{Resource: wl.resource(), Namespace: wl.namespace, Name: wl.name})
	}
	return v
}

func (j judgement) facts() map[string]any {
	certainty := "may"
	if j.certain {
		certainty = "will"
	}
	record := map[string]any{"state": j.state, "certainty": certainty, "owner": j.owner, "clears": j.clears, "evidence": facts.List(j.evidence)}
	for key, list := range map[string][]workload{"workloads": j.workloads, "idle": j.idle} {
		if len(list) > 0 {
			workloads := make([]any, len(list))
			for i, wl := range list {
				workloads[i] = map[string]any{"resource": wl.resource(), "namespace": wl.namespace, "name": wl.name}
			}
			record[key] = workloads
		}
	}
	barred := map[string]any{"account": j.barred, "resource": j.resource}
	facts.Set(barred, "lease", j.lease, j.lease != "")
	facts.Set(barred, "namesake", true, j.namesake)
	alive := j.state == Alive
	facts.Set(record, "hearsay", j.hearsay, j.hearsay != "")
	facts.Set(record, "declared", true, j.declared)
	facts.Set(record, "barred", barred, j.barred != "")
	facts.Set(record, "bindings", facts.List(j.bindings), len(j.bindings) > 0)
	facts.Set(record, "creates", j.creates, alive && j.creates != "")
	facts.Set(record, "circumstantial", true, alive && j.circumstantial)
	facts.Set(record, "seen", true, alive && j.seen)
	facts.Set(record, "provisions", true, alive && slices.ContainsFunc(j.workloads, func(wl workload) bool { return slices.Contains(wl.images, "csi-provisioner") }))
	facts.Set(record, "unsure", true, j.unsure)
	facts.Set(record, "watches", facts.List(j.watches), len(j.watches) > 0)
	facts.Set(record, "maker", j.maker, j.maker != "")
	facts.Set(record, "obstacles", obstacleFacts(j.obstacles), len(j.obstacles) > 0)
	facts.Set(record, "accounts", facts.List(accountsOf(j.workloads)), len(j.workloads) > 0)
	if d := j.drains; j.state == Alive && d != nil {
		bounded := make([]any, len(d.Bounded))
		for i, path := range d.Bounded {
			bounded[i] = facts.List(strings.Split(path, "."))
		}
		record["drains"] = map[string]any{"node": facts.List(strings.Split(d.Node, ".")), "bounded": bounded, "elsewhere": d.Elsewhere}
	}
	return record
}

func (j judgement) is(state string, certain bool, format string, args ...any) judgement {
	j.state, j.certain = state, certain
	j.evidence = append(j.evidence, fmt.Sprintf(format, args...))
	return j
}

// judgeDown is certain with proof, else only for now.
func (p *Part) judgeDown(j judgement, workloads []workload) judgement {
	certain := true
	for _, wl := range workloads {
		proof, sure := p.whyDown(wl)
		certain = certain && sure
		j.evidence = append(j.evidence, wl.String()+" "+proof)
	}
	j.state, j.certain, j.workloads, j.idle = Down, certain, workloads, append(j.idle, scaledDown(workloads)...)
	return j
}

// scaledDown leaves out DaemonSets, which cannot be scaled.
func scaledDown(list []workload) []workload {
	return slices.DeleteFunc(slices.Clone(list), func(wl workload) bool { return wl.replicas > 0 || wl.kind == "DaemonSet" })
}

func (p *Part) whyIdle(account string) (proof string, sure bool) {
	if running := p.workloadsUnder(account); len(running) > 0 {
		return p.whyDown(running[0])
	}
	return p.whyDown(workload{account: account, replicas: 1, refused: "no workload runs under it"})
}

// whyDown returns why no pod of a workload's account is ready, and whether that certainly persists.
func (p *Part) whyDown(wl workload) (proof string, sure bool) {
	namespace, pods := facts.NamespaceOf(wl.account), p.podsOf[wl.account]
	switch {
	case wl.replicas == 0:
		return "is scaled to zero", true
	case wl.terminating:
		return "is Terminating", false
	case p.terminates(namespace):
		return "is deleted with its namespace, which is Terminating", false
	case pods != nil:
	case wl.refused != "":
		return "has no pod: " + wl.refused, true
	default:
		return "has no pod at the moment", false // as between two pods of a rollout
	}
	for pod := range pods.All() {
		key, r := types.NamespacedName{Namespace: namespace, Name: pod.name}, pod.Value
		switch {
		case r.terminating:
		case p.leading(key, r.stopped) != "":
			return "has no ready pod, but " + p.leading(key, r.stopped), false
		case r.failing == "":
			return "has no ready pod at the moment", false
		case proof == "":
			proof = fmt.Sprintf("has no ready pod: pod %s is in %s", key, r.failing)
		}
	}
	if proof == "" {
		return "has no ready pod at the moment: its pods are Terminating", false
	}
	return proof, true
}

// withCrashes marks an owner down if no pod is ready, whatever its workloads' status says, and uncertain if
// all ready pods kept crashing until recently, or crashed once without a kind that they watch.
func (p *Part) withCrashes(j judgement) judgement {
	if j.state != Alive || p.options.Manifests {
		return j
	}
	var why string
	idle := false
	recent := func(start int64) bool {
		return start != 0 && p.options.Now().Sub(time.Unix(start, 0)) <= facts.SteadyAfter
	}
	for _, wl := range j.workloads {
		namespace := facts.NamespaceOf(wl.account)
		for pod := range p.podsOf[wl.account].All() {
			switch r := pod.Value; {
			case !p.serves(namespace, r):
				idle = true
			case recent(r.often):
				why = fmt.Sprintf("pod %s/%s is ready at the moment, but keeps crashing", namespace, pod.name)
			case !recent(r.crashed) || p.unserved(wl.account) == "":
				return j
			case why == "":
				why = fmt.Sprintf("pod %s/%s has crashed, and its role names %s, which is not served", namespace, pod.name, p.unserved(wl.account))
			}
		}
	}
	switch {
	case why != "":
		return j.is(Unknown, false, "%s", why)
	case idle:
		j.evidence = nil
		return p.judgeDown(j, j.workloads)
	}
	return j
}

// unserved returns an unserved custom resource that a service account's roles name, or "". A controller that
// watches it exits some time after its start (controller-runtime, CacheSyncTimeout); others do without it:
// alone it is no evidence. Tenants can write none of the bindings that count.
func (p *Part) unserved(account string) (resource string) {
	if p.blind() != "" {
		return ""
	}
	for key := range p.rolesWhere([]string{account}, facts.NamespaceOf(account), func(role) bool { return true }) {
		for _, watched := range p.roles[key].watches {
			group := facts.GroupOf(watched)
			if !p.Defined(watched) && (p.defines(group) || !p.options.Sight.ServesExactly(group)) && (resource == "" || watched < resource) {
				resource = watched
			}
		}
	}
	return resource
}

// readyPod returns "namespace/name", or "".
func (p *Part) readyPod(account string) string {
	namespace := facts.NamespaceOf(account)
	for pod := range p.podsOf[account].All() {
		if p.serves(namespace, pod.Value) {
			return namespace + "/" + pod.name
		}
	}
	return ""
}

// managed returns the field manager that names a ready pod, unless generic: kubebuilder scaffolds "manager"
// (sigs.k8s.io/kubebuilder, pkg/plugins/golang/v4/scaffolds/internal/templates/dockerfile.go).
func (p *Part) managed(g grantee, managers []string) string {
	for pod := range p.podsOf[g.account].All() {
		for _, manager := range managers {
			if p.serves(facts.NamespaceOf(g.account), pod.Value) && !catalog.Generic(manager) && pod.Value.calls(manager) {
				return manager
			}
		}
	}
	return ""
}

var (
	grantInputs = []string{"roles" + rbacGroup, "clusterroles" + rbacGroup, "rolebindings" + rbacGroup, "clusterrolebindings" + rbacGroup}
	ownerInputs = slices.Concat([]string{"pods", "serviceaccounts", "deployments.apps", "statefulsets.apps", "daemonsets.apps"}, grantInputs, []string{definitions})
)

// blind returns an unseen resource without which no owner can be judged absent, or "".
func (p *Part) blind() string { return p.hidden(ownerInputs...) }

func (p *Part) hidden(resources ...string) string {
	for _, name := range resources {
		if reason, hidden := p.options.Sight.Hidden(name); hidden {
			return name + " (" + reason + ")"
		}
	}
	return ""
}

func workloadNames(entry catalog.Entry) string {
	var names []string
	for _, wl := range entry.Workloads {
		names = append(names, strings.TrimSpace(wl.Kind+" "+wl.Name))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func accounts(list []grantee) string {
	var names []string
	for _, g := range list {
		names = append(names, g.account)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	return "service accounts " + strings.Join(names, ", ")
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// inCloud reports whether a provider ID may have a cloud controller: k3s and kind run theirs without a
// visible workload.
func inCloud(id string) bool {
	provider, _, _ := strings.Cut(id, "://")
	return !slices.Contains([]string{"", "kubemark"}, provider)
}

// guessOwner names an unknown owner after the API group, if the finalizer shares its project or has no
// domain.
func guessOwner(res, finalizer string) string {
	group := facts.GroupOf(res)
	if !facts.Custom(group) {
		return ""
	}
	domain, _, _ := strings.Cut(finalizer, "/")
	labels := strings.Split(group, ".")
	project := strings.Join(labels[max(0, len(labels)-2):], ".")
	if !strings.Contains(domain, ".") || strings.Contains(domain, project) || strings.Contains(domain, labels[0]) {
		return "controller of " + group
	}
	return ""
}
