package scenario

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/test/lab"
)

// plainFor is how long a deletion of the world at once is watched: three times what the script of
// the plan takes for all of it.
const plainFor = 90 * time.Second

// pruneLimit is how long Argo CD may take, which takes as long as the script of the plan.
const pruneLimit = 3 * time.Minute

// remaining are the kinds of which nothing may be left of a world that is torn down whole.
var remaining = []string{"namespaces", "customresourcedefinitions", "validatingwebhookconfigurations", "persistentvolumes", "nodes"}

// staying are the namespaces that cannot be deleted, or are made anew.
var staying = []string{"namespace/default", "namespace/kube-node-lease", "namespace/kube-public", "namespace/kube-system"}

// aWorld is a lab with ten operators and what they look after.
func aWorld(t *testing.T) *Guarded {
	t.Helper()
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	if _, err := l.StartNode(t.Context(), "steady"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/teardown/world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head, objects, _ := strings.Cut(string(text), "\n---\n")
	var s Scenario
	if err := yaml.UnmarshalStrict([]byte(head), &s); err != nil {
		t.Fatal(err)
	}
	s.Objects, s.Later, _ = strings.Cut(objects, "\n--- # later\n")
	g := &Guarded{Lab: l}
	if err := g.setUp(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return g
}

// left is what there is of the kinds that a teardown leaves nothing of.
func left(t *testing.T, l *lab.Lab) (left []string) {
	t.Helper()
	for _, kind := range remaining {
		left = append(left, strings.Fields(kubectlIn(t, l, "get "+kind+" -o name"))...)
	}
	for name := range strings.FieldsSeq(kubectlIn(t, l, "get apiservices -o jsonpath={.items[?(@.spec.service)].metadata.name}")) {
		left = append(left, "apiservice/"+name)
	}
	return slices.DeleteFunc(left, func(name string) bool { return slices.Contains(staying, name) })
}

// planned is the plan for all of a world, by which everything has to go.
func planned(t *testing.T, l *lab.Lab, form string) string {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "plan", "--all", "--kubeconfig", l.Kubeconfig(), "-o", form)
	var said, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("termguard plan -o %s: %v: %s\n%s", form, err, &errs, &said)
	}
	return said.String()
}

// TestTeardown deletes a world of ten operators at once, which hangs, another by the script
// of its plan, and another by the sync engine of Argo CD and the waves of its plan: both leave
// nothing.
func TestTeardown(t *testing.T) {
	t.Parallel()
	t.Run("AtOnce", func(t *testing.T) {
		if testing.Short() {
			t.Skip("it watches for a minute and a half what hangs: make nightly")
		}
		l := aWorld(t).Lab
		all := strings.ReplaceAll(strings.Join(slices.DeleteFunc(left(t, l), func(name string) bool { return !strings.HasPrefix(name, "namespace/") }), " "), "namespace/", "")
		began := time.Now()
		kubectlIn(t, l, "delete namespace "+all+" --wait=false")
		timer := time.NewTimer(plainFor)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		var stuck []string
		for _, name := range left(t, l) {
			if strings.HasPrefix(name, "namespace/") {
				stuck = append(stuck, name)
			}
		}
		t.Logf("deleted at once, after %v: %d of %d namespaces are left: %s", time.Since(began).Round(time.Second), len(stuck), len(strings.Fields(all)), stuck)
		if len(stuck) == 0 {
			t.Error("all namespaces have gone: the test shows nothing")
		}
	})
	t.Run("ArgoCD", func(t *testing.T) {
		if testing.Short() {
			t.Skip("it builds the sync engine of Argo CD: make nightly")
		}
		l := aWorld(t).Lab
		prune := filepath.Join(t.TempDir(), "prune")
		if said, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../tools/argocd", "-o", prune, ".").CombinedOutput(); err != nil {
			t.Fatalf("build the sync engine of Argo CD: %v\n%s", err, said)
		}
		before := left(t, l)
		waves := planned(t, l, "argocd")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), pruneLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, prune, "-kubeconfig", l.Kubeconfig())
		cmd.Stdin = strings.NewReader(waves)
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("Argo CD prunes by the waves: %v\n%s\n%s", err, said, waves)
		}
		// It does not wait for the last wave.
		var now []string
		if err := l.Await(t.Context(), time.Minute, "the last wave to go", func(context.Context) (bool, error) {
			now = left(t, l)
			return len(now) == 0, nil
		}); err != nil {
			t.Errorf("%v: it leaves %s", err, now)
		}
		t.Logf("by Argo CD's waves, after %v: nothing of %d is left\n%s", time.Since(began).Round(time.Second), len(before), said)
	})
	t.Run("Planned", func(t *testing.T) {
		l := aWorld(t).Lab
		before := left(t, l)
		t.Logf("the plan:\n%s", planned(t, l, "text"))
		script := filepath.Join(t.TempDir(), "teardown.sh")
		if err := os.WriteFile(script, []byte(planned(t, l, "shell")), 0o600); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r, err := l.Shell(t.Context(), "sh "+script)
		took := time.Since(began).Round(time.Second)
		if err != nil || r.Code != 0 {
			t.Fatalf("the script fails after %v: %v: %d\n%s%s", took, err, r.Code, r.Stdout, r.Stderr)
		}
		if now := left(t, l); len(now) > 0 {
			t.Errorf("it leaves %s", now)
		}
		t.Logf("by its plan, after %v: nothing of %d is left", took, len(before))
		if r, err = l.Shell(t.Context(), "sh "+script); err != nil || r.Code != 0 {
			t.Errorf("run again, it fails: %v: %s", err, r.Stderr)
		}
	})
}
