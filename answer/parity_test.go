package answer

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// partial has fixtures whose finding reads parts of the object that the facts do not hold: the
// handler reports it, and check over a snapshot cannot.
var partial = map[string]string{
	"slow_termination/testdata/hang_unseen.yaml": "a pod that may not be listed",
}

// otherwise has fixtures about which check knows something else, in a cluster as over a snapshot.
var otherwise = map[string]string{
	"admission_policy_blocks_delete/testdata/hang_some_objects.yaml": "check reads which objects the policy sees",
	"admission_policy_blocks_delete/testdata/hang_labeled_pods.yaml": "check reads which objects the policy sees",
	"failing_webhook_blocks_delete/testdata/hang_some_objects.yaml":  "check reads which objects the webhook sees",
	"webhook_backend_in_namespace/testdata/hang_labels.yaml":         "check reads which objects the webhook sees",
	"finalizer_already_stuck/testdata/hang_content_like_others.yaml": "check reads custom resources in the namespace alone",
	"finalizer_already_stuck/testdata/hang_elsewhere.yaml":           "check reads custom resources in the namespace alone",
	"missing_reference/testdata/ok_right_in_namespace.yaml":          "check reads custom resources in the namespace alone",
}

// TestParity checks the target of each fixture over a snapshot: check reports the handler's
// findings, except for those in partial.
func TestParity(t *testing.T) {
	race.Skip(t)
	engine := newEngine(t)
	compared := 0
	for d := range samples(t) {
		if slices.ContainsFunc(d.all, func(o *unstructured.Unstructured) bool { return o.Object["set"] != nil || o.Object["setOrder"] != nil }) {
			continue // of a command with several objects
		}
		short, _ := filepath.Rel("../policies", d.file)
		if otherwise[filepath.ToSlash(short)] != "" {
			continue
		}
		a, err := snapshots.Open(d.file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		s, read, err := fromCluster(t, live.Over(a), a.Options(cluster.Options{}), d.name)
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
				if (Name{Object: policies.Object{Resource: cluster.Resources(all)[object.GroupVersionKind()].String(), Namespace: object.GetNamespace(), Name: object.GetName()}}) == name {
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
	return world, Name{Object: policies.Object{Resource: request.Resource, Namespace: request.Namespace, Name: request.Name}}, objects, true
}
