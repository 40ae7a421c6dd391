package ownership

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Some operators handle a generated kind only while its maker exists, the object that its definition was made
// from: a ResourceGraphDefinition of kro, a CompositeResourceDefinition of Crossplane, a ConstraintTemplate of
// Gatekeeper.

const definitions = "customresourcedefinitions.apiextensions.k8s.io"

type definition struct {
	kind       string // "Kind.group"
	cluster    bool
	controller types.UID
	// owners are the owner references to custom resources, labels the names in labels and annotations.
	owners, labels []mention
}

// mention is a possible maker.
type mention struct {
	kind string // "Kind.group", or in lower case
	name string
	sure bool // certainly an object, of any kind
}

// nameSuffix ends the key of a label with the maker's name, after the kind, as in
// kro.run/resource-graph-definition-name; "-id" the key of its UID
// (github.com/kubernetes-sigs/kro:pkg/metadata/labels.go).
const nameSuffix = "-name"

var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func definitionOf(o *apiextensionsv1.CustomResourceDefinition) (d definition, kept bool) {
	d = definition{kind: schema.GroupKind{Group: o.Spec.Group, Kind: o.Spec.Names.Kind}.String(), cluster: o.Spec.Scope == apiextensionsv1.ClusterScoped, controller: onlyOwner(o).uid}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		d.controller = ref.UID
	}
	for _, ref := range o.OwnerReferences {
		group := schema.FromAPIVersionAndKind(ref.APIVersion, "").Group
		if facts.Custom(group) {
			d.owners = append(d.owners, mention{schema.GroupKind{Group: group, Kind: ref.Kind}.String(), ref.Name, true})
		}
	}
	for _, texts := range []map[string]string{o.Labels, o.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			domain, word, _ := strings.Cut(key, "/")
			if kind, names := strings.CutSuffix(word, nameSuffix); names && strings.Contains(domain, ".") && texts[key] != "" {
				id := texts[domain+"/"+kind+"-id"]
				d.labels = append(d.labels, mention{strings.ReplaceAll(kind, "-", "") + "." + domain, texts[key], uid.MatchString(id)})
			}
		}
	}
	return d, true
}

func (p *Part) definitionChanged(key types.NamespacedName, before, now definition) {
	p.dirty = true
	p.acts++
	if kind := strings.ToLower(before.kind); p.kinds[kind] == key.Name {
		delete(p.kinds, kind)
	}
	if now.kind != "" {
		p.kinds[strings.ToLower(now.kind)] = key.Name
	}
}

func (p *Part) definition(resource string) definition {
	return p.definitions[types.NamespacedName{Name: resource}]
}

type maker struct {
	what     string // "Kind.group/NAME"
	resource string // "plural.group", "" if its kind is no longer defined
	name     string
}

func (p *Part) defines(group string) bool {
	return facts.Any(p.definitions, func(d definition) bool { return facts.GroupOf(d.kind) == group })
}

// makersOf counts a label if its domain is an API group with the kind in its key, or was one: then another
// label has the UID.
func (p *Part) makersOf(resource string) []maker {
	d := p.definition(resource)
	if len(d.owners)+len(d.labels) == 0 {
		return nil
	}
	var makers []maker
	for _, m := range slices.Concat(d.owners, d.labels) {
		of := p.kinds[strings.ToLower(m.kind)]
		made := maker{what: m.kind + "/" + m.name, resource: of, name: m.name}
		if of != "" {
			made.what = p.definition(of).kind + "/" + m.name
		} else if group := facts.GroupOf(m.kind); !m.sure || p.options.Sight.Serves(group) && !p.defines(group) {
			continue
		}
		if !slices.Contains(makers, made) {
			makers = append(makers, made)
		}
	}
	return makers
}

// withMakers marks a running owner as uncertain if the kind's definition has lost its maker.
func (p *Part) withMakers(q *question, j judgement) judgement {
	if j.state != Alive || j.hearsay != "" || p.options.Manifests || q.catalogued && q.entry.BuiltIn() || q.foreign {
		return j
	}
	for _, m := range p.makersOf(q.resource) {
		hidden := p.hidden(m.resource)
		switch {
		case p.links[m.resource][types.NamespacedName{Name: m.name}].there:
		case m.resource == "":
			j.maker = m.what
			return j.is(Unknown, false, "%s, from which the definition of %s was made, was deleted with its kind: whether a controller still handles %s is unknown", m.what, q.resource, q.resource)
		case hidden != "":
			return j.is(Unknown, false, "the definition of %s was made from %s; unseen: %s", q.resource, m.what, hidden)
		case len(p.links[m.resource]) < maxLinks:
			j.maker = m.what
			return j.is(Unknown, false, "%s, from which the definition of %s was made, does not exist: whether a controller still handles %s is unknown", m.what, q.resource, q.resource)
		}
	}
	return j
}

// judgeMaker evaluates the maker's controller if the finalizer has its API group's name: installers of other
// software create definitions, too.
func (p *Part) judgeMaker(q *question, j judgement) judgement {
	if !q.custom || q.foreign || p.options.Manifests {
		return judgement{}
	}
	for _, m := range p.makersOf(q.resource) {
		domain, _, _ := strings.Cut(q.finalizer, "/")
		if group := facts.GroupOf(m.resource); group == "" || m.resource == q.resource || domain != group && !strings.HasSuffix(domain, "."+group) {
			continue
		}
		of := &question{verdictKey: verdictKey{finalizer: q.finalizer, resource: m.resource}, custom: true, base: q.base}
		of.live, of.idle = p.mayControl(m.resource, "")
		for _, judge := range []func(*question, judgement) judgement{p.judgePermissions, p.judgeLeases} {
			j := judge(of, of.base)
			if j.state != Alive || !slices.ContainsFunc(j.workloads, func(wl workload) bool { return p.mayRemove(subjectsOf(wl.account), q.verdictKey) }) {
				continue
			}
			j.evidence = append(j.evidence, "the definition of "+q.resource+" was made from "+m.what)
			return j
		}
	}
	return judgement{}
}
