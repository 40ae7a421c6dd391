package chart

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/test/lab"
)

// TestProbeWritesItsOwn checks that the chart's admission policy restricts each node probe to its own node's
// report: RBAC alone would let it write all of termguard's ConfigMaps.
func TestProbeWritesItsOwn(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	s := newSite(t, l)
	s.helm("install", "termguard", chart(), "--namespace", home, "--create-namespace", "--set", "probe.enabled=true,probe.nodeCondition=true")
	as := func(user string, extra map[string][]string) kubernetes.Interface {
		config := l.Config()
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"}, Extra: extra}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	const probe = "system:serviceaccount:" + home + ":termguard-probe"
	on := func(node string) map[string][]string {
		return map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	write := func(client kubernetes.Interface, name string, labels map[string]string) error {
		_, err := client.CoreV1().ConfigMaps(home).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	// A policy takes effect a moment after its creation.
	if err := l.Await(t.Context(), 30*time.Second, "the admission policy", func(context.Context) (bool, error) {
		return write(as(probe, on("n1")), "termguard-probe-n2", nil) != nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason string
		extra  map[string][]string
		name   string
		labels map[string]string
		want   string
	}{
		"its own":           {"its own report", on("n1"), "termguard-probe-n1", map[string]string{"termguard.dev/probe": "true"}, ""},
		"dotted name":       {"nodes are named as hosts", on("n1.example.com"), "termguard-probe-n1.example.com", nil, ""},
		"of another node":   {"it would forge another's state", on("n1"), "termguard-probe-n2", nil, "its own node only"},
		"the configuration": {"it could turn termguard off", on("n1"), "termguard-config", nil, "its own node only"},
		"named as its node": {"the prefix counts", on("n1"), "n1", nil, "its own node only"},
		"policies":          {"they are read from ConfigMaps with this label", on("n1"), "termguard-probe-n1", map[string]string{"termguard.dev/policy": "x"}, "writes no policies"},
		"without a node":    {"a token that was made by hand", nil, "termguard-probe-n1", nil, "its own node only"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := write(as(probe, tc.extra), tc.name, tc.labels)
			if tc.want == "" && err != nil || tc.want != "" && (!apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s\ngot %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
	_, err = as(probe, on("n1")).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "termguard-probe-n1"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("elsewhere: got %v, want that it is forbidden", err)
	}

	// Also only its own condition of its own node, and events.
	for _, node := range []string{"n1", "n2"} {
		if err := l.Apply(t.Context(), `{apiVersion: v1, kind: Node, metadata: {name: `+node+`, labels: {disk: ssd}}}`); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(node, patch string) error {
		_, err := as(probe, on("n1")).CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	tell := func(kind, node string) error {
		_, err := as(probe, on("n1")).CoreV1().Events("default").Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "n"}, InvolvedObject: corev1.ObjectReference{Kind: kind, Name: node}, Source: corev1.EventSource{Component: "termguard-probe"},
		}, metav1.CreateOptions{})
		return err
	}
	const condition = `{"status": {"conditions": [{"type": "PodsCannotGo", "status": "True"}]}}`
	if err := l.Await(t.Context(), 30*time.Second, "the other admission policies", func(context.Context) (bool, error) {
		return patch("n2", condition) != nil && tell("Node", "n2") != nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"its condition":        {"its own report", patch("n1", condition), ""},
		"again":                {"it changes", patch("n1", `{"status": {"conditions": [{"type": "PodsCannotGo", "status": "False"}]}}`), ""},
		"of another node":      {"it would forge another's state", patch("n2", condition), "its own node only"},
		"another condition":    {"pods would be evicted", patch("n1", `{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}`), "the condition PodsCannotGo only"},
		"capacity":             {"pods would come, or none", patch("n1", `{"status": {"capacity": {"cpu": "1k"}}}`), "nothing of a node but its condition"},
		"a label":              {"an update of the status may change it", patch("n1", `{"metadata": {"labels": {"disk": "none"}}}`), "nothing of a node but its condition"},
		"one label less":       {"as above", patch("n1", `{"metadata": {"labels": null}}`), "nothing of a node but its condition"},
		"an event":             {"of its node", tell("Node", "n1"), ""},
		"one of another node":  {"it would forge another's state", tell("Node", "n2"), "its own node only"},
		"one of another thing": {"as above", tell("Pod", "n1"), "its own node only"},
	} {
		if tc.want == "" && tc.err != nil || tc.want != "" && (tc.err == nil || !strings.Contains(tc.err.Error(), tc.want)) {
			t.Errorf("%s: %s\ngot %v, want %q", name, tc.reason, tc.err, tc.want)
		}
	}
}
