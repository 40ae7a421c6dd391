package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// scanWorld is a cluster with an object that is certainly broken, one that only its status shows as
// broken, and one that is Terminating.
const scanWorld = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, uid: ns-shop, labels: {team: shop}}
spec: {finalizers: [kubernetes]}
status: {phase: Active}
---
apiVersion: v1
kind: Namespace
metadata: {name: cart, uid: ns-cart}
spec: {finalizers: [kubernetes]}
status: {phase: Active}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, uid: ns-ks}
spec: {finalizers: [kubernetes]}
status: {phase: Active}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kialis.kiali.io, uid: crd}
spec:
  group: kiali.io
  scope: Namespaced
  names: {kind: Kiali, plural: kialis}
  versions: [{name: v1alpha1, served: true, storage: true}]
status: {storedVersions: [v1alpha1]}
---
apiVersion: kiali.io/v1alpha1
kind: Kiali
metadata: {name: kiali, namespace: shop, uid: k1, finalizers: [kiali.io/finalizer]}
---
apiVersion: v1
kind: Node
metadata: {name: worker-1, uid: n1}
status:
  conditions:
  - {type: Ready, status: "True", reason: KubeletReady, lastTransitionTime: "2026-11-01T08:00:00Z"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: going, namespace: cart, uid: cm1, deletionTimestamp: "2026-11-01T08:00:00Z", finalizers: [kiali.io/finalizer]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1, uid: pv1, finalizers: [kubernetes.io/pv-protection]}
spec: {claimRef: {namespace: cart, name: data}}
status: {phase: Bound}
`

// scanOf runs termguard scan and reads its JSON output; a negative exit code accepts any that comes
// with an answer.
func scanOf(t *testing.T, want int, args ...string) *scan.Scan {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), append([]string{"termguard", "scan", "-o", "json"}, args...), nil, &out, &errs)
	if code == 2 || want >= 0 && code != want {
		t.Fatalf("exit code %d, want %d: %s\n%s", code, want, &errs, &out)
	}
	return scanIn(t, out.Bytes())
}

// scanIn decodes a scan that -o json wrote.
func scanIn(t *testing.T, text []byte) *scan.Scan {
	t.Helper()
	var s scan.Scan
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestScanSaysWhatCheckSays compares both commands about every object of a cluster.
func TestScanSaysWhatCheckSays(t *testing.T) {
	c := newFakeCluster(t, scanWorld)
	s := scanOf(t, 1, "--kubeconfig", c.kubeconfig)
	verdicts := map[string]string{}
	for _, item := range s.Items {
		verdicts[item.Target.Ref()] = string(item.Verdict)
	}
	for _, named := range [][]string{
		{"namespaces/shop"}, {"namespaces/cart"}, {"customresourcedefinitions.apiextensions.k8s.io/kialis.kiali.io"},
		{"kialis.kiali.io/kiali", "-n", "shop"}, {"--drain", "nodes/worker-1"}, {"configmaps/going", "-n", "cart"}, {"persistentvolumes/pv-1"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"termguard", "check", "-o", "json", "--kubeconfig", c.kubeconfig}, named...), nil, &out, &errs); code == 2 {
			t.Fatalf("%v: %s", named, &errs)
		}
		var report struct{ Verdict string }
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		name := strings.Join(named, " ")
		got := verdicts[strings.TrimPrefix(name, "--drain ")]
		if got == "" {
			got = "completes"
		}
		if got != report.Verdict {
			t.Errorf("%s: check says %s, scan %s", name, report.Verdict, got)
		}
	}
	if n := s.Total().Objects; n != 7 {
		t.Errorf("%d objects evaluated, want 7", n)
	}
	if len(s.Terminating()) != 1 || s.Terminating()[0].Target.Name != "going" {
		t.Errorf("Terminating: %v", s.Terminating())
	}
}

// TestScanFlags checks which objects flags select, and the exit codes.
func TestScanFlags(t *testing.T) {
	race.Skip(t)
	c := newFakeCluster(t, scanWorld)
	cluster := []string{"--kubeconfig", c.kubeconfig}
	cases := map[string]struct {
		reason    string
		args      []string
		code      int
		questions int
	}{
		"Only":        {"Two kinds.", []string{"--only", "nodes,volumes"}, 0, 2},
		"Selector":    {"A namespace by its label, and its objects.", []string{"--namespaces", "team=shop"}, 1, 2},
		"Namespace":   {"One namespace, and its objects.", []string{"-n", "cart"}, 1, 2},
		"Two":         {"Two namespaces, each read by itself.", []string{"-n", "cart", "-n", "shop"}, 1, 4},
		"Never":       {"Any finding.", []string{"--fail-on", "never"}, 0, 7},
		"Broken":      {"A volume in use is not broken.", []string{"--only", "volumes", "--fail-on", "broken"}, 0, 1},
		"Hangs":       {"But its deletion hangs.", []string{"--only", "volumes", "--fail-on", "hangs"}, 1, 1},
		"Refused":     {"But nothing refuses it.", []string{"--only", "volumes", "--fail-on", "refused"}, 0, 1},
		"Nothing":     {"No namespace has that label.", []string{"--namespaces", "team=none"}, 0, 0},
		"NoSuchThing": {"A namespace that does not exist has nothing in it.", []string{"-n", "nowhere"}, 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := scanOf(t, tc.code, append(tc.args, cluster...)...)
			if n := s.Total().Objects; n != tc.questions {
				t.Errorf("%s: %d objects evaluated, want %d", tc.reason, n, tc.questions)
			}
		})
	}
	var names, problem bytes.Buffer
	if code := run(t.Context(), append([]string{"termguard", "scan", "--only", "volumes", "-o", "jsonpath={.kind} {.items[*].target.name}"}, cluster...), nil, &names, &problem); code != 0 || names.String() != "Answer pv-1\n" {
		t.Errorf("jsonpath: exit code %d: %q %s", code, &names, &problem)
	}
	if code := run(t.Context(), append([]string{"termguard", "scan", "-o", "jsonpath={"}, cluster...), nil, &names, &problem); code != exitFailed {
		t.Errorf("a wrong template: exit code %d", code)
	}
	file := filepath.Join(t.TempDir(), "facts.json")
	var facts, errs bytes.Buffer
	if code := run(t.Context(), append([]string{"termguard", "snapshot"}, cluster...), nil, &facts, &errs); code != 0 {
		t.Fatal(&errs)
	}
	if err := os.WriteFile(file, facts.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"One": {"-n", "cart"}, "Two": {"-n", "cart", "-n", "shop"}, "None": {"-n", "nowhere"}} {
		live, kept := scanOf(t, -1, append(args, cluster...)...), scanOf(t, -1, append(args, "--snapshot", file)...)
		if diff := cmp.Diff(live.Counts, kept.Counts); diff != "" || name != "None" && live.Total().Objects == 0 {
			t.Errorf("%s: objects evaluated: -cluster, +snapshot:\n%s", name, diff)
		}
	}
	for name, args := range map[string][]string{
		`--only is "nods": want namespaces, `:       {"--only", "nods"},
		`invalid argument "bad" for "--fail-on"`:    {"--fail-on", "bad"},
		`invalid argument "dot" for "-o, --output"`: {"-o", "dot"},
		`invalid argument "new" for "--fail-on"`:    {"--fail-on", "new"},
		`--namespaces "a in (": `:                   {"--namespaces", "a in ("},
		"[namespace namespaces] were all set":       {"-n", "a", "--namespaces", "b"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"termguard", "scan"}, append(args, cluster...)...), nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), name) {
			t.Errorf("%v: exit code %d: %s", args, code, &errs)
		}
	}
}

// TestScanForbidden checks that resources that cannot be listed are named, and that objects that
// they may block are unknown.
func TestScanForbidden(t *testing.T) {
	c := newFakeCluster(t, scanWorld)
	c.hidden = []string{"kialis", "persistentvolumes"}
	s := scanOf(t, 1, "--kubeconfig", c.kubeconfig, "--fail-on", "unknown")
	if !strings.Contains(fmt.Sprint(s.Unseen), "kialis.kiali.io: forbidden") {
		t.Errorf("resources that cannot be listed are not named: %q", s.Unseen)
	}
	for _, item := range s.Items {
		if item.Target.Name == "shop" && item.Verdict != "unknown" {
			t.Errorf("an unseen object may block it, got %s", item.Verdict)
		}
	}
}

// TestScanWithin checks that rights in one namespace are enough to check it and its objects, and
// that a user who may list nothing gets no clean answer.
func TestScanWithin(t *testing.T) {
	c := newFakeCluster(t, scanWorld)
	c.unlisted = []string{"namespaces", "customresourcedefinitions", "nodes", "persistentvolumes"}
	s := scanOf(t, -1, "--kubeconfig", c.kubeconfig, "-n", "shop")
	var names []string
	for _, item := range s.Items {
		names = append(names, item.Target.Ref())
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"kialis.kiali.io/kiali -n shop", "namespaces/shop"}, names); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	c.hidden = []string{"namespaces", "customresourcedefinitions", "nodes", "persistentvolumes", "kialis", "configmaps"}
	for _, args := range [][]string{nil, {"-n", "shop"}, {"--fail-on", "never"}, {"--namespaces", "team=a"}, {"--only", "nodes"}, {"--only", "custom", "--namespaces", "team=a"}} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"termguard", "scan", "--kubeconfig", c.kubeconfig}, args...), nil, &out, &errs)
		if code != 2 || !strings.Contains(errs.String(), "nothing could be evaluated") || !strings.Contains(out.String(), "namespaces: forbidden") {
			t.Errorf("%v: exit code %d: %s\n%s", args, code, &errs, &out)
		}
	}
}

// TestScanCanceled checks that a scan that is interrupted while it reads the cluster says so.
func TestScanCanceled(t *testing.T) {
	c := newFakeCluster(t, scanWorld)
	ctx, cancel := context.WithCancel(t.Context())
	c.arrived = func(*http.Request) { cancel() }
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"termguard", "scan", "--kubeconfig", c.kubeconfig}, nil, &out, &errs); code != 2 {
		t.Errorf("exit code %d: %s%s", code, &out, &errs)
	}
}

// TestScanInterrupted interrupts a scan while an API does not answer: the scan reports what it
// knows and that this is partial.
func TestScanInterrupted(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		args    []string
		objects []string // what must be told
		unseen  string
	}{
		"Cluster": {"The types read before.", nil, []string{"namespaces/cart", "namespaces/shop"}, "widgets.acme.example.com: not read yet"},
		"Two":     {"The objects of the other namespace were not read.", []string{"-n", "cart", "-n", "shop"}, []string{"namespaces/cart"}, "namespace shop: not read yet"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, scanWorld)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.arrived = func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/widgets") { // which is listed after what is read whole
					cancel()
					<-r.Context().Done()
				}
			}
			var out, errs bytes.Buffer
			code := run(ctx, append([]string{"termguard", "scan", "-o", "json", "--kubeconfig", c.kubeconfig}, tc.args...), nil, &out, &errs)
			s := scanIn(t, out.Bytes())
			if code != 1 || s.Interrupted != "not all of the cluster was read" || s.Mended != nil {
				t.Errorf("%s: exit code %d, interrupted: %q, mended: %v", tc.reason, code, s.Interrupted, s.Mended)
			}
			if !slices.Contains(policies.UnseenTexts(s.Unseen), tc.unseen) {
				t.Errorf("%s: %q is missing: %q", tc.reason, tc.unseen, s.Unseen)
			}
			answers := map[string]string{}
			for _, item := range s.Items {
				answers[item.Target.Ref()] = string(item.Verdict)
			}
			for _, objects := range tc.objects { // what was not read may hold them
				if answers[objects] != "unknown" && answers[objects] != "hangs" {
					t.Errorf("%s: answer about %s is %q: %v", tc.reason, objects, answers[objects], answers)
				}
			}
		})
	}
}

// stored returns the Secret with a revision of a release as Helm stores it.
func stored(t *testing.T, name, namespace string, version int, status, manifest string) string {
	t.Helper()
	record, err := json.Marshal(map[string]any{"name": name, "namespace": namespace, "version": version, "info": map[string]any{"status": status}, "manifest": manifest})
	if err != nil {
		t.Fatal(err)
	}
	value := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(record)))
	return fmt.Sprintf(`
---
{apiVersion: v1, kind: Secret, type: helm.sh/release.v1, metadata: {name: sh.helm.release.v1.%[1]s.v%[3]d, namespace: %[2]s, labels: {owner: helm, name: %[1]s, version: "%[3]d", status: %[4]s}}, data: {release: %[5]s}}`, name, namespace, version, status, value)
}

// TestScanReleases checks that scan and check --release agree about a Helm release and its
// blockers, and that an unreadable release is reported.
func TestScanReleases(t *testing.T) {
	race.Skip(t)
	const kiali, plain = "{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: kiali}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n"
	c := newFakeCluster(t, scanWorld+"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}"+
		stored(t, "kiali", "shop", 1, "superseded", plain)+stored(t, "kiali", "shop", 2, "deployed", kiali)+
		stored(t, "plain", "shop", 1, "deployed", plain)+stored(t, "old", "shop", 4, "uninstalled", kiali)+stored(t, "broken", "cart", 1, "deployed", "a: ["))
	s := scanOf(t, 1, "--kubeconfig", c.kubeconfig, "--only", "releases")
	want := []scan.Count{{Kind: scan.Releases, Objects: 2, Hangs: 1, Completes: 1}}
	if diff := cmp.Diff(want, s.Counts); diff != "" {
		t.Errorf("objects evaluated: -want, +got:\n%s", diff)
	}
	if len(s.Unseen) != 1 || !strings.HasPrefix(s.Unseen[0].String(), "release broken -n cart: ") && !strings.Contains(s.Unseen[0].String(), `release "broken" in namespace "cart"`) {
		t.Errorf("unseen for an unreadable release: %q", s.Unseen)
	}
	verdicts := map[string]string{"kiali": "completes", "plain": "completes"}
	for _, item := range s.Items {
		verdicts[item.Target.Name] = string(item.Verdict)
		if len(item.Parts) != 1 || item.Parts[0].Target.Resource != "kialis.kiali.io" || len(item.HeldBy) != 1 || item.HeldBy[0].Objects[0] != item.Parts[0].Target {
			t.Errorf("blockers of %s: %+v", item.Target, item)
		}
	}
	for name, verdict := range verdicts {
		var out, errs bytes.Buffer
		run(t.Context(), []string{"termguard", "check", "--release", name, "-n", "shop", "-o", "json", "--kubeconfig", c.kubeconfig}, nil, &out, &errs)
		var set struct{ Verdict string }
		if err := json.Unmarshal(out.Bytes(), &set); err != nil {
			t.Fatalf("%v: %s", err, &errs)
		}
		if set.Verdict != verdict {
			t.Errorf("release %s: check says %s, scan %s", name, set.Verdict, verdict)
		}
	}
	if len(s.Causes) != 1 || s.Causes[0].ByKind[scan.Releases] != 1 || s.Causes[0].Mended == nil || s.Causes[0].Mended.Free != 1 {
		t.Errorf("causes: %+v", s.Causes)
	}
	// One cause blocks the release and its object.
	if all := scanOf(t, 1, "--kubeconfig", c.kubeconfig, "--only", "releases,custom"); len(all.Causes) != 1 || all.Causes[0].Holds != 2 {
		t.Errorf("causes, with those of the object itself: %+v", all.Causes)
	}
	if elsewhere := scanOf(t, 0, "--kubeconfig", c.kubeconfig, "--only", "releases", "-n", "cart"); elsewhere.Total().Objects != 0 {
		t.Errorf("in another namespace: %+v", elsewhere.Counts)
	}
	c.hidden = []string{"secrets"}
	var facts, out, errs bytes.Buffer
	if code := run(t.Context(), []string{"termguard", "scan", "--kubeconfig", c.kubeconfig, "--only", "releases"}, nil, &out, &errs); code != 2 || !strings.Contains(out.String(), "Helm releases: their records are Secrets, which could not be listed: forbidden") {
		t.Errorf("without rights: exit code %d: %s\n%s", code, &errs, &out)
	}
	out.Reset()
	errs.Reset()
	file := filepath.Join(t.TempDir(), "facts.json")
	if code := run(t.Context(), []string{"termguard", "snapshot", "--kubeconfig", c.kubeconfig}, nil, &facts, &errs); code != 0 {
		t.Fatal(&errs)
	}
	if err := os.WriteFile(file, facts.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := scanOf(t, -1, "--snapshot", file); len(s.LeftOut) != 1 || !strings.HasPrefix(s.LeftOut[0], "Helm releases: ") {
		t.Errorf("left out of a snapshot: %q", s.LeftOut)
	}
	if run(t.Context(), []string{"termguard", "scan", "--snapshot", file}, nil, &out, &errs); !strings.Contains(out.String(), "\nleft out: Helm releases: ") {
		t.Errorf("no note about the types left out: %s", &out)
	}
	if code := run(t.Context(), []string{"termguard", "scan", "--only", "releases", "--snapshot", file}, nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), "--only releases: ") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}

// TestScanReadsStatus checks that an owner's failure in the status of a custom resource is reported
// for the object and its namespace, as by check, which reads the status of each.
func TestScanReadsStatus(t *testing.T) {
	c := newFakeCluster(t, scanWorld+`
---
apiVersion: v1
kind: Namespace
metadata: {name: mesh, uid: ns-mesh}
spec: {finalizers: [kubernetes]}
status: {phase: Active}
---
apiVersion: kiali.io/v1alpha1
kind: Kiali
metadata: {name: failing, namespace: mesh, uid: k2, finalizers: [kiali.io/finalizer]}
status:
  conditions:
  - {type: Ready, status: "False", reason: ReconcileError, lastTransitionTime: "2020-11-21T09:00:00Z", message: no such host}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kiali-operator, namespace: kiali-operator, uid: d1}
spec: {replicas: 1, template: {spec: {containers: [{name: c, image: quay.io/kiali/kiali-operator:v2}]}}}
status: {readyReplicas: 1}
`)
	s := scanOf(t, 0, "--kubeconfig", c.kubeconfig, "--only", "namespaces,custom", "--fail-on", "never")
	answers := map[string]bool{}
	for _, item := range s.Items {
		for _, h := range item.HeldBy {
			if strings.Contains(h.Says, "has reported a failure") {
				answers[item.Target.Ref()] = true
			}
		}
	}
	for _, want := range []string{"kialis.kiali.io/failing -n mesh", "namespaces/mesh"} {
		if !answers[want] {
			t.Errorf("the failure reported by the owner of %s is missing: %v", want, answers)
		}
	}
}
