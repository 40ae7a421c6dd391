package ownership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/termguard/termguard/cluster/learned"
)

// outsideFresh is how long somebody outside the cluster counts as up after the last
// removal of a finalizer; nothing else shows whether it runs.
const outsideFresh = 24 * time.Hour

// witness is what those who were seen to remove a finalizer tell about it.
type witness struct {
	owner   string
	account string     // service account of the owner, if it is one
	alive   string     // why it is removed: one of them is up
	down    *judgement // why it is not: they are here, and none runs
	outside string     // one who is not here was seen, and not lately
	gone    string     // one who was here is gone
	barred  string     // one who is up cannot do it any more, for what reason
	// sure says of all who are down, barred or gone that administrators vouch for them.
	sure bool
}

// witness asks about everybody who was seen to remove a finalizer: of CSI sidecars, those that
// may serve the driver in question, "" if that does not matter.
func (p *Part) witness(q *asked, driver string) witness {
	all := witness{sure: true}
	now := p.options.Now()
	for _, o := range p.Learned(q.finalizer, q.resource, q.namespace) {
		did := fmt.Sprintf("%s was seen to remove it from %d %s, last on %s", who(o), o.Objects, objectsWord(o.Objects), date(o.Last))
		name := o.Account()
		a := p.accounts[name]
		switch {
		case name != "" && driver != "" && p.servesOthers(name, driver):
		case name != "" && a != nil && p.readyPod(a) != "":
			owner := "controller under service account " + name
			why := p.unable(o, a, q.verdictKey)
			if why == "" {
				all.barred, all.account, all.owner = "", name, owner
				all.alive = fmt.Sprintf("%s, and pod %s is ready under it", did, p.readyPod(a))
				return all
			}
			all.sure = all.sure && p.trusted(o, q)
			if all.barred == "" {
				all.account, all.owner, all.barred = name, owner, did+", and "+why
			}
		case name == "" || o.Outside:
			if now.Sub(o.Last) <= outsideFresh {
				all.owner, all.alive = who(o)+" outside the cluster", did+", from outside the cluster"
				return all
			}
			if all.outside == "" {
				all.outside = did + ", from outside the cluster: whether it still runs, the cluster does not tell"
			}
		case a != nil && a.exists:
			all.sure = all.sure && p.trusted(o, q)
			j := p.idle(name)
			j.evidence = slices.Insert(j.evidence, 0, did)
			j.owner = "controller under service account " + name
			if all.down != nil {
				j.certain = j.certain && all.down.certain
				j.evidence = append(all.down.evidence, j.evidence...)
			}
			all.down = &j
		default:
			all.sure = all.sure && o.Everywhere
			all.gone = cmp.Or(all.gone, did+", and that service account is gone")
		}
	}
	return all
}

// trusted tells whether an account that was seen to remove a finalizer, and does not any
// more, is surely its owner: administrators gave it the right everywhere and a workload,
// none of which another runs as well, as after a move to another account.
func (p *Part) trusted(o learned.Owner, q *asked) bool {
	account, works := o.Account(), false
	for _, wl := range p.workloads {
		if wl.account != account {
			continue
		}
		works = true
		if len(p.workloadsWhere(func(other workload) bool {
			shares := slices.ContainsFunc(other.images, func(image string) bool { return slices.Contains(wl.images, image) })
			return other.account != account && shares && p.admits(q, other.account)
		})) > 0 {
			return false
		}
	}
	return o.Everywhere && works
}

// unable tells why somebody who was seen to remove a finalizer, and runs, cannot do it any
// more: the API server refuses the tokens of a service account that is gone, and the right
// that it had in all namespaces nothing gives it any more. "" if it still can.
func (p *Part) unable(o learned.Owner, a *account, key verdictKey) string {
	if _, hidden := p.options.Sight.Hidden("serviceaccounts"); !a.exists && !hidden {
		return "that service account is gone, so the tokens of its pods are refused"
	}
	if o.Everywhere && !p.mayTake(subjectsOf(o.Account()), key) && !p.hidesGrants() {
		return "no role lets it update " + key.resource + " any more"
	}
	return ""
}

// idle judges a service account under which nothing is ready.
func (p *Part) idle(account string) judgement {
	var runs []workload // those that are scaled to zero with them
	for _, key := range slices.Sorted(maps.Keys(p.workloads)) {
		if wl := p.workloads[key]; wl.account == account {
			runs = append(runs, wl)
		}
	}
	if len(runs) == 0 {
		proof, sure := p.whyIdle(account)
		return judgement{}.is(Down, sure, "service account %s %s", account, proof)
	}
	return p.judgeDown(judgement{}, runs)
}

// byLearning is a lesson: requests teach them, and a ConfigMap keeps them.
const byLearning = "what was learned from requests"

// weigh sets what was seen against what is surmised without it. Whoever was
// seen and does not run is the owner; that is certain only where what is known
// without it says as much, since who may remove a finalizer once can make itself
// seen, or where administrators vouch for it and nothing else is known. Who is outside
// the cluster is never called absent, and who is gone proves nothing, as its successor may
// have another name, unless nobody is left who may do it.
func (p *Part) weigh(q *asked, surmised judgement) judgement {
	seen, j := q.seen, q.base
	blind := p.blind() != ""
	switch {
	case seen.barred != "" && (surmised.state != Alive || p.actsAs(surmised, seen.account)):
		j.owner, j.workloads = cmp.Or(j.owner, seen.owner), p.workloadsUnder(seen.account)
		alone := seen.down == nil && seen.outside == "" && (surmised.hearsay == "" || surmised.hearsay == byLearning) &&
			slices.Contains([]string{Absent, Alive, Barred}, surmised.state)
		return j.is(Barred, seen.sure && alone, "%s", seen.barred)
	case seen.down != nil && !blind:
		down := *seen.down
		down.clears = j.clears
		if j.owner != "" {
			down.owner = j.owner
		}
		if surmised.state == Alive || surmised.circumstantial {
			down.evidence = append(down.evidence, surmised.evidence...)
		}
		down.certain = down.certain && (surmised.certain && (surmised.state == Down || surmised.state == Absent) || seen.sure && surmised.state == Absent)
		down.hearsay = surmised.hearsay
		if slices.ContainsFunc(down.idle, func(wl workload) bool {
			return !slices.ContainsFunc(surmised.idle, func(other workload) bool { return wl.String() == other.String() })
		}) {
			down.hearsay = byLearning
		}
		if seen.outside != "" {
			return down.is(Unknown, false, "%s", seen.outside)
		}
		return down
	case seen.outside != "" && surmised.state != Alive:
		return surmised.is(Unknown, false, "%s", seen.outside)
	case seen.gone != "" && surmised.state == Absent:
		surmised.evidence = append(surmised.evidence, seen.gone)
		if seen.sure && !p.anyMay(q.verdictKey) {
			surmised = surmised.is(Absent, true, "nothing runs here that may update %s", q.resource)
		}
	}
	return surmised
}

// actsAs tells whether all that speaks for somebody runs under a service account.
func (p *Part) actsAs(j judgement, account string) bool {
	return len(j.workloads) > 0 && !slices.ContainsFunc(j.workloads, func(wl workload) bool { return wl.account != account })
}

func who(o learned.Owner) string {
	if account := o.Account(); account != "" {
		return "service account " + account
	}
	return "user " + o.Identity
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func objectsWord(n int) string {
	if n == 1 {
		return "object"
	}
	return "objects"
}
