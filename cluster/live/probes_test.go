package live

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/probe/report"
)

// probed returns a ConfigMap with the report of a node.
func probed(namespace, name, text string, written time.Time) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{report.Label: "true"}},
		Data:       map[string]string{report.Key: text},
	}
	if !written.IsZero() {
		at := metav1.NewTime(written)
		cm.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{}}, {Time: &at}}
	}
	return cm
}

// TestProbes checks which reports of node probes count, and which of their fields are kept.
func TestProbes(t *testing.T) {
	const (
		head    = `{"apiVersion": "termguard.dev/v1", "kind": "Probe", "node": "n1", "time": "2026-11-21T08:00:00Z", "findings": [`
		full    = head + `{"cause": "full", "certainty": "may", "evidence": "E", "remedy": ""}, {"cause": "busy", "certainty": "will", "evidence": "F", "remedy": "R", "pod": {"namespace": "a", "name": "p", "uid": "u"}}], "unseen": ["files of pod a/p"]}`
		note    = head + `{"cause": "busy", "certainty": "note", "evidence": "E"}]}`
		nothing = head + `]}`
	)
	kept := func(at string) map[string]any {
		return map[string]any{"n1": map[string]any{
			"at":     at,
			"all":    []any{map[string]any{"cause": "full", "certainty": "may", "evidence": "E", "remedy": ""}},
			"pods":   map[string]any{"a": map[string]any{"p": []any{map[string]any{"cause": "busy", "certainty": "will", "evidence": "F", "remedy": "R", "uid": "u"}}}},
			"unseen": []any{"files of pod a/p"},
		}}
	}
	const name, home = "termguard-probe-n1", cluster.HomeNamespace
	tests := map[string]struct {
		reason string
		report *corev1.ConfigMap
		want   map[string]any
	}{
		"counts":            {"all that policies read", probed(home, name, full, time.Time{}), kept("2026-11-21T08:00:00Z")},
		"clock of the node": {"when it was written, the API server knows", probed(home, name, full, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), kept("2026-11-21T09:00:00Z")},
		"a clock ahead":     {"nor does a node whose clock jumped ahead count for longer", probed(home, name, strings.Replace(full, "2026-11-21", "2031-11-21", 1), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), kept("2026-11-21T09:00:00Z")},
		"elsewhere":         {"tenants may write there", probed("a", name, full, time.Time{}), map[string]any{}},
		"of another node":   {"a probe may write what bears its node's name", probed(home, "termguard-probe-n2", full, time.Time{}), map[string]any{}},
		"of no node":        {"no node has this name", probed(home, "termguard-n1", full, time.Time{}), map[string]any{}},
		"note":              {"no reason to hang", probed(home, name, note, time.Time{}), map[string]any{}},
		"nothing":           {"policies need not be evaluated", probed(home, name, nothing, time.Time{}), map[string]any{}},
		"garbage":           {"counts as none", probed(home, name, "{", time.Time{}), map[string]any{}},
		"two reports":       {"something follows", probed(home, name, full+"{}", time.Time{}), map[string]any{}},
		"too long":          {"it is bounded", probed(home, name, full+strings.Repeat(" ", report.MaxSize), time.Time{}), map[string]any{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := cluster.NewWorld(cluster.Options{})
			c := &Cluster{world: w, options: w.Options(), kube: fake.NewClientset(tc.report), log: slog.New(slog.DiscardHandler)}
			c.readProbes(t.Context())
			if diff := cmp.Diff(tc.want, at(w, "probes")); diff != "" {
				t.Errorf("%s\n-want +got\n%s", tc.reason, diff)
			}
			c.keepReport(probed(home, "termguard-probe-n1", nothing, time.Time{}))
			if diff := cmp.Diff(map[string]any{}, at(w, "probes")); diff != "" {
				t.Errorf("once it is mended: -want +got\n%s", diff)
			}
		})
	}
}
