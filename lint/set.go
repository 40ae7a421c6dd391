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

// set is applied, and deleted, together.
type set struct {
	run    *run
	folder string // the files' folder, "" for files that were given
	files  []*source.File
	// patched says that a kustomization changes which requests its webhooks match.
	patched bool
	// namespace is set by its kustomization, or "".
	namespace string
	// loose says that only a folder combines the files: users may delete them one by one.
	loose bool
	build *build // of its objects; nil if they are in their own files
	// quoted says that its files are read only for their ignores: their objects are in other sets, as they
	// will be applied.
	quoted bool
	total

	objects []*source.Object
	cleanup []*source.Object          // Helm hooks that run before the other objects are deleted
	past    map[*source.Object]string // the release since which no server knows their API version
	held    int                       // bytes of text; beyond maxSet, the rest is not read
}

// answer builds the facts of a set, evaluates its objects, and places the findings.
func (s *set) answer(ctx context.Context) error {
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
		if sub := s.subject(o); sub != nil {
			subjects = append(subjects, sub)
			objects = append(objects, sub.object)
			if app := s.makes(o, sub.object.Object); app != nil {
				made := &subject{Object: o, object: &unstructured.Unstructured{Object: app}, implied: true}
				subjects, objects = append(subjects, made), append(objects, made.object)
			}
		}
	}
	objects = append(objects, s.elsewhere(objects)...)
	objects = append(objects, s.selves(subjects)...)
	snapshot, err := s.run.snapshot()
	if err != nil {
		return err
	}
	set := manifests.Set{Objects: objects, Others: s.othersRun(ctx)}
	if s.build != nil {
		set.Namespace = s.build.namespace
	}
	if s.build == nil || len(s.build.reads) > 0 { // a chart has its own workloads, in a namespace that we name
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
	a := &asker{set: s, engine: engine, facts: cluster.NewLayers(world, snapshot), index: map[policies.Object]*subject{}}
	for _, sub := range subjects {
		sub.resource = resources[sub.object.GroupVersionKind()]
		sub.id = policies.Object{Resource: sub.resource.String(), Namespace: sub.object.GetNamespace(), Name: sub.object.GetName()}
		a.index[sub.id] = sub
	}
	subjects = append(subjects, a.implied(subjects)...)
	for _, sub := range subjects {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.ask(ctx, sub); err != nil {
			return err
		}
		s.tell()
	}
	s.findings = bundled(distinct(s.findings))
	return nil
}
