package ownership

import (
	"fmt"
	"maps"
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
	// leaseDuration is that of a lease that names none.
	leaseDuration = 15 * time.Second
)

// lease is who holds one, and since when that is known.
type lease struct {
	namespace, name, holder string
	renewed                 time.Time // by the holder's clock
	duration                time.Duration
	observed                time.Time // when this renewal was seen first, by our clock
	moved                   bool      // it was seen to be renewed
}

func (l lease) String() string { return l.namespace + "/" + l.name }

// SetLeases replaces what is known of leases.
func (p *Part) SetLeases(list []coordinationv1.Lease) {
	now := p.options.Now()
	fresh := func() (names []string) {
		for _, key := range slices.Sorted(maps.Keys(p.leases)) {
			if l := p.leases[key]; p.fresh(l) {
				names = append(names, key+" "+l.holder)
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
			duration: max(time.Duration(facts.Or(o.Spec.LeaseDurationSeconds, 0))*time.Second, leaseDuration),
			observed: now,
		}
		if l.holder == "" || l.renewed.IsZero() {
			continue // given up
		}
		if known, again := p.leases[l.String()]; again {
			l.moved = known.moved || !known.renewed.Equal(l.renewed)
			if known.renewed.Equal(l.renewed) {
				l.observed = known.observed
			}
		}
		leases[l.String()] = l
	}
	p.leases = leases
	p.freshLeases = fresh()
	p.dirty = p.dirty || !slices.Equal(before, p.freshLeases)
}

// fresh tells whether the holder of a lease is up.
func (p *Part) fresh(l lease) bool {
	now := p.options.Now()
	if now.Sub(l.observed) > l.duration+leaseSlack {
		return false
	}
	return l.moved || now.Sub(l.renewed).Abs() <= l.duration+leaseSkew
}

// leader is a fresh lease that is named after an API group, as controllers name
// theirs (kubebuilder, pkg/plugins/golang/v4/scaffolds: LeaderElectionID is
// HASH.DOMAIN): after the group itself, or the domain that it alone is under.
func (p *Part) leader(group string) (lease, bool) {
	if !strings.Contains(group, ".") {
		return lease{}, false // of Kubernetes itself
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
	for _, key := range slices.Sorted(maps.Keys(p.leases)) {
		l := p.leases[key]
		named := slices.ContainsFunc(domains, func(d string) bool { return l.name == d || strings.HasSuffix(l.name, "."+d) })
		if named && p.fresh(l) && !p.abandoned(l) {
			return l, true
		}
	}
	return lease{}, false
}

// abandoned tells whether the pod that holds a lease is gone or going: it may not
// have given it up. A holder is "POD_UID"
// (controller-runtime, pkg/leaderelection).
func (p *Part) abandoned(l lease) bool {
	holder, _, _ := strings.Cut(l.holder, "_")
	if pod := p.running.At(types.NamespacedName{Namespace: l.namespace, Name: holder}); pod != nil {
		return pod.Value.goes
	}
	for _, wl := range p.workloads {
		if wl.namespace == l.namespace && strings.HasPrefix(holder, wl.name+"-") {
			return true
		}
	}
	return false
}

// leading tells which fresh lease a pod holds; "" if it holds none.
func (p *Part) leading(pod types.NamespacedName) string {
	for _, key := range slices.Sorted(maps.Keys(p.leases)) {
		l := p.leases[key]
		if holder, _, _ := strings.Cut(l.holder, "_"); l.namespace == pod.Namespace && holder == pod.Name && p.fresh(l) {
			return fmt.Sprintf("pod %s renews lease %s", pod, l)
		}
	}
	return ""
}
