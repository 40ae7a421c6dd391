package webhook

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
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
	"github.com/termguard/termguard/question"
)

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func namespaceNamed(name string, uid types.UID, deleting bool) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	if deleting {
		m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return m
}

// shows is a FinalizerChecker with one answer for every object.
type shows bool

func (s shows) Shows(schema.GroupResource, types.NamespacedName, types.UID, []string) bool {
	return bool(s)
}

// deleting is a deletion and the answers about it.
type deleting struct {
	question.Target
	dry    bool
	hidden bool // from the watch
}

func deleteOf(name string, change func(*deleting)) deleting {
	d := deleting{Target: question.Target{
		Resource: namespaceResource, Name: name, Object: map[string]any{"metadata": map[string]any{"name": name, "uid": "u"}},
	}}
	if change != nil {
		change(&d)
	}
	return d
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
	withFinalizer := func(d *deleting) { d.Object["metadata"].(map[string]any)["finalizers"] = []any{"a.b/c"} }
	tests := map[string]struct {
		reason   string
		findings []policies.Finding
		change   func(*deleting)
		happens  func(*Grader, *fake.FakeMetadataClient)
		object   *metav1.PartialObjectMetadata
		want     []string
	}{
		"hangs, did hang":                {"right", []policies.Finding{will}, nil, nil, nil, []string{"p hangs hung"}},
		"hangs, completed":               {"a false alarm", []policies.Finding{will}, nil, goneAfter(10 * time.Second), nil, []string{"p hangs completed"}},
		"hangs, another user intervened": {"no false alarm: it did not go by itself", []policies.Finding{will}, nil, goneAfter(5 * time.Minute), nil, []string{"p hangs cured"}},
		"may, completed":                 {"the verdict was not certain", []policies.Finding{may}, nil, goneAfter(10 * time.Second), nil, []string{"p at-risk completed"}},
		"no finding, completed":          {"right", nil, nil, goneAfter(10 * time.Second), nil, []string{"none completes completed"}},
		"no finding, completed slowly":   {"right", nil, nil, goneAfter(5 * time.Minute), nil, []string{"none completes completed"}},
		"no finding, did hang":           {"a miss", nil, nil, nil, nil, []string{"none completes hung"}},
		"good to know only":              {"an estimate predicts no hang", []policies.Finding{info}, nil, goneAfter(10 * time.Second), nil, []string{"none completes completed"}},
		"forbidden, completes":           {"a rule of people's own that only warns predicts no hang", []policies.Finding{{Policy: "p", Certainty: policies.Will, Severity: policies.High, Kind: policies.KindForbidden}}, nil, goneAfter(10 * time.Second), nil, []string{"p refused completed"}},
		"never there": {
			"a forged review of a namespace that does not exist", []policies.Finding{will},
			func(d *deleting) { d.Name = "b"; d.Object["metadata"].(map[string]any)["uid"] = "v" }, nil, nil, []string{"p hangs unseen"},
		},
		"never that one": {
			"a forged review: another object has that name", []policies.Finding{will}, nil, nil,
			namespaceNamed("a", "other", false), []string{"p hangs unseen"},
		},
		"refused by another": {"the deletion never began", []policies.Finding{will}, nil, nil, namespaceNamed("a", "u", false), nil},
		"made up": {
			"the watch shows no such object with these finalizers", []policies.Finding{will},
			func(d *deleting) { withFinalizer(d); d.hidden = true }, goneAfter(10 * time.Second), nil, nil,
		},
		"dry run": {"nothing is deleted", []policies.Finding{will}, func(d *deleting) { d.dry = true }, nil, nil, nil},
		"helped at once": {
			"a script takes the finalizers off by hand", []policies.Finding{will}, nil,
			func(g *Grader, c *fake.FakeMetadataClient) {
				g.RecordRemoval(cluster.Removal{Namespace: "a", Name: "it", UID: "x"})
				goneAfter(time.Second)(g, c)
			},
			nil, []string{"p hangs cured"},
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
				d := deleteOf("a", tc.change)
				g := NewGrader(client, shows(!d.hidden), registry, slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)))
				r := d.Delete(nil)
				r.DryRun = &d.dry
				g.Record(r, policies.Result{Findings: tc.findings})
				before := outcomes(t, registry)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { g.Run(ctx); close(done) }()
				synctest.Wait() // it is looked at once
				if tc.happens != nil {
					tc.happens(g, client)
				}
				time.Sleep(20 * time.Minute)
				cancel()
				<-done
				after := outcomes(t, registry)
				maps.DeleteFunc(after, func(_ string, n int) bool { return n == 0 })
				if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(after))); diff != "" {
					t.Errorf("%s: -want +got\n%s", tc.reason, diff)
				}
				for _, one := range tc.want {
					if n, there := before[one]; n > 0 || !there && !strings.HasSuffix(one, string(endingUnseen)) {
						t.Errorf("%q does not rise from zero, so that no rate shows it", one)
					}
				}
				if len(g.deletions) > 0 {
					t.Errorf("%d deletions are followed for ever", len(g.deletions))
				}
			})
		})
	}
}

// outcomes returns the counted outcomes by their labels.
func outcomes(t *testing.T, registry *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			counts[labels["policy"]+" "+labels["predicted"]+" "+labels["real"]] = int(m.GetCounter().GetValue())
		}
	}
	return counts
}

func TestGraderIsBounded(t *testing.T) {
	g := NewGrader(nil, shows(true), prometheus.NewRegistry(), slog.Default())
	for i := range 3 * maxGraded {
		g.Record(deleteOf("a", func(d *deleting) {
			d.Object["metadata"].(map[string]any)["uid"] = string(rune(i + 0x4e00))
		}).Delete(nil), policies.Result{})
	}
	if len(g.deletions) != maxGraded {
		t.Errorf("%d deletions are followed", len(g.deletions))
	}
}
