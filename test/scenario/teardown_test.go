package scenario

import (
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

// TestTeardown deletes a world of ten operators at once, which hangs, and another by the
// script of its plan, which leaves nothing.
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
	t.Run("Planned", func(t *testing.T) {
		l := aWorld(t).Lab
		binary, err := Binary()
		if err != nil {
			t.Fatal(err)
		}
		before := left(t, l)
		ask := func(form string) string {
			cmd := exec.CommandContext(t.Context(), binary, "plan", "--all", "--kubeconfig", l.Kubeconfig(), "-o", form)
			var said, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &said, &errs
			if err := cmd.Run(); err != nil && form == "shell" {
				t.Errorf("termguard plan: %v: %s", err, &errs)
			}
			return said.String()
		}
		t.Logf("the plan:\n%s", ask("text"))
		script := filepath.Join(t.TempDir(), "teardown.sh")
		if err := os.WriteFile(script, []byte(ask("shell")), 0o600); err != nil {
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
