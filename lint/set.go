package lint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/lint/source"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// input is where the files of a set are. All are found before the first is linted,
// so that it holds little.
type input struct {
	directories []*source.Directory // its own, and those of its parts
	files       []*source.File      // that were given, or rendered
	quoted      bool                // they are read for wishes not to hear something only
}

// folder is the path of the one whose files they are, "" for files that were given.
func (i *input) folder() string {
	if len(i.directories) == 0 {
		return ""
	}
	return i.directories[0].Path
}

// size counts the files.
func (i *input) size() int {
	n := len(i.files)
	for _, d := range i.directories {
		n += len(d.Manifests)
	}
	return n
}

func (i *input) all() []*source.File {
	files := slices.Clone(i.files)
	for _, d := range i.directories {
		files = append(files, d.Files()...)
	}
	return files
}

// set is the one whose files an input tells.
func (r *run) set(i *input) *set {
	s := &set{run: r, folder: i.folder(), files: i.all()}
	s.patched = slices.ContainsFunc(i.directories, func(d *source.Directory) bool { return r.kustomized[d.Path].narrows })
	if len(i.directories) > 0 {
		s.namespace = r.kustomized[i.directories[0].Path].namespace
	}
	if len(i.files) == 1 {
		if s.build = r.builds[i.files[0]]; s.build != nil {
			s.folder = s.build.directory.Path
		}
	}
	s.quoted = i.quoted
	s.loose = len(i.directories) > 0 && i.directories[0].Kustomization == ""
	for _, file := range s.files {
		file.Whole = r.options.everything
	}
	return s
}

// set is what is applied, and deleted, together.
type set struct {
	run    *run
	folder string // whose files they are, "" for files that were given
	files  []*source.File
	// patched tells that a kustomization changes what its webhooks see.
	patched bool
	// namespace is what the kustomization that holds it together sets, "" if nothing.
	namespace string
	// loose tells that nothing but a folder holds the files together: who deletes them
	// may take one at a time.
	loose bool
	build *build // that its objects are of, nil where they are in their own files
	// quoted tells that its files are read for wishes not to hear something only: their
	// objects are in other sets, as they will be applied.
	quoted bool
	total

	objects  []*source.Object
	made     map[*source.Object]*subject // of what was released again at once
	loaded   int                         // bytes of text that are held, or would be
	held     *source.Text                // the document that is, of a large set
	unplaced []unplaced                  // findings whose place is to be found
	plain    map[plain]bool              // of which there is an object that is not packed

	asker   *asker
	pending []asked // questions that concern a policy, and were not asked yet
	waits   bool    // one that is not compiled
}

// plain is where an object stands of which the facts hold no more than a count.
type plain struct {
	kind      schema.GroupVersionKind
	namespace string
}

// maxLoaded bounds the text that a set holds while it is linted, with some fifty
// times as much for what is parsed of it: what is beyond is read again when it
// is asked about.
const maxLoaded = 256 << 10

// read reads the files.
func (s *set) read(ctx context.Context) error {
	for _, file := range s.files {
		s.readFile(ctx, file)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// release forgets the text that is held: what is still wanted of it is read again.
func (s *set) release() {
	for _, o := range s.objects {
		o.Release()
	}
}

// asked tells whether questions are asked about the objects of a file.
func (r *run) asked(file *source.File) bool {
	if b := r.builds[file]; b != nil && r.only != nil {
		return len(b.reads) == 0 || slices.ContainsFunc(b.reads, func(name string) bool { return r.only[relative(r.options.Dir, b.known[name].path)] })
	}
	return r.only == nil || file.Path == "" || file.Name == "-" || r.only[relative(r.options.Dir, file.Path)]
}

func (s *set) readFile(ctx context.Context, file *source.File) {
	s.total.files++
	if s.quoted {
		s.quote(file)
		return
	}
	for c := range file.Read() {
		s.take(file, c)
		s.tell()
		if ctx.Err() != nil {
			return
		}
	}
}

// quote takes in what a file of which the objects are in other sets wishes not to hear.
func (s *set) quote(file *source.File) {
	if text, err := os.ReadFile(file.Path); err != nil || !bytes.Contains(text, []byte("termguard")) {
		return
	}
	for c := range file.Read() {
		s.mark(file, c)
	}
}

func (s *set) mark(file *source.File, c source.Contents) {
	for _, m := range c.Marks {
		s.marks = append(s.marks, Mark{Place: placed(file, m.Position, ""), Text: m.Text, From: m.From, To: m.To})
	}
}

// take takes in a document of a file.
func (s *set) take(file *source.File, c source.Contents) {
	for _, p := range c.Problems {
		if c.Snippet {
			s.notes.snippets = append(s.notes.snippets, fmt.Sprintf("%s:%d", file.Name, p.Line))
			continue
		}
		s.problems = append(s.problems, Problem{Place: placed(file, p.Position, ""), Message: p.Message})
	}
	if c.Template {
		s.template(file)
		s.documents++
		return
	}
	if s.build == nil || len(s.build.reads) == 0 { // else they stand in files of their own
		s.mark(file, c)
	}
	s.skipped += c.Plain
	s.total.objects += len(c.Objects)
	if len(c.Objects)+c.Plain > 0 {
		s.documents++
	}
	for _, o := range c.Objects {
		if !s.run.options.IncludeTests && o.Record() {
			s.tests++
			continue
		}
		s.notes.outdate(o.APIVersion, o.Kind, s.run.options.KubernetesVersion)
		o.APIVersion = present(o.APIVersion, o.Kind)
		s.objects = append(s.objects, o)
	}
	if len(c.Objects) == 0 {
		return
	}
	if s.loaded += c.Objects[0].Size(); s.loaded > maxLoaded {
		s.make(c.Objects)
	}
}

// template notes a file, or an object, that is to be rendered first.
func (s *set) template(file *source.File) {
	s.notes.templates = append(s.notes.templates, file.Name)
	s.skipped++
}

// make takes from objects what is asked for, so that they need not be read again
// for it, and releases them.
func (s *set) make(objects []*source.Object) {
	_, err := s.run.engine()
	if err == nil && s.made == nil {
		s.run.large()
		s.made = map[*source.Object]*subject{}
	}
	for _, o := range objects {
		if err == nil { // else it ends the run
			s.made[o] = s.subject(o)
		}
	}
	objects[0].Release()
}

// load makes an object readable. A large set holds one document at a time, for to
// read it again for each of its objects would take the square of their number.
func (s *set) load(o *source.Object) error {
	if s.loaded > maxLoaded && s.held != o.Text {
		if s.held != nil {
			s.held.Release()
		}
		s.held = o.Text
	}
	return o.Load()
}

func placed(file *source.File, p source.Position, rendered string) Place {
	if file.Rendered != "" {
		return inTemplate(file, p, rendered)
	}
	return Place{File: file.Name, Line: p.Line, Column: p.Column, EndColumn: p.EndColumn, Source: p.Text, Rendered: rendered}
}

// interesting tells whether an object's kind is one that policies speak about,
// or whose facts they read.
func (s *set) interesting(o *source.Object) bool {
	return s.run.options.everything || !quiet(o)
}

// quiet are the objects of Argo CD and Flux: what they deploy is elsewhere, and so are
// their controllers, as a rule.
func quiet(o *source.Object) bool {
	group, _ := path.Split(o.APIVersion)
	group = strings.TrimSuffix(group, "/")
	return group == "argoproj.io" && slices.Contains([]string{"Application", "ApplicationSet", "AppProject"}, o.Kind) || strings.HasSuffix(group, "toolkit.fluxcd.io")
}

// subject is an object that questions are asked about.
type subject struct {
	*source.Object
	id       policies.Object
	object   *unstructured.Unstructured // as it would be in the cluster; nil where packed, and where implied
	packed   []byte                     // the metadata of object, in JSON
	resource *cluster.Resource
	implied  bool // the manifests name it, and do not hold it
	whole    bool // more than its metadata is read
	trimmed  bool // and is to be read again
}

// prepare makes the facts of a set, and finds the questions that concern a policy. A
// large set asks them at once.
func (s *set) prepare(ctx context.Context) error {
	if !slices.ContainsFunc(s.objects, s.interesting) {
		return nil
	}
	engine, err := s.run.engine()
	if err != nil {
		return err
	}
	var subjects []*subject
	var objects []*unstructured.Unstructured
	for _, o := range s.objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		sub, made := s.made[o]
		if !made {
			sub = s.subject(o)
		}
		if sub == nil {
			continue
		}
		subjects = append(subjects, sub)
		if sub.object != nil {
			objects = append(objects, sub.object)
		}
	}
	objects = append(objects, s.definitions()...)
	snapshot, err := s.run.snapshot()
	if err != nil {
		return err
	}
	world, err := cluster.FromManifests(cluster.Options{Owners: s.run.options.Owners, Catalog: s.run.options.Catalog}, s.run.options.KubernetesVersion, cluster.Set{Objects: objects, Further: packed(subjects), Whole: s.whole(subjects)})
	if err != nil {
		return err
	}
	resources := map[schema.GroupVersionKind]*cluster.Resource{}
	for kind, resource := range cluster.Resources(objects) {
		resources[kind] = &resource
	}
	s.asker = &asker{set: s, engine: engine, facts: cluster.NewLayers(world, snapshot), index: map[policies.Object]*subject{}}
	a := s.asker
	for _, sub := range subjects {
		sub.resource = resources[schema.FromAPIVersionAndKind(sub.APIVersion, sub.Kind)]
		sub.id = policies.Object{Resource: sub.resource.String(), Namespace: sub.Namespace, Name: sub.Name}
		if sub.object != nil {
			sub.id.Namespace, sub.id.Name = sub.object.GetNamespace(), sub.object.GetName()
		}
		a.index[sub.id] = sub
		if s.loaded > maxLoaded {
			sub.trim()
		}
	}
	if s.run.options.Orders && len(subjects) > 0 {
		s.orders = append(s.orders, a.order(subjects))
	}
	subjects = append(subjects, a.implied(subjects)...)
	for _, sub := range subjects {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.prepare(ctx, sub); err != nil {
			return err
		}
		s.tell()
	}
	return nil
}

// answer asks what is pending, and places what was found.
func (s *set) answer(ctx context.Context) error {
	if s.asker == nil {
		return nil
	}
	if err := s.ask(ctx); err != nil {
		return err
	}
	s.findings = bundled(distinct(s.place()))
	return nil
}

func (s *set) ask(ctx context.Context) error {
	for _, q := range s.pending {
		err := s.asker.evaluate(ctx, q)
		s.tell()
		if err != nil {
			return err
		}
	}
	s.pending = nil
	return nil
}

// bundled says once, at the first of them, what is true of several objects of a
// set because of one other.
func bundled(findings []Finding) []Finding {
	type key struct {
		policy string
		cause  policies.Object
	}
	first, more := map[key]int{}, map[key]int{}
	kept := findings[:0]
	for _, f := range findings {
		if f.Question == DeleteSet && len(f.Objects) > 1 {
			k := key{f.Policy, f.Objects[1]}
			if _, again := first[k]; again {
				more[k]++
				continue
			}
			first[k] = len(kept)
		}
		kept = append(kept, f)
	}
	for k, n := range more {
		f := &kept[first[k]]
		f.Evidence = append(slices.Clone(f.Evidence), fmt.Sprintf("so it is with %s of this set", counted(n, "more object")))
	}
	return kept
}

// kind is what is read of the objects of a kind.
type kind struct {
	whole   bool // more than the metadata, by policies or for the facts
	reduced bool // the facts hold more than the metadata
}

// kind of an object.
func (r *run) kind(about *unstructured.Unstructured) kind {
	gvk := about.GroupVersionKind()
	if known, found := r.kinds.Load(gvk); found {
		return known.(kind)
	}
	res := cluster.Resources([]*unstructured.Unstructured{about})[gvk]
	k := kind{whole: r.options.everything || cluster.Reads(r.options.Catalog, res), reduced: cluster.Reduces(res)}
	for _, p := range r.asks() {
		k.whole = k.whole || slices.Contains(p.Resources, res.String()) || len(p.Resources) == 0 && len(p.Needs) == 0
	}
	r.kinds.Store(gvk, k)
	return k
}

// subject reads an object, as much of it as is asked for; nil if it is none.
func (s *set) subject(o *source.Object) *subject {
	if err := s.load(o); err != nil {
		s.problem(o, err.Error())
		return nil
	}
	about := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind}}
	if about.GroupVersionKind().Group == "termguard.dev" {
		return nil // documents of ours, as in fixtures
	}
	if s.patched && strings.HasSuffix(o.Kind, "WebhookConfiguration") {
		s.notes.patched = append(s.notes.patched, o.Name)
		return nil
	}
	keys := []string{"apiVersion", "kind", "metadata"}
	read := s.run.kind(about)
	if read.whole {
		keys = nil
	}
	value, err := s.value(o, keys...)
	switch {
	case errors.Is(err, source.ErrTemplate):
		s.template(o.File)
		return nil
	case err != nil:
		s.problem(o, err.Error())
		return nil
	}
	if !wellFormed(value) {
		return nil
	}
	if read.whole && !read.reduced {
		delete(value, "status") // which says what was, in some cluster
	}
	u := &unstructured.Unstructured{Object: value}
	if s.leftover(o, u) {
		return nil
	}
	if incomplete(u) {
		s.notes.incomplete = append(s.notes.incomplete, u.GetName())
	}
	sub := &subject{Object: o, object: u, whole: read.whole}
	if s.made != nil && !read.whole && cluster.Counts(u) && u.GetName() == o.Name && u.GetNamespace() == o.Namespace {
		s.pack(sub)
	}
	return sub
}

// definitions are those of custom resources in a folder called crd or crds, in that of
// the set or beside it, which need not be part of the set: where there are webhooks, they
// tell which kinds no namespace holds.
func (s *set) definitions() (found []*unstructured.Unstructured) {
	if s.folder == "" || !slices.ContainsFunc(s.objects, func(o *source.Object) bool { return strings.HasSuffix(o.Kind, "WebhookConfiguration") }) {
		return nil
	}
	own := map[string]bool{}
	for _, file := range s.files {
		own[file.Path] = true
	}
	beside := &input{directories: slices.Concat(s.run.definitions[s.folder], s.run.definitions[filepath.Dir(s.folder)])}
	for _, file := range beside.all() {
		if own[file.Path] {
			continue
		}
		for c := range file.Read() {
			for _, o := range c.Objects {
				if o.Kind != "CustomResourceDefinition" {
					continue
				}
				if value, err := s.value(o); err == nil && wellFormed(value) {
					delete(value, "status")
					found = append(found, &unstructured.Unstructured{Object: value})
				}
			}
			if len(c.Objects) > 0 {
				c.Objects[0].Release() // which is all of the document
			}
		}
	}
	return found
}

// leftover tells whether an object is a patch that the kustomization beside it does not
// name: a workload without a selector, which nobody can apply.
func (s *set) leftover(o *source.Object, u *unstructured.Unstructured) bool {
	if o.APIVersion != "apps/v1" || o.Kind == "ControllerRevision" || s.run.names(o.File) {
		return false
	}
	_, selects, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "selector")
	return !selects
}

// value is what an object holds under keys of it, or whole, in the namespace that it
// gets.
func (s *set) value(o *source.Object, keys ...string) (map[string]any, error) {
	value, err := o.Value(keys...)
	if err != nil {
		return value, err
	}
	modernize(value)
	if s.namespace == "" {
		return value, nil
	}
	fill(value, s.namespace)
	if metadata, ok := value["metadata"].(map[string]any); ok && o.Kind == "Namespace" && metadata["name"] == placeholder {
		metadata["name"] = s.namespace
	}
	return value, nil
}

// pack keeps an object of a large set in a tenth of the memory, unless it is the
// first of its kind in its namespace: the facts need only count the others.
func (s *set) pack(sub *subject) {
	at := plain{sub.object.GroupVersionKind(), sub.Namespace}
	if !s.plain[at] {
		if s.plain == nil {
			s.plain = map[plain]bool{}
		}
		s.plain[at] = true
		return
	}
	if packed, err := json.Marshal(sub.object.Object["metadata"]); err == nil {
		sub.packed, sub.object = packed, nil
	}
}

// packed are the objects that are, one at a time.
func packed(subjects []*subject) iter.Seq[*unstructured.Unstructured] {
	return func(yield func(*unstructured.Unstructured) bool) {
		for _, sub := range subjects {
			if sub.packed == nil {
				continue
			}
			sub.unpack()
			object := sub.object
			sub.object = nil
			if !yield(object) {
				return
			}
		}
	}
}

// unpack makes the object of a subject that is kept without one; done forgets it.
func (sub *subject) unpack() (done func()) {
	if sub.object != nil {
		return func() {}
	}
	object := map[string]any{"apiVersion": sub.APIVersion, "kind": sub.Kind}
	if sub.implied {
		name := sub.id.Name
		object = map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
			"spec":     map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
		}
	} else {
		var metadata map[string]any
		_ = kjson.UnmarshalCaseSensitivePreserveInts(sub.packed, &metadata) // it was written by pack
		object["metadata"] = metadata
	}
	sub.object = &unstructured.Unstructured{Object: object}
	return func() { sub.object = nil }
}

// trim forgets all of an object but its metadata; complete reads it again.
func (sub *subject) trim() {
	if sub.whole {
		sub.trimmed = true
		sub.object.Object = map[string]any{"apiVersion": sub.APIVersion, "kind": sub.Kind, "metadata": sub.object.Object["metadata"]}
	}
}

func (s *set) complete(sub *subject) error {
	if !sub.trimmed {
		return nil
	}
	if err := s.load(sub.Object); err != nil {
		return err
	}
	value, err := s.value(sub.Object)
	if err != nil {
		return err
	}
	if !s.run.kind(sub.object).reduced {
		delete(value, "status")
	}
	value["metadata"] = sub.object.Object["metadata"]
	sub.object.Object, sub.trimmed = value, false
	return nil
}

// whole reads objects again of which only the metadata was read, up to maxLoaded bytes
// of them.
func (s *set) whole(subjects []*subject) func(*unstructured.Unstructured) *unstructured.Unstructured {
	of := sync.OnceValue(func() map[*unstructured.Unstructured]*subject {
		found := map[*unstructured.Unstructured]*subject{}
		for _, sub := range subjects {
			if sub.object != nil && !sub.whole {
				found[sub.object] = sub
			}
		}
		return found
	})
	left := maxLoaded
	return func(object *unstructured.Unstructured) *unstructured.Unstructured {
		sub := of()[object]
		if sub == nil {
			return object
		}
		if left <= 0 || s.load(sub.Object) != nil {
			return object
		}
		left -= sub.Size()
		value, err := s.value(sub.Object)
		if err != nil || !wellFormed(value) {
			return object
		}
		value["metadata"] = object.Object["metadata"]
		return &unstructured.Unstructured{Object: value}
	}
}

// distinct keeps, of what one policy says at one place, what is told of the
// object that stands there, or else of its namespace: the questions ask for the
// same trouble several times.
func distinct(findings []Finding) []Finding {
	type key struct {
		policy, file string
		line, column int
	}
	rank := func(f Finding) int {
		switch {
		case f.Certainty == policies.Will && f.Target == f.Object:
			return 0
		case f.Certainty == policies.Will:
			return 1
		case f.Target == f.Object:
			return 2
		case f.Question == DeleteNamespace:
			return 3
		}
		return 4
	}
	best := map[key]Finding{}
	of := func(f Finding) key {
		k := key{f.Policy, f.Place.File, f.Place.Line, f.Place.Column}
		if f.Question == ApplyObject {
			k.policy += f.Message
		}
		return k
	}
	for _, f := range findings {
		if known, again := best[of(f)]; !again || rank(f) < rank(known) {
			best[of(f)] = f
		}
	}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		b := best[of(f)]
		return f.Target != b.Target || f.Question != b.Question
	})
}

// undeletable are the namespaces that the API server does not let go
// (k8s.io/apiserver, pkg/admission/plugin/namespace/lifecycle).
var undeletable = []string{"default", "kube-system", "kube-public"}

// implied are the namespaces that objects of the set are in, and that the set
// does not hold itself. Each stands at the first object that is in it.
func (a *asker) implied(subjects []*subject) []*subject {
	var found []*subject
	for _, sub := range subjects {
		id := policies.Object{Resource: "namespaces", Name: sub.id.Namespace}
		if id.Name == "" || a.index[id] != nil || slices.Contains(undeletable, id.Name) {
			continue
		}
		made := &subject{Object: sub.Object, id: id, resource: &namespaces, implied: true}
		a.index[id] = made
		found = append(found, made)
	}
	return found
}

var namespaces = cluster.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}

// wellFormed tells whether a value can be taken for an object.
func wellFormed(value map[string]any) bool {
	metadata, ok := value["metadata"].(map[string]any)
	if !ok {
		return false
	}
	for _, m := range []map[string]any{value, metadata} {
		for _, key := range []string{"apiVersion", "kind", "name", "namespace", "generateName"} {
			if v, found := m[key]; found {
				if _, ok := v.(string); !ok && v != nil {
					return false
				}
			}
		}
	}
	return true
}

func (s *set) problem(o *source.Object, message string) {
	if err := s.load(o); err != nil {
		s.problems = append(s.problems, Problem{Place: placed(o.File, source.Position{Line: o.From, Column: 1}, o.Source()), Message: message})
		return
	}
	p, _ := o.Find("")
	s.problems = append(s.problems, Problem{Place: placed(o.File, p, o.Source()), Message: message})
}

// asker asks the policies about the objects of a set.
type asker struct {
	set    *set
	engine *policies.Engine
	facts  *cluster.Layers
	index  map[policies.Object]*subject
	all    question.Set // of the set
}

// prepare finds the questions about a subject that concern a policy.
func (a *asker) prepare(ctx context.Context, sub *subject) error {
	if quiet(sub.Object) && (sub.object == nil || len(sub.object.GetFinalizers()) == 0) {
		return nil
	}
	if sub.trimmed {
		if err := a.set.complete(sub); err != nil {
			a.set.problem(sub.Object, err.Error())
			return nil
		}
		defer sub.trim()
	}
	defer sub.unpack()()
	questions := a.questions(sub)
	if quiet(sub.Object) {
		// With what works for them in the same set, they go together.
		questions = slices.DeleteFunc(questions, func(q asked) bool { return q.Question != DeleteSet || !owned(q.input) })
	} else if a.set.run.asked(sub.File) {
		a.note(sub, questions[0].input["ownership"].(map[string]any))
	}
	large := a.set.loaded > maxLoaded
	for _, q := range questions {
		asked, compiled := a.engine.Expect(q.trigger, q.input, q.facts)
		if !asked {
			continue
		}
		a.set.pending = append(a.set.pending, q)
		a.set.waits = a.set.waits || !compiled && !large
	}
	if large {
		return a.set.ask(ctx)
	}
	return nil
}

// owned tells whether the set holds what removes a finalizer of the object.
func owned(input map[string]any) bool {
	verdicts, _ := input["ownership"].(map[string]any)
	for _, verdict := range verdicts {
		if v, _ := verdict.(map[string]any); v["state"] == cluster.Alive {
			return true
		}
	}
	return false
}

// asked is a question about a subject.
type asked struct {
	Question
	about   *subject
	trigger policies.Trigger
	input   map[string]any
	facts   policies.Facts
}

func (a *asker) questions(sub *subject) []asked {
	onDelete := DeleteObject
	if sub.resource.GroupResource() == question.Namespaces {
		onDelete = DeleteNamespace
	}
	var all []asked
	deletion := sub.target().Delete(deleteOptions)
	a.facts.Ask(deletion, func(m cluster.Moment) {
		ownership := m.Ownership()
		// What has an owner is written down as its owner made it, and applied by nobody else.
		if len(sub.object.GetOwnerReferences()) == 0 {
			creation := sub.target().Create()
			all = append(all, asked{ApplyObject, sub, policies.Apply, creation.Input(ownership, m.About(creation).Refusals()), a.facts})
		}
		input := deletion.Input(ownership, m.Refusals())
		all = append(all, asked{onDelete, sub, policies.Delete, input, a.facts})
		if len(sub.object.GetFinalizers()) > 0 && len(a.index) > 1 {
			all = append(all, asked{DeleteSet, sub, policies.Delete, input, a.together()})
		}
	})
	return all
}

// together are the facts of a set of which everything is deleted.
func (a *asker) together() policies.Facts {
	if a.all.Empty() {
		for id := range a.index {
			a.all.Add(id.Resource, id.Namespace, id.Name, 0)
		}
	}
	return a.all.Over(a.facts)
}

// note counts the finalizers whose owners only a cluster knows.
func (a *asker) note(sub *subject, ownership map[string]any) {
	owners := map[string]bool{}
	for _, verdict := range ownership {
		v, _ := verdict.(map[string]any)
		if owner, _ := v["owner"].(string); v["state"] == cluster.Unasked && owner != "" {
			owners[owner] = true
		}
	}
	for owner := range owners {
		a.set.notes.ask(owner, 1)
	}
}

func (a *asker) evaluate(ctx context.Context, q asked) error {
	sub := q.about
	result, err := a.engine.Evaluate(ctx, q.trigger, q.input, q.facts)
	if err != nil {
		return fmt.Errorf("ask the policies about %s %s: %w", sub.Kind, sub.Name, err)
	}
	for _, err := range result.Errors {
		a.set.problem(sub.Object, err.Error())
	}
	for _, f := range result.Findings {
		a.found(q.Question, sub, f)
	}
	return nil
}

// deleteOptions are what kubectl sends; nothing changes them.
var deleteOptions = map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"}

// target is what questions are about.
func (sub *subject) target() question.Target {
	t := question.Target{
		Kind: sub.object.GroupVersionKind(), Resource: sub.resource.GroupVersionResource,
		Namespace: sub.object.GetNamespace(), Name: sub.object.GetName(), Object: sub.object.Object,
	}
	t.Resource.Group, t.Resource.Version = t.Kind.Group, t.Kind.Version
	return t
}

// found places a finding: at its field in its first object where the set holds
// that, else at the object that was asked about.
func (a *asker) found(question Question, sub *subject, f policies.Finding) {
	if len(f.Objects) > 0 && !slices.ContainsFunc(f.Objects, func(o policies.Object) bool { return o.Resource != "pods" || a.index[o] != nil }) {
		return // pods that a workload will have: their template is asked about by itself
	}
	at := sub
	if len(f.Objects) > 0 && f.Objects[0] != sub.id { // several files may hold one of that name
		if other := a.index[f.Objects[0]]; other != nil {
			at = other
		}
	}
	field := f.Field
	if at.implied {
		field = ""
	}
	f = told(f)
	if f.Severity == policies.None {
		return
	}
	if question == DeleteSet && a.scattered(sub, f.Objects) && f.Severity != policies.Info {
		f.Severity = policies.Low
		f.Evidence = append(slices.Clone(f.Evidence), "they are in several files, which no kustomization makes one: it depends on which of them are deleted together")
	}
	if !a.set.run.asked(sub.File) && !a.set.run.asked(at.File) {
		return // neither what goes nor what it leaves behind is in a file that is asked about
	}
	a.set.unplaced = append(a.set.unplaced, unplaced{len(a.set.findings), at, sub, field})
	a.set.findings = append(a.set.findings, Finding{
		Finding: f, Question: question, Target: sub.id, Object: at.id,
		Place: placed(at.File, source.Position{Line: at.From, Column: 1}, at.Source()),
	})
}

// scattered tells whether other objects of a finding are in other files, which nothing but a
// folder holds together: the kustomization in it may name others.
func (a *asker) scattered(sub *subject, objects []policies.Object) bool {
	return slices.ContainsFunc(objects, func(o policies.Object) bool {
		other := a.index[o]
		return other != nil && other.File != sub.File && (a.set.loose || !a.set.run.names(sub.File) || !a.set.run.names(other.File))
	})
}

// told is a finding as it is told to somebody who can change a manifest.
func told(f policies.Finding) policies.Finding {
	f.Severity = cmp.Or(f.Manifest.Severity, f.Severity)
	if f.Manifest.Remedy != "" {
		f.Remedy, f.Steps = f.Manifest.Remedy, nil
	}
	return f
}

// unplaced is a finding of which no more than the object is known that it stands
// at, for want of the text.
type unplaced struct {
	finding int
	at, sub *subject // sub was asked about
	field   string
}

// place returns the findings in their places, which are found document by
// document.
func (s *set) place() []Finding {
	findings := slices.Clone(s.findings) // what was told stays as it is
	slices.SortStableFunc(s.unplaced, func(a, b unplaced) int {
		return cmp.Or(cmp.Compare(a.at.File.Name, b.at.File.Name), cmp.Compare(a.at.Line(), b.at.Line()))
	})
	for _, u := range s.unplaced {
		at := u.at
		if s.load(at.Object) != nil {
			if at = u.sub; s.load(at.Object) != nil {
				continue
			}
		}
		p, _ := at.Find(u.field)
		f := &findings[u.finding]
		f.Object, f.Place, f.Value = at.id, placed(at.File, p, at.Source()), p.Value
		if s.build != nil && len(s.build.reads) > 0 {
			f.Kustomization = s.build.directory.Name
			if place, err := s.build.origin(at.Object, u.field, p.Value); err == nil {
				f.Place = place
			}
		}
	}
	s.unplaced = nil
	return findings
}

// incomplete tells whether a webhook configuration lacks rules: software fills
// them in when it runs.
func incomplete(u *unstructured.Unstructured) bool {
	if !strings.HasSuffix(u.GetKind(), "WebhookConfiguration") {
		return false
	}
	webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	return len(webhooks) == 0 || slices.ContainsFunc(webhooks, func(w any) bool {
		hook, _ := w.(map[string]any)
		rules, _ := hook["rules"].([]any)
		return len(rules) == 0
	})
}
