package lint

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/manifests"
	"github.com/termguard/termguard/lint/source"
	"github.com/termguard/termguard/policies"
)

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
	cleanup  []*source.Object            // those that Helm runs before it deletes the others
	past     map[*source.Object]string   // since when nobody can apply them, as no server knows their API version
	made     map[*source.Object]*subject // of what was released again at once
	loaded   int                         // bytes of text that are held, or would be
	held     *source.Text                // the document that is, of a large set
	unplaced []unplaced                  // findings whose place is to be found
	plain    map[plain]bool              // of which there is an object that is not packed

	asker   *asker
	pending []asked // questions that concern a policy, and were not asked yet
}

// prepare makes the facts of a set, and finds the questions that concern a policy. A
// large set asks them at once.
func (s *set) prepare(ctx context.Context) error {
	if !slices.ContainsFunc(s.objects, s.interesting) && !slices.ContainsFunc(s.objects, s.deploysItself) && !slices.ContainsFunc(s.objects, s.misnamed) {
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
	objects = append(objects, s.elsewhere(objects)...)
	objects = append(objects, s.selves(subjects)...)
	snapshot, err := s.run.snapshot()
	if err != nil {
		return err
	}
	set := manifests.Set{Objects: objects, Further: packed(subjects), Whole: s.whole(subjects)}
	if s.build != nil {
		set.Namespace = s.build.namespace
	}
	if s.build == nil || len(s.build.reads) > 0 { // a chart has workloads of its own, in a namespace that we name
		set.Elsewhere = func(namespace string) []*unstructured.Unstructured { return s.run.workloads(ctx, namespace) }
	}
	world, err := manifests.Apply(cluster.Options{Owners: s.run.options.Owners, Catalog: s.run.options.Catalog}, s.run.options.KubernetesVersion, set)
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
