package ownership

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Leases show that a controller's leader is active. They are listed every LeaseInterval, not kept in the
// inventory: they are renewed every few seconds.

const (
	// LeaseInterval is the time between lists of leases.
	LeaseInterval = 15 * time.Second
	// leaseSlack is the tolerated delay of an observed renewal.
	leaseSlack = 2 * LeaseInterval
	// leaseSkew is a holder's tolerated clock skew until a renewal is observed (as in client-go,
	// tools/leaderelection).
	leaseSkew = 2 * time.Minute
	// leaseDuration is the default, and maxDuration bounds what counts: OpenShift uses 270 s on a single node
	// (github.com/openshift/library-go:pkg/config/leaderelection/leaderelection.go).
	leaseDuration, maxDuration = 15 * time.Second, 5 * time.Minute
)

type lease struct {
	namespace, name, holder string
	renewed                 time.Time // by the holder's clock
	duration                time.Duration
	observed                time.Time // when this renewal was first seen, by our clock
	moved                   bool      // a renewal was observed
	alone                   int       // renewals since its holder was a pod
	here                    bool      // its holder was seen as a pod
}

func (l lease) String() string { return l.namespace + "/" + l.name }

// pod returns the holder's name if that is a pod, as "POD_UID" (controller-runtime, pkg/leaderelection).
func (l lease) pod() string {
	name, _, _ := strings.Cut(l.holder, "_")
	return name
}

func inOrder[V any](all map[string]V) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if !yield(all[key]) {
				return
			}
		}
	}
}

func (p *Part) SetLeases(list []coordinationv1.Lease) {
	now := p.options.Now()
	leases := map[string]lease{}
	for _, o := range list {
		l := lease{
			namespace: o.Namespace, name: o.Name, holder: facts.Or(o.Spec.HolderIdentity, ""),
			renewed:  facts.Or(o.Spec.RenewTime, metav1.MicroTime{}).Time,
			duration: min(max(time.Duration(facts.Or(o.Spec.LeaseDurationSeconds, 0))*time.Second, leaseDuration), maxDuration),
			observed: now,
		}
		if l.holder == "" || l.renewed.IsZero() {
			continue // given up
		}
		if before, again := p.leases[l.String()]; again {
			l.moved = before.moved || !before.renewed.Equal(l.renewed)
			l.alone, l.here = before.alone, before.here
			if before.renewed.Equal(l.renewed) {
				l.observed = before.observed
			} else {
				l.alone++
			}
			if before.holder != l.holder {
				l.alone, l.here = 0, false
			}
		}
		if _, pod := p.holder(l); pod != nil {
			l.alone, l.here = 0, true
		}
		leases[l.String()] = l
	}
	p.leases = leases
	p.dirty = true // whether a lease is fresh, and a pod keeps crashing, depends on time
}

// fresh reports whether a lease is being renewed; it outlives its holder by its duration.
func (p *Part) fresh(l lease) bool {
	now := p.options.Now()
	if now.Sub(l.observed) > l.duration+leaseSlack {
		return false
	}
	return l.moved || now.Sub(l.renewed).Abs() <= l.duration+leaseSkew
}

// leasesNamed returns the fresh leases named after an API group, or a domain that only this group is under
// (kubebuilder, pkg/plugins/golang/v4/scaffolds: LeaderElectionID is HASH.DOMAIN).
func (p *Part) leasesNamed(group string) []lease {
	if !strings.Contains(group, ".") {
		return nil // built in
	}
	domains := []string{group}
	if _, domain, _ := strings.Cut(group, "."); strings.Contains(domain, ".") {
		siblings := p.options.Sight.Below(domain)
		if p.options.Sight.ServesExactly(domain) {
			siblings++
		}
		if siblings == 1 {
			domains = append(domains, domain)
		}
	}
	var leases []lease
	for l := range inOrder(p.leases) {
		named := slices.ContainsFunc(domains, func(d string) bool { return l.name == d || strings.HasSuffix(l.name, "."+d) })
		if named && p.fresh(l) {
			leases = append(leases, l)
		}
	}
	return leases
}

// holder prefers pods in the lease's namespace.
func (p *Part) holder(l lease) (key types.NamespacedName, pod *runningPod) {
	key = types.NamespacedName{Namespace: l.namespace, Name: l.pod()}
	if pod = p.running.At(key); pod != nil {
		return key, pod
	}
	for _, namespace := range slices.Sorted(maps.Keys(p.running)) {
		key.Namespace = namespace
		if pod = p.running.At(key); pod != nil {
			return key, pod
		}
	}
	return key, nil
}

// counts reports whether a lease is evidence: anyone with a right in a namespace may write one there.
func (p *Part) counts(l lease, holds string, pod *runningPod, q *question) bool {
	return q.names(l.namespace) || pod != nil && holds == l.namespace && p.admits(q, pod.Value.account) ||
		p.onlyWriters("leases", l.namespace, q.verdictKey)
}

// podOfDeployment matches a template hash and a random part (k8s.io/apimachinery, pkg/util/rand;
// k8s.io/kubernetes, pkg/controller/deployment/sync.go).
var podOfDeployment = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// isOutsider reports whether a lease's holder neither is nor was a pod. A former pod was seen, or has a pod's
// name and missed the renewal deadline (two thirds of the duration, as in client-go), unless it keeps
// renewing, as a force-deleted pod may; or is named like a workload.
func (p *Part) isOutsider(l lease) bool {
	name := l.pod()
	if l.alone < 2 && (l.here || l.observed.Sub(l.renewed) > l.duration*2/3 && podOfDeployment.MatchString(name)) {
		return false
	}
	if len(p.workloadsWhere(func(wl workload) bool { return strings.HasPrefix(name, wl.name+"-") })) > 0 {
		return false
	}
	_, pod := p.holder(l)
	return pod == nil
}

const maxStopped = 1000

// stoppedBy keeps a pod that a kubelet stopped for good, by its Event.
func (p *Part) stoppedBy(e *corev1.Event) (pod types.NamespacedName, kept bool) {
	pod = types.NamespacedName{Namespace: e.Namespace, Name: e.InvolvedObject.Name}
	_, ok := facts.FromKubelet(e)
	return pod, ok && e.Reason == "Killing" && e.InvolvedObject.Kind == "Pod" &&
		!strings.Contains(e.Message, " probe") && len(p.stopped) < maxStopped
}

func (l lease) heldBy(pod types.NamespacedName) bool {
	return pod.Namespace == l.namespace && pod.Name == l.pod()
}

// outlivesHolder reports whether a lease's pod was deleted: with its namespace, which deletes pods first, or
// by Events that only subjects with rights to the objects can have written.
func (p *Part) outlivesHolder(l lease, q *question) bool {
	return p.terminates(l.namespace) && podOfDeployment.MatchString(l.pod()) || p.onlyWriters("events", l.namespace, q.verdictKey) &&
		facts.Any(p.stopped, l.heldBy)
}

// election returns the lease in a workload's namespace with a holder named like its pods.
func (p *Part) election(wl workload) (held lease, elects bool) {
	for l := range inOrder(p.leases) {
		suffix, own := strings.CutPrefix(l.pod(), wl.name+"-")
		if l.namespace != wl.namespace || !own || strings.Count(suffix, "-") > 1 {
			continue // HASH-SUFFIX in a Deployment
		}
		if pod := p.running.At(types.NamespacedName{Namespace: l.namespace, Name: l.pod()}); pod == nil || pod.Value.account == wl.account {
			return l, true
		}
	}
	return lease{}, false
}

// outside reports whether a lease's holder runs outside the cluster. One renewal proves nothing: a pod may be
// deleted before it is listed.
func (p *Part) outside(l lease) bool {
	return l.alone >= 2 && p.options.Now().Sub(l.observed) <= l.duration+LeaseInterval && p.isOutsider(l)
}

// leading describes a pod's fresh lease, or "". Without running containers, a renewal must have been observed.
func (p *Part) leading(pod types.NamespacedName, stopped bool) string {
	for l := range inOrder(p.leases) {
		if l.heldBy(pod) && p.fresh(l) && (l.moved || !stopped) {
			return fmt.Sprintf("pod %s renews lease %s", pod, l)
		}
	}
	return ""
}
