package check

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// partial has fixtures whose finding reads parts of the object that the facts do not hold: the
// handler reports it, and check over a snapshot cannot.
var partial = map[string]string{
	"daemonset_node_affinity/testdata/hang_delete.yaml": "the affinity of a DaemonSet",
	"attachment_held/testdata/ok_bound_volume.yaml":     "the phase of a volume",
	"in_use/testdata/ok_bound.yaml":                     "the phase of a volume",
	"orphaned_finalizer/testdata/hang_many.yaml":        "all of many finalizers",
	"refused_request/testdata/hang_condition.yaml":      "the conditions of a webhook",
	"refused_request/testdata/hang_untrusted.yaml":      "the rules of a webhook",
	"slow_termination/testdata/ok_mirror.yaml":          "that a pod mirrors a static one",
	"storage_in_use/testdata/hang_bound_to_nobody.yaml": "the phase of a volume",
	"refused_request/testdata/hang_own_delete.yaml":     "the rules of a webhook",
	"refused_request/testdata/hang_policy.yaml":         "the expressions of a policy",
	"refused_request/testdata/hang_selected.yaml":       "the selector of a webhook",
	"refused_request/testdata/hang_unknown_user.yaml":   "the conditions of a webhook",
	"refused_request/testdata/hang_webhook_down.yaml":   "the conditions of a webhook",
	"refused_request/testdata/ok_another_user.yaml":     "the conditions of a webhook",
	"refused_request/testdata/ok_not_selected.yaml":     "the selector of a webhook",
	"slow_termination/testdata/hang_unseen.yaml":        "a pod that may not be listed",
	"slow_termination/testdata/hang_pod.yaml":           "the preStop hook of a pod",
	"slow_termination/testdata/ok_crash_loop.yaml":      "the states of its containers",
	"slow_termination/testdata/ok_unscheduled.yaml":     "that no node runs it",
	"storage_in_use/testdata/hang_bound.yaml":           "the phase of a volume",
	"volume_driver_missing/testdata/hang_ended.yaml":    "the states of the containers of a pod",
	"dependents_stay/testdata/hang_finalizer.yaml":      "the UID of an object, by which dependents name it",
	"dependents_stay/testdata/hang_node.yaml":           "the UID of an object, by which dependents name it",
}

// TestParity checks the target of each fixture over a snapshot: check reports the handler's
// findings, except for those in partial.
func TestParity(t *testing.T) {
	race.Skip(t)
	engine := newEngine(t)
	compared := 0
	for d := range samples(t) {
		d.world.TakeBodies(func(resource cluster.Resource, namespace, name string) *unstructured.Unstructured {
			for _, object := range d.all {
				if object.GroupVersionKind().Group == resource.Group && cluster.Resources(d.all)[object.GroupVersionKind()].Resource == resource.Resource && object.GetNamespace() == namespace && object.GetName() == name {
					return object
				}
			}
			return nil
		})
		var snapshot bytes.Buffer
		if err := snapshots.Write(d.world, &snapshot); err != nil {
			t.Fatal(err)
		}
		read, err := snapshots.Read(&snapshot)
		if err != nil {
			t.Fatal(err)
		}
		s, err := FromFacts(read, d.name)
		if err != nil {
			t.Errorf("%s: %v", d.file, err)
			continue
		}
		want, err := ask(t.Context(), engine, d.world, d.subject, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ask(t.Context(), engine, read, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		unsure := got.Verdict == policies.Unknown && len(got.Unseen) > len(want.Unseen)
		short, _ := filepath.Rel("../policies", d.file)
		diff := cmp.Diff(want.all, got.all, cmpopts.IgnoreUnexported(Answer{}, Item{}, Wait{}))
		if unsure || got.Verdict == want.Verdict { // it may know less, if it says so
			again := got
			again.Verdict, again.Unseen = want.Verdict, want.Unseen
			again.all.Verdict = want.all.Verdict
			diff = cmp.Diff(want.all, again.all, cmpopts.IgnoreUnexported(Answer{}, Item{}, Wait{}))
		}
		if why := partial[filepath.ToSlash(short)]; why != "" {
			if diff == "" {
				t.Errorf("%s: a snapshot now has %s: remove it from partial", d.file, why)
			}
			if got.Verdict == policies.Completes && want.Verdict != policies.Completes {
				t.Errorf("%s: a snapshot lacks %s, but check completes where the handler says %s", d.file, why, want.Verdict)
			}
			continue
		}
		if diff != "" {
			t.Errorf("%s: -handler, +check --snapshot:\n%s", d.file, diff)
		}
		compared++
	}
	if compared < 50 {
		t.Errorf("compared only %d fixtures", compared)
	}
}

// sample is the target of a fixture: the facts, and the object as the handler has it.
type sample struct {
	file    string
	world   *cluster.World
	name    Name
	subject Subject
	all     []*unstructured.Unstructured
}

// samples yields the fixtures whose target is in the facts: any other needs the cluster. Under the
// race detector it yields one in eight.
func samples(t *testing.T) iter.Seq[sample] {
	t.Helper()
	files, err := filepath.Glob("../policies/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(sample) bool) {
		for i, file := range files {
			if race.Detector && i%8 != 0 {
				continue
			}
			world, name, all, ok := fixture(t, file)
			if !ok {
				continue
			}
			subject, err := FromFacts(world, name)
			if err != nil {
				continue
			}
			for _, object := range all {
				if (Name{Type: cluster.Resources(all)[object.GroupVersionKind()].String(), Namespace: object.GetNamespace(), Name: object.GetName()}) == name {
					subject.Object, subject.Unseen = object.Object, nil
				}
			}
			if !yield(sample{file, world, name, subject, all}) {
				return
			}
		}
	}
}

// fixture returns the facts of a fixture and its target; ok is false if its request is no plain
// delete.
func fixture(t *testing.T, file string) (world *cluster.World, name Name, objects []*unstructured.Unstructured, ok bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var request struct {
		Operation, Resource, Namespace, Name, Subresource string
		Options                                           map[string]any
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		asJSON, err := yaml.YAMLToJSON(document)
		if err == nil {
			err = object.UnmarshalJSON(asJSON)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if object.GetKind() != "Request" {
			objects = append(objects, object)
		} else if err := yaml.Unmarshal(document, &request); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if request.Operation != "DELETE" || request.Subresource != "" || len(request.Options) > 0 {
		return nil, Name{}, nil, false
	}
	world, err = cluster.FromObjects(cluster.Options{}, objects)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return world, Name{Type: request.Resource, Namespace: request.Namespace, Name: request.Name}, objects, true
}
