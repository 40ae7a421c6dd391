package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/test/lab"
)

// The objects after "--- # before" exist already, those after "--- # set" are linted and applied.
type linted struct {
	About string `json:"about"`
	// Finds is a policy; "" for none.
	Finds string `json:"finds"`
	// Delete applies the set and runs kubectl delete -f.
	Delete bool `json:"delete"`
	// Do are kubectl commands to run instead.
	Do []string `json:"do"`
	// Alone is set if the whole cluster is affected.
	Alone bool `json:"alone"`
	// Wait are arguments of kubectl wait for the real outcome.
	Wait    string `json:"wait"`
	Reality string `json:"reality"`
	Live    Live   `json:"live"`
	// Cure are kubectl commands after which the outcome is reached.
	Cure []string `json:"cure"`

	before, set string
}

func readLinted(t *testing.T, file string) linted {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	head, set, ok := strings.Cut(strings.ReplaceAll(string(data), "$NS", "l-"+name), "\n--- # set\n")
	head, before, _ := strings.Cut(head, "\n--- # before\n")
	s := linted{before: before, set: set}
	if err := yaml.UnmarshalStrict([]byte(head), &s); err != nil {
		t.Fatal(err)
	}
	if !ok || s.About == "" || s.Wait == "" || (s.Reality != Hangs && s.Reality != Completes) || (s.Reality == Hangs) != (s.Finds != "") {
		t.Fatalf("%s: needs about, wait, reality and a set, and finds if it hangs", file)
	}
	return s
}

// TestLinted applies and deletes the sets: what lint reports does hang, and the set that differs in one fact
// does not.
func TestLinted(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	files, err := filepath.Glob("testdata/lint/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sets of manifests: %v", err)
	}
	g, err := PatientGuard(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			s := readLinted(t, file)
			if !s.Alone {
				t.Parallel()
			}
			g.playLinted(t, s)
		})
	}
}

func (g *Guarded) playLinted(t *testing.T, s linted) {
	t.Helper()
	ctx := t.Context()
	want := []string{}
	if s.Finds != "" {
		want = append(want, s.Finds)
	}
	if diff := cmp.Diff(want, findingsOf(t, s.set)); diff != "" {
		t.Errorf("%s\nwhat lint finds: -want, +got:\n%s", s.About, diff)
	}
	if s.before != "" {
		if err := g.Create(ctx, s.before); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "set.yaml")
	if err := os.WriteFile(file, []byte(s.set), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Create(ctx, s.set); err != nil {
		t.Fatal(err)
	}
	if err := g.start(ctx, s.Live, ""); err != nil {
		t.Fatal(err)
	}
	if s.Delete {
		if r, err := g.Kubectl(ctx, "delete", "--wait=false", "--ignore-not-found", "-f", file); err != nil || r.Code != 0 {
			t.Fatalf("kubectl delete -f: %v: %s", err, r.Stderr)
		}
	}
	for _, command := range s.Do {
		if r, err := g.Kubectl(ctx, Words(command)...); err != nil || r.Code != 0 {
			t.Fatalf("kubectl %s: %v: %s", command, err, r.Stderr)
		}
	}
	limit := time.Minute
	if s.Reality == Hangs {
		limit = passes
	}
	if real := g.waits(t, s.Wait, limit); real != s.Reality {
		t.Errorf("%s\nkubectl wait %s: it %s, want %s", s.About, s.Wait, real, s.Reality)
	}
	for _, command := range s.Cure {
		if r, err := g.Kubectl(ctx, Words(command)...); err != nil || r.Code != 0 {
			t.Fatalf("cure: kubectl %s: %v: %s", command, err, r.Stderr)
		}
	}
	if len(s.Cure) > 0 && g.waits(t, s.Wait, 2*time.Minute) != Completes {
		t.Errorf("%s\nsomething else blocks it: the cure does not help: %q", s.About, s.Cure)
	}
}

func (g *Guarded) waits(t *testing.T, args string, limit time.Duration) string {
	t.Helper()
	r, err := g.Kubectl(t.Context(), append([]string{"wait", "--timeout", limit.String()}, strings.Fields(args)...)...)
	switch {
	case err != nil:
		t.Fatal(err)
	case r.Code == 0, strings.Contains(args, "--for=delete") && (strings.Contains(r.Stderr, "NotFound") || strings.Contains(r.Stderr, "doesn't have a resource type")):
		return Completes
	case !strings.Contains(r.Stderr, "timed out"):
		t.Fatalf("kubectl wait %s: %s", args, r.Stderr)
	}
	return Hangs
}

func findingsOf(t *testing.T, set string) []string {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "lint", "-o", "json", "-")
	cmd.Stdin = strings.NewReader(set)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("termguard lint: %v: %s", err, &stderr)
	}
	var result struct {
		Findings []struct{ Policy string } `json:"findings"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, f := range result.Findings {
		names = append(names, f.Policy)
	}
	return names
}
