package webhook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/policytest"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// besides is the policy that the two may disagree about: a request that the API server refuses
// before it calls a webhook is refused by the API server itself.
const besides = "refused-request"

// TestSaysWhatCheckSays sends the handler the deletion of every object in the worlds of the
// fixtures, as the API server sends it. It has the findings of check over the same facts, and is
// silent only if check says that the deletion completes. (Other tests compare scan, and check over
// a snapshot.)
func TestSaysWhatCheckSays(t *testing.T) {
	files, err := filepath.Glob("../policies/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	engine := realEngine(t)
	options, err := question.FromFlags("background", -1, false)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i, file := range files {
		if race.Detector && i%8 != 0 {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fixture, err := policytest.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		objects := fixture.Objects()
		world, err := cluster.FromObjects(cluster.Options{}, objects)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		types := cluster.Resources(objects)
		h := NewHandler(Options{Log: quiet, Evaluator: engine, Facts: world, Deadline: time.Minute})
		for _, object := range objects {
			var subject answer.Subject
			exists := false
			world.Read(func(f cluster.Facts) {
				subject, exists = answer.Described(f, types[object.GroupVersionKind()].String(), object.GetNamespace(), object.GetName())
			})
			if !exists || object.GetDeletionTimestamp() != nil {
				continue // check needs the cluster; and a second deletion never comes to a webhook
			}
			subject.Object, subject.Unseen, subject.Stub = object.Object, nil, ""
			all, err := answer.Ask(t.Context(), engine, world, answer.Question{Targets: []answer.Subject{subject}, Options: options})
			if err != nil {
				t.Fatal(err)
			}
			want := all.Items[0]
			review := policies.Result{Unseen: want.Unseen, Findings: slices.DeleteFunc(want.Findings, func(f policies.Finding) bool { return f.Policy == besides })}
			got := h.Handle(t.Context(), sent(t, subject, options))
			compared++
			ids := strings.Split(got.AuditAnnotations["policies"], ",")
			ids = slices.DeleteFunc(ids, func(f string) bool { return strings.HasPrefix(f, besides) })
			if both := audit(review.Findings); strings.Join(ids, ",") != both {
				t.Errorf("%s: %s: check finds %q, the webhook %q", file, subject, both, ids)
			}
			if review.Verdict() != policies.Completes && len(got.Warnings) == 0 {
				t.Errorf("%s: %s: check says %s, and the webhook is silent", file, subject, review.Verdict())
			}
		}
	}
	if !race.Detector && compared < 400 {
		t.Errorf("compared only %d answers", compared)
	}
}

// sent returns the request for a deletion as the API server sends it.
func sent(t *testing.T, s answer.Subject, options map[string]any) admission.Request {
	t.Helper()
	text := func(object map[string]any) runtime.RawExtension {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	kind, resource := s.Type.GroupVersion().WithKind(s.Type.Kind), s.Type.GroupVersionResource
	namespace := s.Namespace
	if resource.Resource == "namespaces" && resource.Group == "" {
		namespace = s.Name
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Delete,
		Kind:      metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource:  metav1.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Resource},
		Namespace: namespace, Name: s.Name,
		UserInfo:  authenticationv1.UserInfo{Username: s.User.Username, Groups: s.User.Groups},
		OldObject: text(s.Object), Options: text(options),
	}}
}
