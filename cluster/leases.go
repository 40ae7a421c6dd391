package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// This file keeps the leases by which controllers elect a leader. They are not
// part of the inventory: each is renewed every few seconds. They are listed now
// and then instead, without those of nodes, and tell that somebody renews them.

const (
	// leaseInterval is how often leases are listed, leasePages how many pages of
	// them at most.
	leaseInterval, leasePages = 15 * time.Second, 4
	// leaseSlack is how much later than its duration a renewal may be seen.
	leaseSlack = 2 * leaseInterval
	// leaseSkew is how far the clock of a holder may be off. It counts only for
	// a lease that was seen once: after that its renewals are seen, as leader
	// election itself does it (client-go, tools/leaderelection).
	leaseSkew = 2 * time.Minute
	// leaseDuration is that of a lease that names none.
	leaseDuration = 15 * time.Second
)

// nodeLeases are the leases of kubelets.
const nodeLeases = "metadata.namespace!=kube-node-lease"

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
func (w *World) SetLeases(list []coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Now()
	fresh := func() (names []string) {
		for _, key := range slices.Sorted(maps.Keys(w.leases)) {
			if l := w.leases[key]; w.fresh(l) {
				names = append(names, key+" "+l.holder)
			}
		}
		return names
	}
	before := w.freshLeases
	leases := map[string]lease{}
	for _, o := range list {
		l := lease{
			namespace: o.Namespace, name: o.Name, holder: ptrOr(o.Spec.HolderIdentity, ""),
			renewed:  ptrOr(o.Spec.RenewTime, metav1.MicroTime{}).Time,
			duration: max(time.Duration(ptrOr(o.Spec.LeaseDurationSeconds, 0))*time.Second, leaseDuration),
			observed: now,
		}
		if l.holder == "" || l.renewed.IsZero() {
			continue // given up
		}
		if known, again := w.leases[l.String()]; again {
			l.moved = known.moved || !known.renewed.Equal(l.renewed)
			if known.renewed.Equal(l.renewed) {
				l.observed = known.observed
			}
		}
		leases[l.String()] = l
	}
	w.leases = leases
	w.freshLeases = fresh()
	w.ownersDirty = w.ownersDirty || !slices.Equal(before, w.freshLeases)
}

// fresh tells whether the holder of a lease is up.
func (w *World) fresh(l lease) bool {
	now := w.options.Now()
	if now.Sub(l.observed) > l.duration+leaseSlack {
		return false
	}
	return l.moved || now.Sub(l.renewed).Abs() <= l.duration+leaseSkew
}

// leader is a fresh lease that is named after an API group, as controllers name
// theirs (kubebuilder, pkg/plugins/golang/v4/scaffolds: LeaderElectionID is
// HASH.DOMAIN): after the group itself, or the domain that it alone is under.
func (w *World) leader(group string) (lease, bool) {
	if !strings.Contains(group, ".") {
		return lease{}, false // of Kubernetes itself
	}
	domains := []string{group}
	if _, domain, _ := strings.Cut(group, "."); strings.Contains(domain, ".") {
		siblings := 0
		for g := range w.groups {
			if g == domain || strings.HasSuffix(g, "."+domain) {
				siblings++
			}
		}
		if siblings == 1 {
			domains = append(domains, domain)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.leases)) {
		l := w.leases[key]
		named := slices.ContainsFunc(domains, func(d string) bool { return l.name == d || strings.HasSuffix(l.name, "."+d) })
		if named && w.fresh(l) && !w.abandoned(l) {
			return l, true
		}
	}
	return lease{}, false
}

// abandoned tells whether the pod that holds a lease is gone or going: it may not
// have given it up. A holder is "POD_UID"
// (controller-runtime, pkg/leaderelection).
func (w *World) abandoned(l lease) bool {
	holder, _, _ := strings.Cut(l.holder, "_")
	if p, runs := w.running[l.namespace+"/"+holder]; runs {
		return p.goes
	}
	for _, wl := range w.workloads {
		if wl.namespace == l.namespace && strings.HasPrefix(holder, wl.name+"-") {
			return true
		}
	}
	return false
}

// leading tells which fresh lease a pod holds, given as "namespace/name"; "" if
// it holds none.
func (w *World) leading(pod string) string {
	namespace, name, _ := strings.Cut(pod, "/")
	for _, key := range slices.Sorted(maps.Keys(w.leases)) {
		l := w.leases[key]
		if holder, _, _ := strings.Cut(l.holder, "_"); l.namespace == namespace && holder == name && w.fresh(l) {
			return fmt.Sprintf("pod %s renews lease %s", pod, l)
		}
	}
	return ""
}

// readLeases lists leases into the facts.
func (w *World) readLeases(ctx context.Context, client typedcoordinationv1.LeasesGetter) error {
	var all []coordinationv1.Lease
	options := metav1.ListOptions{FieldSelector: nodeLeases, Limit: pageSize}
	for range leasePages {
		list, err := client.Leases(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list leases: %w", err)
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	w.SetLeases(all)
	return nil
}
