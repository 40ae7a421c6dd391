package webhook

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func namespaceNamed(name string, uid types.UID, deleting bool) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	if deleting {
		m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return m
}

func deleteOf(name string, change func(*request)) request {
	r := request{
		raw:      map[string]any{"resource": map[string]any{"version": "v1", "resource": "namespaces"}},
		occasion: onDelete, resource: namespaces, name: name,
		old: map[string]any{"metadata": map[string]any{"name": name, "uid": "u"}},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestGrader(t *testing.T) {
	will := policies.Finding{Policy: "p", Certainty: policies.Will, Severity: policies.High}
	may := policies.Finding{Policy: "p", Certainty: policies.May, Severity: policies.High}
	info := policies.Finding{Policy: "p", Certainty: policies.Will, Severity: policies.Info}
	goneAfter := func(d time.Duration) func(*Grader, *fake.FakeMetadataClient) {
		return func(_ *Grader, c *fake.FakeMetadataClient) {
			time.Sleep(d)
			if err := c.Tracker().Delete(namespaceResource, "", "a"); err != nil {
				panic(err)
			}
		}
	}
	tests := map[string]struct {
		reason  string
		found   []policies.Finding
		change  func(*request)
		happens func(*Grader, *fake.FakeMetadataClient)
		object  *metav1.PartialObjectMetadata
		want    []string
		wrong   string
	}{
		"said hangs, hangs":              {"right", []policies.Finding{will}, nil, nil, nil, []string{"p hangs hung"}, ""},
		"said hangs, completes":          {"a false alarm", []policies.Finding{will}, nil, goneAfter(10 * time.Second), nil, []string{"p hangs completed"}, "p"},
		"said hangs, somebody helps":     {"no false alarm: it did not go by itself", []policies.Finding{will}, nil, goneAfter(5 * time.Minute), nil, []string{"p hangs cured"}, ""},
		"said may, completes":            {"it was not said for certain", []policies.Finding{may}, nil, goneAfter(10 * time.Second), nil, []string{"p at-risk completed"}, ""},
		"said nothing, completes":        {"right", nil, nil, goneAfter(10 * time.Second), nil, []string{"none completes completed"}, ""},
		"said nothing, completes slowly": {"right", nil, nil, goneAfter(5 * time.Minute), nil, []string{"none completes completed"}, ""},
		"said nothing, hangs":            {"a miss", nil, nil, nil, nil, []string{"none completes hung"}, ""},
		"good to know only":              {"an estimate predicts no hang", []policies.Finding{info}, nil, goneAfter(10 * time.Second), nil, []string{"none completes completed"}, ""},
		"gone, and there again":          {"another object of that name", []policies.Finding{will}, nil, nil, namespaceNamed("a", "other", false), []string{"p hangs completed"}, "p"},
		"refused by another":             {"the deletion never began", []policies.Finding{will}, nil, nil, namespaceNamed("a", "u", false), nil, ""},
		"dry run":                        {"nothing is deleted", []policies.Finding{will}, func(r *request) { r.dryRun = true }, nil, nil, nil, ""},
		"helped at once": {
			"a script takes the finalizers off by hand", []policies.Finding{will}, nil,
			func(g *Grader, c *fake.FakeMetadataClient) {
				g.Helped(cluster.Removal{Namespace: "a", Name: "it", UID: "x"})
				goneAfter(time.Second)(g, c)
			},
			nil, []string{"p hangs cured"}, "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := runtime.NewScheme()
				if err := metav1.AddMetaToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				object := tc.object
				if object == nil {
					object = namespaceNamed("a", "u", true)
				}
				client := fake.NewSimpleMetadataClient(scheme, object)
				registry := prometheus.NewRegistry()
				var wrong []string
				g := NewGrader(client, registry, func(policy string) { wrong = append(wrong, policy) }, slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { g.Run(ctx); close(done) }()
				g.Said(deleteOf("a", tc.change), considered{result: policies.Result{Findings: tc.found}})
				if tc.happens != nil {
					tc.happens(g, client)
				}
				time.Sleep(20 * time.Minute)
				cancel()
				<-done
				if diff := cmp.Diff(tc.want, outcomes(t, registry)); diff != "" {
					t.Errorf("%s: -want +got\n%s", tc.reason, diff)
				}
				if got := strings.Join(wrong, ","); got != tc.wrong {
					t.Errorf("%s: false alarm of %q, want %q", tc.reason, got, tc.wrong)
				}
				if len(g.waiting) > 0 {
					t.Errorf("%d deletions are followed for ever", len(g.waiting))
				}
			})
		})
	}
}

// outcomes are the labels of the outcomes that were counted.
func outcomes(t *testing.T, registry *prometheus.Registry) (found []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			found = append(found, labels["policy"]+" "+labels["predicted"]+" "+labels["real"])
		}
	}
	return found
}

func TestGraderIsBounded(t *testing.T) {
	g := NewGrader(nil, prometheus.NewRegistry(), nil, slog.Default())
	for i := range 3 * maxGraded {
		g.Said(deleteOf("a", func(r *request) { r.old["metadata"].(map[string]any)["uid"] = string(rune(i + 0x4e00)) }), considered{})
	}
	if len(g.waiting) != maxGraded {
		t.Errorf("%d deletions are followed", len(g.waiting))
	}
}
