package ownership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

type question struct {
	verdictKey
	object     evidence
	entry      catalog.Entry
	catalogued bool
	custom     bool
	// named says that the catalog names the owner's workloads: without them in manifests, another's rights do
	// not make it the owner.
	named bool
	// sidecar says that only a CSI sidecar of the object's driver removes it: another controller may set the
	// finalizer (github.com/kubernetes-csi/external-snapshotter).
	sidecar bool
	// foreign says that the finalizer belongs to software with other kinds.
	foreign bool
	witness witness
	matched []workload // by the catalog entry
	made    []workload // together with the definition
	// namesakes look like matched, and are no evidence.
	namesakes []workload
	// unread is an account that would be evidence if another authorizer than RBAC gives it rights.
	unread string
	// outsider describes a lease whose holder is no pod, or is "".
	outsider string
	// live may update the resource and run, idle control it and run nothing.
	live, idle []grantee
	base       judgement
}

func (q *question) ofSidecars() bool {
	return q.named && !slices.ContainsFunc(q.entry.Workloads, func(w catalog.Workload) bool { return !isSidecar(w.Image) })
}

// source completes an empty judgement, or returns one without a state.
type source struct {
	name  string
	judge func(p *Part, q *question, empty judgement) judgement
}

// sources are evaluated in order, strongest first, until one answers. inferences ignore seen identities: weigh
// adds the ones that do not run.
var (
	sources = []source{
		{"Kubernetes itself", (*Part).judgeKubernetes},
		{"a declaration", (*Part).judgeDeclaration},
		{"who was seen", (*Part).judgeSeen},
	}
	inferences = []source{
		{"workloads of the catalog", (*Part).judgeWorkloads},
		{"images of the catalog", (*Part).judgeImages},
		{"field managers", (*Part).judgeManagers},
		{"the owner of the definition", (*Part).judgeDefinition},
		{"the maker of the definition", (*Part).judgeMaker},
		{"permissions", (*Part).judgePermissions},
		{"leases", (*Part).judgeLeases},
		// From here on no running owner is known.
		{"manifests", (*Part).judgeManifests},
		{"what is hidden", (*Part).judgeHidden},
		{"workloads that are down", (*Part).judgeUnready},
		{"candidates", (*Part).judgeCandidates},
		{"API groups", (*Part).judgeGroups},
		{"service accounts that run nothing", (*Part).judgeIdle},
		{"nobody", (*Part).judgeNobody},
	}
)

func (p *Part) judge(key verdictKey, e evidence) judgement {
	q := p.questionOf(key, e)
	return p.withObstacles(q, p.withRights(q, p.withMakers(q, p.withCrashes(p.consult(q)))))
}

func (p *Part) questionOf(key verdictKey, e evidence) *question {
	entry, catalogued := p.options.Catalog.Lookup(key.finalizer, key.resource)
	custom := p.Defined(key.resource)
	q := &question{
		verdictKey: key, object: e, entry: entry, catalogued: catalogued,
		custom: custom, named: catalogued && len(entry.Workloads) > 0, foreign: catalogued && entry.Foreign(key.resource),
		base: judgement{owner: entry.Owner, clears: entry.Clears, creates: entry.Creates, drains: entry.Drains},
	}
	q.sidecar = e.driver != "" && !p.options.Manifests && q.ofSidecars()
	if e.spared {
		q.base.creates = ""
	}
	q.matched, q.namesakes = p.matching(q)
	return q
}

func (p *Part) consult(q *question) judgement {
	if j := p.first(sources, q); j.state != "" {
		return j
	}
	q.live, q.idle = p.mayControl(q.resource, q.namespace)
	q.made = p.madeWith(q)
	inferred := p.withCrashes(p.withOutlook(q.namespace, p.first(inferences, q))) // the last one always answers
	if q.outsider != "" && inferred.state != Alive {
		inferred.certain, inferred.evidence = false, append(inferred.evidence, q.outsider)
		if inferred.state == Absent {
			inferred.state = Unknown
		}
	}
	return p.weigh(q, inferred)
}

func (p *Part) mayControl(resource, namespace string) (live, idle []grantee) {
	for _, c := range p.mayUpdate(resource, namespace) {
		switch {
		case p.readyPod(c.account) != "":
			live = append(live, c)
		case p.exists(c.account) && c.controls:
			idle = append(idle, c)
		}
	}
	return live, idle
}

func (p *Part) first(sources []source, q *question) (j judgement) {
	for i := 0; i < len(sources) && j.state == ""; i++ {
		j = sources[i].judge(p, q, q.base)
	}
	return j
}

func (p *Part) judgeDeclaration(q *question, j judgement) judgement {
	declared := cmp.Or(p.options.Owners[q.finalizer], q.object.declared)
	if declared == "" {
		return judgement{}
	}
	j.hearsay, j.declared = "a declaration of the owner", p.options.Owners[q.finalizer] == ""
	if declared == "external" {
		j.owner = "external controller"
		return j.is(Alive, true, "it is declared to run outside the cluster")
	}
	parts := strings.Split(declared, "/")
	if len(parts) != 3 {
		return j.is(Unknown, false, "its declared owner is %q, which is not KIND/NAMESPACE/NAME", declared)
	}
	one := p.workloadsWhere(func(wl workload) bool {
		return strings.EqualFold(wl.kind, parts[0]) && wl.namespace == parts[1] && wl.name == parts[2]
	})
	if len(one) == 1 {
		j.owner = one[0].String()
		if p.up(one[0]) {
			j.workloads = one
			return j.is(Alive, true, "declared owner %s", p.runs(one[0]))
		}
		return p.judgeDown(j, one)
	}
	if blind := p.blind(); blind != "" {
		return j.is(Unknown, false, "unseen: %s", blind)
	}
	j.owner = declared
	return j.is(Absent, true, "declared owner %s does not exist", declared)
}

func (p *Part) judgeKubernetes(q *question, j judgement) judgement {
	if !q.catalogued || !q.entry.BuiltIn() {
		return judgement{}
	}
	j.seen = true
	return j.is(Alive, true, "it is built into the %s", q.entry.Component)
}

func (p *Part) judgeSeen(q *question, j judgement) judgement {
	driver := ""
	if q.sidecar {
		driver = q.object.driver
	}
	q.witness = p.witnessOf(q, driver)
	if q.witness.alive == "" {
		return judgement{}
	}
	j.owner, j.workloads, j.seen = cmp.Or(j.owner, q.witness.owner), p.workloadsUnder(q.witness.account), true
	return j.is(Alive, true, "%s", q.witness.alive)
}

func (p *Part) judgeWorkloads(q *question, j judgement) judgement {
	matched := q.matched
	if q.sidecar {
		matched = slices.DeleteFunc(slices.Clone(matched), func(wl workload) bool { return p.servesOthers(wl.account, q.object.driver) })
	}
	if wl, ok := p.firstUp(matched, q.namespace); ok {
		j.workloads = []workload{wl}
		return j.is(Alive, true, "%s", p.runs(wl))
	}
	return judgement{}
}

// firstUp prefers workloads that watch a namespace: an operator may run once per namespace.
func (p *Part) firstUp(list []workload, namespace string) (first workload, ok bool) {
	for _, wl := range list {
		if p.up(wl) && wl.watches(namespace) {
			return wl, true
		}
		if p.up(wl) && !ok {
			first, ok = wl, true
		}
	}
	return first, ok
}

func (p *Part) runs(wl workload) string {
	if p.options.Manifests {
		return wl.String() + " is among the manifests"
	}
	return fmt.Sprintf("%s has %d ready %s", wl, wl.ready, plural(int(wl.ready), "pod"))
}

func (p *Part) judgeImages(q *question, j judgement) judgement {
	for _, w := range q.entry.Workloads {
		if q.object.driver != "" && isSidecar(w.Image) && !p.options.Manifests {
			if j, decided := p.judgeSidecar(q, w.Image); decided {
				return j
			}
			continue
		}
		if n := p.readyImage(q, w.Image); w.Image != "" && n > 0 {
			j.workloads = p.workloadsWhere(func(wl workload) bool {
				return wl.replicas > 0 && slices.Contains(wl.images, w.Image) && p.admits(q, wl.account)
			})
			if p.options.Manifests {
				return j.is(Alive, true, "the manifests run image %s", w.Image)
			}
			return j.is(Alive, true, "%d ready %s of image %s", n, plural(n, "pod"), w.Image)
		}
	}
	if q.object.driver == "" && q.unread == "" && q.ofSidecars() && !p.options.Manifests && len(p.installedDrivers()) == 0 && p.driversHidden() == "" {
		return j.is(Absent, true, "no CSI driver is installed: no CSIDriver, no node where one is registered, and no ready %s", q.entry.Workloads[0].Image)
	}
	return judgement{}
}

func (p *Part) judgeManagers(q *question, j judgement) judgement {
	managers := q.object.managers
	if q.sidecar { // by its own image name, whatever a distribution calls it
		managers = slices.DeleteFunc(slices.Clone(managers), func(m string) bool {
			return !slices.ContainsFunc(q.entry.Workloads, func(w catalog.Workload) bool { return w.Image == m })
		})
	}
	for _, c := range q.live {
		if manager := p.managed(c, managers); manager != "" {
			j.workloads = p.workloadsUnder(c.account)
			return j.is(Alive, true, "field manager %q wrote the finalizer, and pod %s runs under service account %s, which may update %s",
				manager, p.readyPod(c.account), c.account, q.resource)
		}
	}
	// An account that may update everything may also have applied the object: then another wrote the status.
	both := slices.DeleteFunc(slices.Clone(managers), func(m string) bool { return !slices.Contains(q.object.status, m) })
	for _, account := range slices.Sorted(maps.Keys(p.podsOf)) {
		if len(both) == 0 {
			break
		}
		if manager := p.managed(grantee{account: account}, both); manager != "" && p.mayRemove(subjectsOf(account), q.verdictKey) {
			j.workloads, j.circumstantial = p.workloadsUnder(account), true
			return j.is(Alive, true, "field manager %q wrote the finalizer and the status, and pod %s runs under service account %s, which may update %s",
				manager, p.readyPod(account), account, q.resource)
		}
	}
	return judgement{}
}

// judgeDefinition answers if a ready workload has the definition's owner: a package manager created both.
func (p *Part) judgeDefinition(q *question, j judgement) judgement {
	if wl, ok := p.firstUp(q.made, q.namespace); ok {
		j.owner, j.workloads = cmp.Or(j.owner, wl.String()), []workload{wl}
		return j.is(Alive, true, "%s; it and the definition of %s belong to %s", p.runs(wl), q.resource, wl.owner.what)
	}
	return judgement{}
}

// madeWith returns the workloads of the definition's controller that control the resource. Rights alone do not
// suffice: Crossplane shares them in a family of providers
// (github.com/crossplane/crossplane:internal/controller/rbac/provider/roles/reconciler.go).
func (p *Part) madeWith(q *question) []workload {
	made := p.definition(q.resource).controller
	if made == "" || q.foreign {
		return nil
	}
	accounts := map[string]bool{}
	for _, c := range slices.Concat(q.live, q.idle) {
		accounts[c.account] = accounts[c.account] || c.controls
	}
	return p.workloadsWhere(func(wl workload) bool { return wl.owner.uid == made && accounts[wl.account] })
}

// judgePermissions answers if a single account controls a custom resource: a kind's controller clears its own
// finalizers, not other software's.
func (p *Part) judgePermissions(q *question, j judgement) judgement {
	if !q.custom || q.foreign || q.sidecar || len(q.made) > 0 || p.options.Manifests && q.named {
		return judgement{}
	}
	account, named := q.onlyController()
	if account == "" || !named && !p.leads(account, q.resource) {
		return judgement{}
	}
	j.owner = cmp.Or(j.owner, "controller under service account "+account)
	j.workloads, j.circumstantial = p.workloadsUnder(account), true
	if p.options.Manifests {
		return j.is(Alive, true, "service account %s may update %s and its status, and the manifests run it", account, q.resource)
	}
	return j.is(Alive, true, "service account %s may update %s and its status, and pod %s is ready under it",
		account, q.resource, p.readyPod(account))
}

// onlyController returns "" if several control the resource or an idle one does: a running one may be its
// mere helper. named says that a role names the resource.
func (q *question) onlyController() (account string, named bool) {
	for _, c := range q.live {
		switch {
		case !c.controls:
		case account != "" && account != c.account, len(q.idle) > 0:
			return "", false
		default:
			account, named = c.account, named || !c.whole
		}
	}
	return account, named
}

// leads reports whether an account with rights to a whole group is its controller's: unlike Cluster API's
// core, it may update no other custom group, and unlike mere helpers, it elects a leader.
func (p *Part) leads(account, resource string) bool {
	group := facts.GroupOf(resource)
	return !anyOf(p.rolesWhere([]string{account}, "", func(r role) bool {
		return slices.ContainsFunc(r.grants, func(g grant) bool {
			return !g.wide && facts.GroupOf(g.resource) != group && strings.Contains(facts.GroupOf(g.resource), ".") && facts.Custom(facts.GroupOf(g.resource))
		})
	})) && slices.ContainsFunc(p.workloadsUnder(account), func(wl workload) bool {
		l, elects := p.election(wl)
		return elects && p.fresh(l)
	})
}

// judgeLeases answers if the holder of a lease named after the API group runs, and may update the resource: a
// lease outlives its holder.
func (p *Part) judgeLeases(q *question, j judgement) judgement {
	if !q.custom || q.foreign || len(q.matched)+len(q.made) > 0 {
		return judgement{}
	}
	group := facts.GroupOf(q.resource)
	for _, l := range p.leasesNamed(group) {
		key, pod := p.holder(l)
		switch {
		case !p.counts(l, key.Namespace, pod, q):
		case p.outside(l):
			j.circumstantial = true
			j.owner = cmp.Or(j.owner, "holder of lease "+l.String())
			return j.is(Alive, true, "lease %s, named after API group %s, is held by %s, which renews it from outside the cluster", l, group, l.holder)
		case pod == nil && p.isOutsider(l) && !p.outlivesHolder(l, q):
			q.outsider = fmt.Sprintf("lease %s, named after API group %s, is held by %s, which is not a pod here: whether it still runs is unknown", l, group, l.holder)
		case pod != nil && p.serves(key.Namespace, pod.Value) && p.admits(q, pod.Value.account):
			j.circumstantial = true
			j.owner = cmp.Or(j.owner, "holder of lease "+l.String())
			j.workloads = p.workloadsUnder(pod.Value.account)
			return j.is(Alive, true, "lease %s, named after API group %s, is held by pod %s, which is ready", l, group, key)
		}
	}
	return judgement{}
}

func (p *Part) judgeManifests(q *question, j judgement) judgement {
	switch {
	case !p.options.Manifests:
		return judgement{}
	case len(q.matched) > 0 && (p.options.Others == nil || !slices.ContainsFunc(q.entry.Workloads, p.options.Others)):
		j = p.judgeDown(j, q.matched)
		j.certain = false // a user may scale it up again
		return j
	case len(q.live) > 0 && !q.named:
		return j.is(Alive, false, "%s may update %s", accounts(q.live), q.resource)
	}
	if j.owner == "" {
		j.owner = guessOwner(q.resource, q.finalizer)
	}
	if p.options.Owner != nil {
		j.owner = p.options.Owner(q.finalizer, q.resource, j.owner)
	}
	return j.is(Unasked, false, "no workload among the manifests removes it: its owner may be installed separately")
}

func (p *Part) judgeHidden(q *question, j judgement) judgement {
	if blind := p.blind(); blind != "" {
		return j.is(Unknown, false, "unseen: %s", blind)
	}
	if q.unread != "" {
		return j.is(Unknown, false, "RBAC does not show whether service account %s may update %s", q.unread, q.resource)
	}
	return judgement{}
}

func (p *Part) judgeUnready(q *question, j judgement) judgement {
	workloads := q.matched
	if len(workloads) == 0 {
		workloads = q.made
	}
	if len(workloads) == 0 {
		return judgement{}
	}
	j.owner = cmp.Or(j.owner, workloads[0].String())
	everywhere := q.verdictKey
	everywhere.namespace = ""
	if account := workloads[0].account; !q.names(workloads[0].namespace) && !p.mayRemove(subjectsOf(account), everywhere) {
		j.hearsay = byBinding
	}
	j = p.judgeDown(j, workloads)
	others := slices.DeleteFunc(p.candidates(q), func(c grantee) bool { return slices.Contains(accountsFor(q, j), c.account) })
	if j.certain && len(q.matched) > 0 && len(others) > 0 {
		return j.is(Down, false, "%s may update %s too, and may be the owner under another name", accounts(others), q.resource)
	}
	return j
}

// byBinding is the hearsay of a right in one namespace: its administrator may give rights there to any
// account, also of other namespaces.
const byBinding = "a RoleBinding of the namespace"

func (p *Part) judgeCandidates(q *question, j judgement) judgement {
	candidates := p.candidates(q)
	if len(candidates) == 0 {
		return judgement{}
	}
	j.circumstantial = true
	if account, _ := q.onlyController(); account != "" {
		// Without the likeliest owner it may hang: policies report that about its workloads.
		j.workloads = p.workloadsUnder(account)
	}
	return j.is(Unknown, false, "%s may update %s: whether one of them removes the finalizer is unknown", accounts(candidates), q.resource)
}

// candidates is empty for a built-in kind with an owner in the catalog: many may update it.
func (p *Part) candidates(q *question) []grantee {
	if !q.custom && q.catalogued {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(q.live), func(c grantee) bool { return p.cleansOthers(q, c) })
}

// cleansOthers reports whether a candidate casts no doubt on the catalog's owner: it runs only images of other
// finalizers' owners, and may update the whole group (Cluster API's core beside an uninstalled provider), or
// the owner is a CSI sidecar that was seen here (beside the snapshot controller).
func (p *Part) cleansOthers(q *question, c grantee) bool {
	ran := q.sidecar && (q.witness.down != nil || q.witness.barred != "")
	if !ran && (!q.named || q.entry.Component != catalog.InCluster || !c.whole) {
		return false
	}
	cleaners := p.cleaners()
	for pod := range p.podsOf[c.account].All() {
		if !slices.ContainsFunc(pod.Value.imageNames(), func(image string) bool {
			inside, catalogued := cleaners[image]
			return inside && !ran || ran && catalogued && !isSidecar(image)
		}) {
			return false
		}
	}
	return true
}

// cleanersOf returns the catalog's images that remove finalizers, and whether in the cluster.
func cleanersOf(c *catalog.Catalog) map[string]bool {
	names := map[string]bool{}
	for _, e := range c.Entries() {
		for _, w := range e.Workloads {
			if !catalog.Generic(w.Image) { // nor empty
				names[w.Image] = names[w.Image] || e.Component == catalog.InCluster
			}
		}
	}
	return names
}

func (p *Part) judgeGroups(q *question, j judgement) judgement {
	if q.catalogued && q.entry.CRDGroup != "" && !p.options.Sight.Serves(q.entry.CRDGroup) {
		return j.is(Absent, true, "API group %s, which it needs, is not served", q.entry.CRDGroup)
	}
	for _, owner := range q.object.owners {
		if _, group, named := strings.Cut(owner, "."); named && !p.options.Sight.Serves(group) {
			j.hearsay = "an owner reference of the object"
			return j.is(Absent, true, "the object is owned by a %s, and API group %s is not served", owner, group)
		}
	}
	return judgement{}
}

func (p *Part) judgeIdle(q *question, j judgement) judgement {
	if !q.custom || len(q.idle) == 0 {
		return judgement{}
	}
	name := q.idle[0].account
	if q.idle[0].scope != "" {
		j.hearsay = byBinding
	}
	j.owner = cmp.Or(j.owner, "controller under service account "+name)
	proof, sure := p.whyIdle(name)
	j.workloads = p.workloadsWhere(func(wl workload) bool { return wl.account == name })
	j.idle = scaledDown(j.workloads)
	return j.is(Down, sure, "service account %s may update it and its status, and %s", name, proof)
}

// judgeNobody judges an owner absent if it usually runs outside the cluster, and was seen in this one.
func (p *Part) judgeNobody(q *question, j judgement) judgement {
	like, trusted := p.lookalike(q)
	j = p.nobody(q, trusted || q.witness.gone != "" || q.witness.barred != "" && p.servesDriver(q, q.witness.account))
	if j.state != Absent || like.name == "" {
		return j
	}
	j.namesake, j.evidence = !trusted, []string{p.runs(like)}
	if !p.up(like) {
		proof, _ := p.whyDown(like)
		j.evidence = []string{like.String() + " " + proof}
	}
	return barredBy(q, j, like.account, j.certain)
}

// nobody is judgeNobody without lookalikes; here says that the owner is known to have run in this cluster.
func (p *Part) nobody(q *question, here bool) judgement {
	j := q.base
	switch {
	case !q.catalogued:
		return j.is(Absent, false, "it is not in the catalog, and no running controller has a role for %s", q.resource)
	case q.entry.Component == "cloud-controller-manager" && len(p.clouds) == 0:
		return j.is(Absent, true, "no cloud controller runs in the cluster, and no node has a provider ID: there is no cloud provider")
	case q.entry.Component != catalog.InCluster && !here:
		return j.is(Unknown, false, "it usually runs outside the cluster, where it is unseen")
	case len(q.entry.Workloads) == 0:
		return j.is(Absent, false, "no running controller has a role for %s", q.resource)
	}
	if q.entry.Component != catalog.InCluster && (q.witness.gone != "" || q.witness.barred != "") {
		j.hearsay = byLearning
	}
	return j.is(Absent, true, "none of its workloads exists: %s", workloadNames(q.entry))
}
