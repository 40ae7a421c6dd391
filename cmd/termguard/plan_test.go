package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/scan"
	"github.com/termguard/termguard/teardown"
)

// planned runs termguard plan and reads what it prints as JSON; a negative exit code is any of
// an answer.
func planned(t *testing.T, want int, args ...string) (p teardown.Plan, things []string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), append([]string{"termguard", "plan", "-o", "json"}, args...), nil, &out, &errs)
	if code == 2 || want >= 0 && code != want {
		t.Fatalf("%v: exit code %d, want %d: %s\n%s", args, code, want, &errs, &out)
	}
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	for _, wave := range p.Waves {
		for _, thing := range wave.Things {
			things = append(things, scan.Shown(thing.Object))
		}
	}
	return p, things
}

// TestPlan asks a cluster for the plan of what is named: of that, everything is in it, and
// nothing else, and nothing is changed.
func TestPlan(t *testing.T) {
	const plain = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n"
	c := newFakeCluster(t, scanWorld+"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: cart}}"+stored(t, "plain", "cart", 1, "deployed", plain))
	cluster := []string{"--kubeconfig", c.kubeconfig}
	for name, tc := range map[string]struct {
		reason string
		args   []string
		code   int
		things []string
	}{
		"Namespace": {"a namespace, and what is in it", []string{"shop"}, 1, []string{"kialis.kiali.io/kiali -n shop", "namespaces/shop"}},
		"Two":       {"both, and what is in them", []string{"shop", "cart"}, 1, []string{"configmaps/going -n cart", "kialis.kiali.io/kiali -n shop", "namespaces/cart", "namespaces/shop"}},
		"Object":    {"a definition that is named", []string{"shop", "crd/kialis.kiali.io"}, 1, []string{"kialis.kiali.io/kiali -n shop", "customresourcedefinitions.apiextensions.k8s.io/kialis.kiali.io", "namespaces/shop"}},
		"All":       {"everything", []string{"--all"}, 1, []string{"configmaps/going -n cart", "kialis.kiali.io/kiali -n shop", "customresourcedefinitions.apiextensions.k8s.io/kialis.kiali.io", "namespaces/cart", "namespaces/shop", "persistentvolumes/pv-1", "nodes/worker-1"}},
		"Release":   {"what the uninstall deletes", []string{"--release", "plain", "-n", "cart"}, 0, []string{"configmaps/settings -n cart"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, things := planned(t, tc.code, append(tc.args, cluster...)...)
			if diff := cmp.Diff(tc.things, things); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	p, _ := planned(t, 0, append(cluster, "--release", "plain", "-n", "cart")...)
	if command := p.Waves[0].Commands[0]; !strings.HasPrefix(command, "helm uninstall plain -n cart --ignore-not-found --wait --kubeconfig /") {
		t.Errorf("a release is deleted by %q", command)
	}
	for _, request := range c.requests {
		if verb, _, _ := strings.Cut(request, " "); slices.Contains([]string{"DELETE", "PATCH", "PUT"}, verb) {
			t.Errorf("a plan changes something: %s", request)
		}
	}
	file := filepath.Join(t.TempDir(), "facts.json")
	var facts, errs bytes.Buffer
	if code := run(t.Context(), append([]string{"termguard", "snapshot"}, cluster...), nil, &facts, &errs); code != 0 {
		t.Fatal(&errs)
	}
	if err := os.WriteFile(file, facts.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"shop"}, {"shop", "cart"}, {"--all"}, {"shop", "crd/kialis.kiali.io"}} {
		_, live := planned(t, -1, append(args, cluster...)...)
		_, kept := planned(t, -1, append(args, "--snapshot", file)...)
		if diff := cmp.Diff(live, kept); diff != "" || len(live) == 0 {
			t.Errorf("%v: of a snapshot the order is another: -cluster, +snapshot:\n%s", args, diff)
		}
	}
	for want, args := range map[string][]string{
		"say what to plan for":             nil,
		`"shop" and --all`:                 {"shop", "--all"},
		`"shop" and --release`:             {"shop", "--release", "plain"},
		"[all release] were all set":       {"--release", "plain", "--all"},
		`--output is "dot": want one of`:   {"shop", "-o", "dot"},
		"there is no namespace nowhere":    {"nowhere"},
		"namespace kube-system belongs to": {"kube-system"},
		`there is no nodes/none`:           {"nodes/none"},
		"[release snapshot] were all set":  {"--release", "plain", "--snapshot", file},
		"read snapshot: open no-such-file": {"shop", "--snapshot", "no-such-file"},
		`there is no type "gadget"`:        {"gadget/one"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"termguard", "plan"}, args...)
		if !slices.Contains(args, "--snapshot") {
			args = append(args, cluster...)
		}
		if code := run(t.Context(), args, nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit code %d: %s", args, code, &errs)
		}
	}
}

// TestPlanForbidden holds that a plan without rights says what it could not see.
func TestPlanForbidden(t *testing.T) {
	c := newFakeCluster(t, scanWorld)
	c.hidden = []string{"kialis"}
	p, things := planned(t, 1, "shop", "--kubeconfig", c.kubeconfig)
	if p.Verdict == "completes" || !slices.ContainsFunc(p.Unseen, func(u string) bool { return strings.HasPrefix(u, "kialis.kiali.io: forbidden") }) || !slices.Contains(things, "namespaces/shop") {
		t.Errorf("%s, %q, unseen %q", p.Verdict, things, p.Unseen)
	}
	// Rights in the namespace alone are enough.
	c.unlisted = []string{"namespaces", "nodes", "persistentvolumes"}
	if _, things := planned(t, 1, "shop", "--kubeconfig", c.kubeconfig); !slices.Contains(things, "namespaces/shop") {
		t.Errorf("%q", things)
	}
}
