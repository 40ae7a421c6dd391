package ownership

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/termguard/termguard/cluster/learned"
)

// outsideFresh is how long an identity outside the cluster counts as up: only its last removal shows it.
const outsideFresh = 24 * time.Hour

type witness struct {
	owner   string
	account string
	alive   string
	down    *judgement // they are in the cluster, and none runs
	outside string     // outside the cluster, not seen lately
	gone    string     // no longer exists
	barred  string     // up and no longer able
	// sure says that administrators vouch for all that are down, barred or gone.
	sure bool
}

// witnessOf evaluates the identities seen to remove a finalizer; CSI sidecars only if they may serve driver,
// "" for any.
func (p *Part) witnessOf(q *question, driver string) witness {
	all := witness{sure: true}
	now := p.options.Now()
	for _, o := range p.Learned(q.finalizer, q.resource, q.namespace) {
		did := fmt.Sprintf("%s removed it from %d %s, last on %s", who(o), o.Objects, plural(o.Objects, "object"), date(o.Last))
		name := o.Account()
		switch {
		case name != "" && driver != "" && p.servesOthers(name, driver):
		case name != "" && p.readyPod(name) != "":
			owner := "controller under service account " + name
			why := p.whyUnable(o, q.verdictKey)
			if why == "" {
				all.barred, all.account, all.owner = "", name, owner
				all.alive = fmt.Sprintf("%s, and pod %s is ready under it", did, p.readyPod(name))
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
				all.outside = did + ", from outside the cluster: whether it still runs is unknown"
			}
		case p.exists(name):
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
			all.gone = cmp.Or(all.gone, did+", and that service account does not exist")
		}
	}
	return all
}

// trusted reports whether an account that no longer removes a finalizer is certainly its owner: administrators
// gave it the right everywhere and a workload, and no other account runs its images, as after a migration.
func (p *Part) trusted(o learned.Owner, q *question) bool {
	account := o.Account()
	own := p.workloadsWhere(func(wl workload) bool { return wl.account == account })
	for _, wl := range own {
		if len(p.workloadsWhere(func(other workload) bool {
			shares := slices.ContainsFunc(other.images, func(image string) bool { return slices.Contains(wl.images, image) })
			return other.replicas > 0 && other.account != account && shares && p.admits(q, other.account)
		})) > 0 {
			return false
		}
	}
	return o.Everywhere && len(own) > 0
}

func (p *Part) whyUnable(o learned.Owner, key verdictKey) string {
	if !p.exists(o.Account()) && p.hidden("serviceaccounts") == "" {
		return "that service account does not exist, so the tokens of its pods are refused"
	}
	if o.Everywhere && !p.mayRemove(subjectsOf(o.Account()), key) && !p.hidesGrants() {
		return "no role lets it update " + key.resource + " any more"
	}
	return ""
}

func (p *Part) idle(account string) judgement {
	runs := p.workloadsWhere(func(wl workload) bool { return wl.account == account })
	if len(runs) == 0 {
		proof, sure := p.whyIdle(account)
		return judgement{}.is(Down, sure, "service account %s %s", account, proof)
	}
	return p.judgeDown(judgement{}, runs)
}

// byLearning is the hearsay of observations: requests create them, and a ConfigMap keeps them.
const byLearning = "observed requests"

// weigh adds observations to the other evidence. A seen identity that is down is the owner, certainly only if
// the other evidence agrees (a user who may remove a finalizer once can make itself seen), or if
// administrators vouch for it and there is none. One outside the cluster is never absent. A deleted one proves
// nothing if others may remove it: its successor may have another name.
func (p *Part) weigh(q *question, inferred judgement) judgement {
	seen, j := q.witness, q.base
	blind := p.blind() != ""
	switch {
	case seen.barred != "" && (inferred.state != Alive || p.actsAs(inferred, seen.account)):
		j.owner, j.workloads = cmp.Or(j.owner, seen.owner), p.workloadsUnder(seen.account)
		alone := seen.down == nil && seen.outside == "" && (inferred.hearsay == "" || inferred.hearsay == byLearning) &&
			slices.Contains([]string{Absent, Alive, Barred}, inferred.state)
		return j.is(Barred, seen.sure && alone, "%s", seen.barred)
	case seen.down != nil && !blind:
		down := *seen.down
		down.clears = j.clears
		if j.owner != "" {
			down.owner = j.owner
		}
		if inferred.state == Alive || inferred.circumstantial {
			down.evidence = append(down.evidence, inferred.evidence...)
		}
		down.certain = down.certain && (inferred.certain && (inferred.state == Down || inferred.state == Absent) || seen.sure && inferred.state == Absent)
		down.hearsay = inferred.hearsay
		if slices.ContainsFunc(down.idle, func(wl workload) bool {
			return !slices.ContainsFunc(inferred.idle, func(other workload) bool { return wl.String() == other.String() })
		}) {
			down.hearsay = byLearning
		}
		if seen.outside != "" {
			return down.is(Unknown, false, "%s", seen.outside)
		}
		return down
	case seen.outside != "" && inferred.state != Alive:
		return inferred.is(Unknown, false, "%s", seen.outside)
	case seen.gone != "" && inferred.state == Absent:
		inferred.evidence = append(inferred.evidence, seen.gone)
		if seen.sure && !p.anyMay(q.verdictKey) {
			inferred = inferred.is(Absent, true, "no running software may update %s", q.resource)
		}
	}
	return inferred
}

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
