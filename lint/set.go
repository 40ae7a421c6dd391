package lint

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/manifests"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/policies"
)

// input must be small: all are found before the first is linted.
type input struct {
	directories []*files.Directory // its own, and those of its parts
	files       []*files.File      // given by the user, or rendered
	// ignoresOnly is for files whose objects are in other sets, rendered.
	ignoresOnly bool
}

func (i *input) folder() string {
	if len(i.directories) == 0 {
		return ""
	}
	return i.directories[0].Path
}

func (i *input) all() []*files.File {
	files := slices.Clone(i.files)
	for _, d := range i.directories {
		files = append(files, d.Files()...)
	}
	return files
}

// set is applied and deleted together.
type set struct {
	*input
	run   *run
	files []*files.File
	build *build // of its objects; nil if they are in their own files

	objects     []*files.Object
	deleteHooks []*files.Object // run before the other objects are deleted
	textBytes   int
	number      int64
}

func (r *run) set(i *input) *set {
	s := &set{input: i, run: r, number: r.numbers.Add(1), files: i.all()}
	if len(i.files) == 1 {
		s.build = r.builds[i.files[0]]
	}
	for _, file := range s.files {
		file.KeepSchemas = r.options.noShortcuts
	}
	return s
}

// combinedByFolder reports whether only a folder combines the files: users may delete them one by one.
func (s *set) combinedByFolder() bool {
	return len(s.directories) > 0 && s.directories[0].Kustomization == ""
}

func (s *set) evaluate(ctx context.Context) error {
	if len(s.objects) == 0 {
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
	set := manifests.Set{
		Objects: objects,
		Others:  func(w catalog.Workload) bool { return s.run.runsWorkload(ctx, w) },
		Owner:   func(finalizer, resource, owner string) string { return s.run.ownerOf(ctx, finalizer, resource, owner) },
	}
	if s.build != nil {
		set.Namespace = s.build.namespace
	}
	if s.build == nil || len(s.build.sources) > 0 { // a chart has its own workloads, in a namespace that we name
		set.Elsewhere = func(namespace string) []*unstructured.Unstructured { return s.run.workloads()[namespace] }
	}
	world, err := manifests.Apply(cluster.Options{Owners: s.run.options.Owners, Catalog: s.run.options.Catalog}, s.run.options.KubernetesVersion, set)
	if err != nil {
		return err
	}
	if snapshot != nil {
		world.Over(snapshot)
	}
	resources := cluster.Resources(objects)
	a := &evaluator{set: s, engine: engine, world: world, index: map[policies.Object]*subject{}}
	for _, sub := range subjects {
		a.add(sub, resources[sub.object.GroupVersionKind()])
	}
	return a.evaluate(ctx, append(subjects, a.impliedNamespaces(subjects)...))
}
