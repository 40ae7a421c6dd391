package ownership

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Leases, by which controllers elect a leader, tell that somebody renews them.
// They are not part of the inventory: each is renewed every few seconds. They are
// listed every LeaseInterval instead.

const (
	// LeaseInterval is how often leases are listed.
	LeaseInterval = 15 * time.Second
	// leaseSlack is how much later than its duration a renewal may be seen.
	leaseSlack = 2 * LeaseInterval
	// leaseSkew is how far the clock of a holder may be off. It counts only for
	// a lease that was seen once: after that its renewals are seen, as leader
	// election itself does it (client-go, tools/leaderelection).
	leaseSkew = 2 * time.Minute
	// leaseDuration is that of a lease that names none, and maxDuration the longest that counts:
	// OpenShift elects by 270 s on a single node
	// (github.com/openshift/library-go:pkg/config/leaderelection/leaderelection.go).
	leaseDuration, maxDuration = 15 * time.Second, 5 * time.Minute
)

// lease is who holds one, and since when that is known.
type lease struct {
	namespace, name, holder string
	renewed                 time.Time // by the holder's clock
	duration                time.Duration
	observed                time.Time // when this renewal was seen first, by our clock
	moved                   bool      // it was seen to be renewed
	alone                   int       // how often since its holder was a pod
	here                    bool      // its holder was seen as a pod
}

func (l lease) String() string { return l.namespace + "/" + l.name }

// SetLeases replaces what is known of leases.
func (p *Part) SetLeases(list []coordinationv1.Lease) {
	now := p.options.Now()
	fresh := func() (names []string) {
		for _, key := range slices.Sorted(maps.Keys(p.leases)) {
			if l := p.leases[key]; p.fresh(l) {
				names = append(names, fmt.Sprint(key, l.holder, p.outside(l)))
			}
		}
		return names
	}
	before := p.freshLeases
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
		if known, again := p.leases[l.String()]; again {
			l.moved = known.moved || !known.renewed.Equal(l.renewed)
			l.alone, l.here = known.alone, known.here
			if known.renewed.Equal(l.renewed) {
				l.observed = known.observed
			} else {
				l.alone++
			}
			if known.holder != l.holder {
				l.alone, l.here = 0, false
			}
		}
		if _, pod := p.holder(l); pod != nil {
			l.alone, l.here = 0, true
		}
		leases[l.String()] = l
	}
	p.leases = leases
	p.freshLeases = fresh()
	p.dirty = p.dirty || !slices.Equal(before, p.freshLeases) || len(p.crashing) > 0 // which time settles
}

// fresh tells whether a lease is renewed, which outlives its holder by its duration.
func (p *Part) fresh(l lease) bool {
	now := p.options.Now()
	if now.Sub(l.observed) > l.duration+leaseSlack {
		return false
	}
	return l.moved || now.Sub(l.renewed).Abs() <= l.duration+leaseSkew
}

// named are the fresh leases that are named after an API group, as controllers name
// theirs (kubebuilder, pkg/plugins/golang/v4/scaffolds: LeaderElectionID is
// HASH.DOMAIN): after the group itself, or the domain that it alone is under.
func (p *Part) named(group string) []lease {
	if !strings.Contains(group, ".") {
		return nil // of Kubernetes itself
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
	var found []lease
	for _, key := range slices.Sorted(maps.Keys(p.leases)) {
		l := p.leases[key]
		named := slices.ContainsFunc(domains, func(d string) bool { return l.name == d || strings.HasSuffix(l.name, "."+d) })
		if named && p.fresh(l) {
			found = append(found, l)
		}
	}
	return found
}

// holder is the pod that holds a lease, as "POD_UID" has it (controller-runtime,
// pkg/leaderelection); nil where the holder is none. Its lease may be in another
// namespace than the pod, and only there its name is looked for first.
func (p *Part) holder(l lease) (key types.NamespacedName, pod *runningPod) {
	name, _, _ := strings.Cut(l.holder, "_")
	key = types.NamespacedName{Namespace: l.namespace, Name: name}
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

// counts reports whether a lease is evidence: of a pod beside it that is, in a namespace that
// the catalog names, or one that only those can have written who may take the finalizer off.
func (p *Part) counts(l lease, holds string, pod *runningPod, q *asked) bool {
	return q.names(l.namespace) || pod != nil && holds == l.namespace && p.admits(q, pod.Value.account) ||
		p.onlyWriters("leases", l.namespace, q.verdictKey)
}

// podOfDeployment are the ends of names of its pods, of the hash of a template and a random part
// (k8s.io/apimachinery, pkg/util/rand; k8s.io/kubernetes, pkg/controller/deployment/sync.go).
var podOfDeployment = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// stranger tells whether the holder of a lease is no pod, nor was one: it was seen, or is named
// like one and let the time go by in which it renews (two thirds of the duration, as client-go
// has it), or of a pod that is gone, the workload may still be there, whose name its own began
// with. One that goes on renewing its lease is a stranger whatever it was: a pod that was forced
// off may still run.
func (p *Part) stranger(l lease) bool {
	name, _, _ := strings.Cut(l.holder, "_")
	if l.alone < 2 && (l.here || l.observed.Sub(l.renewed) > l.duration*2/3 && podOfDeployment.MatchString(name)) {
		return false
	}
	for _, wl := range p.workloads {
		if strings.HasPrefix(name, wl.name+"-") {
			return false
		}
	}
	_, pod := p.holder(l)
	return pod == nil
}

// election is the lease by which a workload elects the one of its pods that works: one in its
// namespace, whose holder is a pod of it, or was named like one.
func (p *Part) election(wl workload) (found lease, elects bool) {
	for _, key := range slices.Sorted(maps.Keys(p.leases)) {
		l := p.leases[key]
		name, _, _ := strings.Cut(l.holder, "_")
		suffix, own := strings.CutPrefix(name, wl.name+"-")
		if l.namespace != wl.namespace || !own || strings.Count(suffix, "-") > 1 {
			continue // of a Deployment, HASH-SUFFIX
		}
		if pod := p.running.At(types.NamespacedName{Namespace: l.namespace, Name: name}); pod == nil || pod.Value.account == wl.account {
			return l, true
		}
	}
	return lease{}, false
}

// outside tells whether the holder of a lease runs outside of the cluster: it goes on
// renewing the lease, and no pod has its name. One renewal proves nothing: the pod may
// have gone between that and the listing that showed it.
func (p *Part) outside(l lease) bool {
	return l.alone >= 2 && p.options.Now().Sub(l.observed) <= l.duration+LeaseInterval && p.stranger(l)
}

// leading tells which fresh lease a pod holds; "" if it holds none. Of one of which no
// container runs, a lease is what it left behind, unless that was seen to be renewed.
func (p *Part) leading(pod types.NamespacedName, stopped bool) string {
	for _, key := range slices.Sorted(maps.Keys(p.leases)) {
		l := p.leases[key]
		if holder, _, _ := strings.Cut(l.holder, "_"); l.namespace == pod.Namespace && holder == pod.Name && p.fresh(l) && (l.moved || !stopped) {
			return fmt.Sprintf("pod %s renews lease %s", pod, l)
		}
	}
	return ""
}
