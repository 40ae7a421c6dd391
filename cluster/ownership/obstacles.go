package ownership

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

type obstacle struct {
	catalog.Obstacle
	release string // "IMAGE:TAG", or "Kubernetes VERSION"; "" if all are affected
}

func (p *Part) releasesOf(spec corev1.PodSpec) []string {
	var releases []string
	for _, c := range spec.Containers {
		if p.affected[catalog.ImageName(c.Image)] {
			releases = append(releases, c.Image)
		}
	}
	return releases
}

func (p *Part) withObstacles(q *question, j judgement) judgement {
	if j.state != Alive {
		return j
	}
	if q.object.paused != "" {
		j.obstacles = append(j.obstacles, paused(q.object.paused))
	}
	if !q.catalogued {
		return j
	}
	j.unsure = q.entry.Sure != nil && !p.sure(*q.entry.Sure, q, j)
	for _, f := range q.entry.ObstaclesOf(q.resource) {
		if slices.Contains(q.object.spares, f.ID) {
			continue
		}
		if release := p.releaseWith(f, q, j); release != "" || f.Affected == "" {
			j.obstacles = append(j.obstacles, obstacle{f, release})
		}
	}
	return j
}

func (p *Part) releaseWith(f catalog.Obstacle, q *question, j judgement) string {
	if f.Image == "" {
		if f.In(p.version) {
			return "Kubernetes " + p.version
		}
		return ""
	}
	for _, wl := range p.runningImage(f.Image, q, j) {
		for _, ref := range wl.releases {
			if catalog.ImageName(ref) == f.Image && f.In(catalog.Tag(ref)) && (f.Right == nil || p.lacks(wl.account, *f.Right)) {
				return f.Image + ":" + catalog.Tag(ref)
			}
		}
	}
	return ""
}

// runningImage returns the owner's workloads that run an image, or else any that are evidence.
func (p *Part) runningImage(image string, q *question, j judgement) []workload {
	runs := func(wl workload) bool {
		return slices.ContainsFunc(wl.releases, func(ref string) bool { return catalog.ImageName(ref) == image })
	}
	where := slices.DeleteFunc(slices.Concat(j.workloads, q.matched), func(wl workload) bool { return !runs(wl) })
	if len(where) == 0 {
		where = p.workloadsWhere(func(wl workload) bool { return wl.replicas > 0 && runs(wl) && p.admits(q, wl.account) })
	}
	return where
}

func (p *Part) sure(of catalog.Set, q *question, j judgement) bool {
	where := p.runningImage(of.Image, q, j)
	for _, wl := range where {
		for _, ref := range wl.releases {
			if catalog.ImageName(ref) == of.Image && !of.By(ref, nil) {
				return false
			}
		}
	}
	return len(where) > 0
}

// lacks reports whether RBAC certainly gives a service account no such right everywhere.
func (p *Part) lacks(account string, right catalog.Right) bool {
	return !p.options.Manifests && !p.hidesGrants() && !anyOf(p.rolesWhere(subjectsOf(account), "", func(r role) bool {
		return slices.ContainsFunc(r.grants, func(g grant) bool {
			return g.subresource == "" && g.covers(right.Resource) && slices.Contains(g.verbs, right.Verb)
		})
	}))
}

func obstacleFacts(obstacles []obstacle) []any {
	slices.SortFunc(obstacles, func(a, b obstacle) int { return cmp.Compare(a.ID, b.ID) })
	list := make([]any, len(obstacles))
	for i, f := range obstacles {
		one := map[string]any{"id": f.ID, "release": f.release, "symptom": f.Symptom, "affected": f.Affected, "mend": f.Mend, "source": f.Source}
		facts.Set(one, "lacks", f.Lacks, f.Lacks != "")
		facts.Set(one, "withNamespace", true, f.WithNamespace)
		if f.Right != nil {
			one["right"] = map[string]any{"verb": f.Right.Verb, "resource": f.Right.Resource}
		}
		list[i] = one
	}
	return list
}
