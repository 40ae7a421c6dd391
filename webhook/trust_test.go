package webhook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
)

// TestDeclarations reviews an object that hangs and declares that it does not.
func TestDeclarations(t *testing.T) {
	const external = `"annotations":{"termguard.dev/finalizer-owner":"external"}`
	declared := "annotation " + cluster.OwnerAnnotation + ": external"
	cases := map[string]struct {
		reason  string
		object  string // beside its finalizers
		trust   *config.Trust
		exists  bool
		allowed bool
		audit   string
		events  []string
	}{
		"plain":                      {"It hangs, and is refused.", `"labels":{}`, nil, true, false, "", nil},
		"declared":                   {"The outcome changes, not without a trace.", external, nil, true, true, declared, []string{declared}},
		"trusted there":              {"Its namespace is trusted.", external, &config.Trust{Namespaces: []string{"d*"}}, true, true, declared, []string{declared}},
		"not trusted":                {"It counts as if it were not there.", external, &config.Trust{Namespaces: []string{"other"}}, true, false, "", nil},
		"no replica saw it":          {"A forged review writes nothing with its text.", external, nil, false, true, declared, nil},
		"break-glass without a user": {"Nor does one that breaks the glass.", `"annotations":{"termguard.dev/allow-hang":"a text of the caller"}`, nil, false, true, "", nil},
	}
	engine := realEngine(t)
	world := func(t *testing.T, object string) *cluster.World {
		t.Helper()
		kiali := map[string]any{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"kiali.io/v1alpha1","kind":"Kiali","metadata":`+object+`}`), &kiali); err != nil {
			t.Fatal(err)
		}
		w, err := cluster.FromObjects(cluster.Options{}, []*unstructured.Unstructured{
			{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"}}}, {Object: kiali},
		})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			events := &recorder{}
			object := `{"namespace":"demo","uid":"k","finalizers":["kiali.io/finalizer"],"name":"kiali",` + tc.object + `}`
			inFacts := object
			if !tc.exists {
				inFacts = `{"namespace":"demo","name":"another"}`
			}
			client, url := serve(t, Options{
				Evaluator: engine, Facts: world(t, inFacts), Authentic: true, Recorder: events, Trust: tc.trust, Deadline: time.Minute,
				Enforcement: config.Enforcement{Default: config.Deny},
			})
			_, got := post(t, client, url, body(t, v1, deleteKiali(object)))
			if got.Response.Allowed != tc.allowed || got.Response.AuditAnnotations["declared-owner"] != tc.audit {
				t.Errorf("%s\nanswer: %+v", tc.reason, got.Response)
			}
			if diff := cmp.Diff(tc.events, events.reasons()); diff != "" {
				t.Errorf("%s\nevents: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDeclarationsInside reviews a namespace with an object that declares an owner of its
// finalizer.
func TestDeclarationsInside(t *testing.T) {
	const by = "annotation termguard.dev/finalizer-owner of objects in the namespace"
	cases := map[string]struct {
		reason      string
		annotations map[string]string // of the object inside
		trusts      func(namespace string) bool
		mode        config.Mode
		allowed     bool
		audit       string
		events      []string
	}{
		"plain":       {"It hangs, and is refused.", nil, nil, config.Deny, false, "", nil},
		"declared":    {"The outcome changes, not without a trace.", map[string]string{cluster.OwnerAnnotation: "external"}, nil, config.Deny, true, by, []string{by}},
		"same":        {"What is declared changes nothing.", map[string]string{cluster.OwnerAnnotation: "Deployment/no/no"}, nil, config.Deny, false, "", nil},
		"not trusted": {"It counts as if it were not there.", map[string]string{cluster.OwnerAnnotation: "external"}, func(string) bool { return false }, config.Deny, false, "", nil},
		"warnings":    {"Nothing is denied: the audit log has the declaration.", map[string]string{cluster.OwnerAnnotation: "external"}, nil, config.Warn, true, by, nil},
	}
	engine := realEngine(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kiali := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "kiali.io/v1alpha1", "kind": "Kiali",
				"metadata": map[string]any{"namespace": "demo", "name": "kiali", "finalizers": []any{"kiali.io/finalizer"}},
			}}
			kiali.SetAnnotations(tc.annotations)
			world, err := cluster.FromObjects(cluster.Options{Trusts: tc.trusts}, []*unstructured.Unstructured{
				{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"}}}, kiali,
			})
			if err != nil {
				t.Fatal(err)
			}
			events := &recorder{}
			client, url := serve(t, Options{
				Evaluator: engine, Facts: world, Authentic: true, Recorder: events, Deadline: time.Minute,
				Enforcement: config.Enforcement{Default: tc.mode},
			})
			_, got := post(t, client, url, body(t, v1, with(deleteNamespace, `{"name":"demo"}`, `{"name":"demo","uid":"u"}`)))
			if got.Response.Allowed != tc.allowed || got.Response.AuditAnnotations["declared-owner"] != tc.audit {
				t.Errorf("%s\nanswer: %+v", tc.reason, got.Response)
			}
			if diff := cmp.Diff(tc.events, events.reasons()); diff != "" {
				t.Errorf("%s\nevents: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTrustIsChecked(t *testing.T) {
	const start = "{apiVersion: termguard.dev/v1, kind: Config, "
	for text, want := range map[string]string{
		"trustAnnotations: {namespaces: ['[']}}": "trustAnnotations.namespaces",
		"trustAnnotations: {namespace: [a]}}":    "unknown field",
	} {
		if _, err := config.Read(strings.NewReader(start+text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q, got %v", text, want, err)
		}
	}
	c, err := config.Read(strings.NewReader(start+"trustAnnotations: {}}"), nil)
	if err != nil || c.Trust().TrustsNamespace("a") || !c.Trust().TrustsNamespace("") {
		t.Errorf("an empty list trusts no namespace: %v", err)
	}
}
