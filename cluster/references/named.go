package references

import (
	"cmp"
	"hash/maphash"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unique"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// Objects name others in fields and labels. The owner may ignore a name: it is never more than "may".

// States of an object that only a name speaks for: deleted with its namespace, or missing; through if its
// status may name a Secret.
const going, named, through = "going", "named", "through"

const secrets, volumes = "secrets", "persistentvolumes"

var nodeFields = [][]string{{"spec", "nodeName"}, {"spec", "node"}, {"status", "nodeName"}}

const (
	maxFields, maxDepth = 512, 6 // read of one object
	maxUsers            = 1000   // visited objects that name one object
	shortest            = 4      // end of a kind's name that a field may be named after
)

// mention is a name or identifier of another object, by hash: there are many.
type mention struct {
	target  uint64
	path    unique.Handle[string]
	at      uint32 // index among the target's
	leaving bool
}

type namer struct {
	in       unique.Handle[[2]string] // resource and namespace
	name     string
	mentions []mention // at least one
}

func (n *namer) object() Thing {
	in := n.in.Value()
	return Thing{in[0], types.NamespacedName{Namespace: in[1], Name: n.name}}
}

type mentioned struct {
	by *namer
	as uint8
}

func (m mentioned) mention() *mention { return &m.by.mentions[m.as] }

type naming struct {
	mentions  []mention
	needs     []need  // Secrets that its spec names, and objects that lead to more
	published []need  // Secrets that its status names
	ids       []Thing // identifiers in its status
	node      string
}

func (p *Part) hash(id Thing) uint64 { return maphash.Comparable(p.seed, id) }

func (p *Part) mention(id Thing, mentions []mention, leaving bool) {
	for i := range mentions {
		mentions[i].leaving = leaving
	}
	key := p.hash(id)
	n := p.namers[key]
	same := func(a, b mention) bool { return a.target == b.target && a.path == b.path && a.leaving == b.leaving }
	if n == nil && len(mentions) == 0 || n != nil && slices.EqualFunc(n.mentions, mentions, same) {
		return
	}
	if n != nil {
		for _, m := range n.mentions {
			all := p.mentions[m.target]
			last := all[len(all)-1]
			all[m.at], last.mention().at = last, m.at
			if p.mentions[m.target] = all[:len(all)-1]; len(all) == 1 {
				delete(p.mentions, m.target)
			}
			p.heed(m)
		}
		delete(p.namers, key)
	}
	if len(mentions) == 0 {
		return
	}
	n = &namer{unique.Make([2]string{id.Resource, id.Namespace}), id.Name, mentions}
	p.namers[key] = n
	for i := range mentions {
		m := &mentions[i]
		m.at = uint32(len(p.mentions[m.target]))
		p.mentions[m.target] = append(p.mentions[m.target], mentioned{n, uint8(i)})
		p.heed(*m)
	}
}

func (p *Part) heed(m mention) {
	if id, awaits := p.awaits[m.target]; awaits {
		p.dirtyUses[id] = true
	}
}

// visit visits the first objects that name an object, or have an identifier from its status. Another namespace
// counts only for the same API group: users may write any name into their own objects.
func (p *Part) visit(id Thing, r *record, f func(by Thing, path string, carries bool)) (more int) {
	for i, target := range append([]Thing{id}, r.ids...) {
		all := p.mentions[p.hash(target)]
		more += max(0, len(all)-maxUsers)
		for _, m := range all[:min(len(all), maxUsers)] {
			if by := m.by.object(); by.Namespace == "" || by.Namespace == id.Namespace || facts.GroupOf(by.Resource) == facts.GroupOf(id.Resource) {
				f(by, m.mention().path.Value(), i > 0)
			}
		}
	}
	return more
}

func (p *Part) naming(r *role, id Thing, obj runtime.Object) (n naming) {
	if r.peers == 0 || p.options.Manifests {
		return n
	}
	l := look{p, id, nil, &n, maxFields}
	switch obj := obj.(type) {
	case *corev1.PersistentVolume:
		if obj.Spec.CSI != nil {
			for key, value := range obj.Spec.CSI.VolumeAttributes {
				l.text([]string{"spec", "csi", "volumeAttributes", key}, value)
			}
			n.bound(nil, true)
		}
	case *unstructured.Unstructured:
		l.owners = obj.GetOwnerReferences()
		if id, is := strings.CutPrefix(id.Name, "pvc-"); is && uuid.Validate(id) == nil {
			n.needs = l.need(n.needs, volumes, types.NamespacedName{Name: obj.GetName()}) // its own volume
		}
		labels := obj.GetLabels()
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			l.name("metadata.labels."+label, strings.ReplaceAll(label[strings.LastIndex(label, "/")+1:], "-", ""), types.NamespacedName{Name: labels[label]})
		}
		for _, path := range nodeFields {
			if node, _, _ := unstructured.NestedString(obj.Object, path...); n.node == "" && len(node) <= catalog.LongestName {
				n.node = node
			}
		}
		labeled := n.mentions
		for _, key := range slices.Sorted(maps.Keys(obj.Object)) {
			if key != "metadata" && key != "kind" && key != "apiVersion" {
				l.at([]string{key}, obj.Object[key])
			}
		}
		if metav1.GetControllerOfNoCopy(obj) != nil {
			n.mentions = nil // it was created by its controller, and is deleted with it
		}
		status, _ := obj.Object["status"].(map[string]any)
		n.bound(labeled, len(status)+len(obj.GetFinalizers()) > 0)
	}
	return n
}

// bound keeps one mention per target. An object without a controller counts only if a label and a field
// agree.
func (n *naming) bound(labeled []mention, live bool) {
	seen := map[uint64]bool{}
	var kept []mention
	for _, m := range slices.Backward(n.mentions) { // fields before labels
		same := func(l mention) bool { return l.path != m.path && l.target == m.target }
		if !seen[m.target] && len(kept) < maxNamed && (live || slices.ContainsFunc(labeled, same)) {
			seen[m.target] = true
			kept = append(kept, m)
		}
	}
	n.mentions = slices.Clip(kept)
}

type look struct {
	*Part
	id     Thing
	owners []metav1.OwnerReference
	naming *naming
	left   int
}

func (l *look) at(path []string, value any) {
	if l.left--; l.left < 0 || len(path) > maxDepth {
		return
	}
	switch value := value.(type) {
	case string:
		l.text(path, value)
	case []any:
		for _, item := range value[:min(len(value), maxFields)] {
			if fields, is := item.(map[string]any); is {
				l.at(path, fields)
			}
		}
	case map[string]any:
		l.reference(path, value)
		if len(value) > maxFields {
			return // data, not names
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			l.at(append(path[:len(path):len(path)], key), value[key])
		}
	}
}

// text reads an identifier, or a name of the kind that the field is named after.
func (l *look) text(path []string, value string) {
	n, inStatus, key := l.naming, path[0] == "status", strings.ToLower(path[len(path)-1])
	stem, identifies := strings.CutSuffix(key, "id")
	stem, identifies = strings.TrimSuffix(stem, "uu"), identifies && !strings.HasSuffix(stem, "u") || strings.HasSuffix(key, "uuid")
	if identifies && uuid.Validate(value) == nil {
		carried := Thing{key, types.NamespacedName{Name: value}}
		switch {
		case inStatus && len(n.ids) < maxNamed:
			n.ids = append(n.ids, carried)
		case !inStatus && !slices.Contains(l.plan.namedAfter(facts.GroupOf(l.id.Resource), stem), l.id.Resource): // that would be its own
			n.mentions = append(n.mentions, mention{target: l.hash(carried), path: unique.Make(strings.Join(path, "."))})
		}
	}
	if !inStatus {
		l.name(strings.Join(path, "."), key, types.NamespacedName{Name: value})
	}
	if !inStatus && strings.HasSuffix(key, "secretname") {
		n.needs = l.need(n.needs, secrets, types.NamespacedName{Name: value})
	}
}

// credential matches fields that refer to a key of a Secret.
var credential = regexp.MustCompile(`(password|passphrase|token|credentials?|(api|access|private)key)$`)

// reference reads a field that refers to an object, of a kind in its name or value.
func (l *look) reference(path []string, fields map[string]any) {
	field := strings.ToLower(path[len(path)-1])
	key := strings.TrimSuffix(field, "s")
	stem := strings.TrimSuffix(strings.TrimSuffix(key, "erence"), "ref")
	text := func(field string) string { value, _ := fields[field].(string); return value }
	to := types.NamespacedName{Namespace: text("namespace"), Name: text("name")}
	group, _, versioned := strings.Cut(text("apiVersion"), "/")
	if group = cmp.Or(text("group"), text("apiGroup"), group); !versioned && group == text("apiVersion") {
		group = "" // of the core
	}
	n, kind := l.naming, strings.ToLower(text("kind"))
	own := facts.GroupOf(l.id.Resource)
	peer := path[0] != "status" && (group == "" || group == own)
	switch {
	case to.Name == "" || l.id.Namespace != "" && to.Namespace != "" && to.Namespace != l.id.Namespace:
	case stem == key:
		word := cmp.Or(kind, strings.ToLower(text("type")))
		if word == "" && field == key { // a plural lists definitions
			word = key
		}
		if peer {
			l.name(strings.Join(path, ".")+".name", word, to)
		}
	case kind == "secret" || kind == "" && (strings.HasSuffix(strings.TrimSuffix(stem, "key"), "secret") ||
		text("key") != "" && credential.MatchString(stem) && len(l.plan.namedAfter(own, stem)) == 0):
		if path[0] == "status" {
			n.published = l.need(n.published, secrets, to)
		} else {
			n.needs = l.need(n.needs, secrets, to)
		}
	case peer:
		for _, resource := range l.name(strings.Join(path, ".")+".name", cmp.Or(kind, stem), to) {
			n.needs = l.need(n.needs, resource, to)
		}
	}
}

// name records a name in a field or label, and returns the possible resources.
func (l *look) name(path, key string, to types.NamespacedName) []string {
	if to.Name == "" || len(to.Name) > catalog.LongestName || slices.ContainsFunc(l.owners, func(o metav1.OwnerReference) bool { return o.Name == to.Name }) {
		return nil // its owner is deleted with it
	}
	resources := l.plan.namedAfter(facts.GroupOf(l.id.Resource), key)
	for _, resource := range resources {
		if to.Namespace = l.id.Namespace; !l.plan.namespaced(resource) {
			to.Namespace = ""
		} else if to.Namespace == "" {
			continue // ambiguous
		}
		l.naming.mentions = append(l.naming.mentions, mention{target: l.hash(Thing{resource, to}), path: unique.Make(path)})
	}
	return resources
}

func (l *look) need(needs []need, resource string, to types.NamespacedName) []need {
	in := cmp.Or(l.id.Namespace, to.Namespace)
	if len(needs) == maxNamed || len(to.Name) > catalog.LongestName || resource == secrets && in == "" {
		return needs
	}
	hint := need{Need: l.plan.hints[resource], Named: catalog.Named{Namespace: in, Name: to.Name}}
	if slices.Contains(needs, hint) {
		return needs
	}
	return append(needs, hint)
}

// namedAfter returns the custom resources of a group whose kind, or its end, a field is named after.
func (p *plan) namedAfter(group, key string) (names []string) {
	stem := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(key), "erence"), "ref"), "name")
	if stem == "" {
		return nil
	}
	plurals := []string{stem, stem + "s", stem + "es"}
	if short, is := strings.CutSuffix(stem, "y"); is {
		plurals = append(plurals, short+"ies")
	}
	for _, plural := range plurals {
		names = append(names, p.endings[plural+"."+group]...)
	}
	return names
}

func (p *plan) hint(added []string) {
	for _, resource := range slices.Sorted(slices.Values(added)) {
		if !facts.Custom(facts.GroupOf(resource)) {
			continue
		}
		p.hints[resource] = &catalog.Need{Reference: catalog.Reference{Resource: resource}, Without: through}
		group := facts.GroupOf(resource)
		p.peers[group] = append(p.peers[group], resource)
		for i := range max(1, strings.Index(resource, ".")-shortest) {
			p.endings[resource[i:]] = append(p.endings[resource[i:]], resource)
		}
		for _, peer := range p.peers[group] {
			p.role(peer).peers = len(p.peers[group])
		}
	}
	if len(p.hints) > 0 {
		for _, resource := range []string{secrets, volumes} {
			p.hints[resource] = &catalog.Need{Reference: catalog.Reference{Resource: resource}, Without: named}
			p.role(resource).named = true
		}
		p.role(volumes).peers = 1
	}
}
