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
	// patchedWebhooks says that a kustomization changes which requests its webhooks match.
	patchedWebhooks bool
	// namespace is set by its kustomization, or "".
	namespace string
	// folderOnly says that only a folder combines the files: users may delete them one by one.
	folderOnly bool
	build      *build // of its objects; nil if they are in their own files
	// ignoresOnly says that its files are read only for their ignores: their objects are in other sets, as they
	// will be applied.
	ignoresOnly bool
	total

	objects         []*source.Object
	deleteHooks     []*source.Object          // Helm hooks that run before the other objects are deleted
	removedVersions map[*source.Object]string // the release since which no server knows their API version
	textBytes       int                       // bytes of text; beyond maxSet, the rest is not read
}

// evaluate builds the facts of a set, evaluates its objects, and places the findings.
func (s *set) evaluate(ctx context.Context) error {
	if !slices.ContainsFunc(s.objects, s.isRelevant) && !slices.ContainsFunc(s.objects, s.isSelfManaged) && !slices.ContainsFunc(s.objects, s.hasMisspeltFinalizer) {
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
			if app := s.generatedApp(o, sub.object.Object); app != nil {
				generated := &subject{Object: o, object: &unstructured.Unstructured{Object: app}, implied: true}
				subjects, objects = append(subjects, generated), append(objects, generated.object)
			}
		}
	}
	objects = append(objects, s.definitionsInOtherFiles(objects)...)
	objects = append(objects, s.selfManagedControllers(subjects)...)
	snapshot, err := s.run.snapshot()
	if err != nil {
		return err
	}
	set := manifests.Set{Objects: objects, Others: s.runsInOtherFiles(ctx)}
	if s.build != nil {
		set.Namespace = s.build.namespace
	}
	if s.build == nil || len(s.build.sources) > 0 { // a chart has its own workloads, in a namespace that we name
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
	a := &evaluator{set: s, engine: engine, facts: cluster.NewLayers(world, snapshot), index: map[policies.Object]*subject{}}
	for _, sub := range subjects {
		sub.resource = resources[sub.object.GroupVersionKind()]
		sub.id = policies.Object{Resource: sub.resource.String(), Namespace: sub.object.GetNamespace(), Name: sub.object.GetName()}
		a.index[sub.id] = sub
	}
	subjects = append(subjects, a.impliedNamespaces(subjects)...)
	for _, sub := range subjects {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.evaluateSubject(ctx, sub); err != nil {
			return err
		}
		s.recordProgress()
	}
	s.findings = mergeSameCause(dropDuplicates(s.findings))
	return nil
}
