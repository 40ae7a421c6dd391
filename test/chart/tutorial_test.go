package chart

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// commandBlock matches a block of commands, and the expected output if there is one.
var commandBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?")

// TestTutorial runs docs/getting-started.md and docs/policies.md block by block, and compares the output.
func TestTutorial(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	ctx := t.Context()
	var blocks [][]string
	for _, page := range []string{"getting-started.md", "policies.md"} {
		text, err := os.ReadFile(filepath.Join(lab.Root(), "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		matches := commandBlock.FindAllStringSubmatch(string(text), -1)
		if len(matches) < 5 {
			t.Fatalf("docs/%s has %d blocks of commands: are they written in another way now?", page, len(matches))
		}
		blocks = append(blocks, matches...)
	}
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	g, err := scenario.PatientGuard(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	policies := watchPolicies(t, g)
	folder := t.TempDir()
	for _, block := range blocks {
		commands, want := block[1], strings.Split(strings.TrimSpace(block[2]), "\n")
		var last lab.Result
		run := func(ctx context.Context) (_ bool, err error) {
			last, err = g.Shell(ctx, "set -e; cd "+folder+"; PATH="+filepath.Dir(binary)+":$PATH\n"+commands)
			for _, line := range want {
				if !strings.Contains(last.Stdout+last.Stderr, line) {
					return false, err
				}
			}
			return true, err
		}
		ok := false
		if block[2] == "" {
			ok, err = run(ctx)
			ok = ok && last.Code == 0
		} else { // changes take effect within two seconds, later on a busy machine
			ok, err = true, g.Await(ctx, 60*time.Second, "what the page says", run)
		}
		if err != nil || !ok {
			t.Fatalf("\n%s\nexits with %d, want %q in its output: %v\n%s%s", commands, last.Code, want, err, last.Stdout, last.Stderr)
		}
	}
	checkDoctor(t, g)
	if versions := policies(); versions < 3 { // created, replaced, and broken
		t.Errorf("only %d versions of the policies were seen", versions)
	}
}

// watchPolicies watches the ConfigMap of docs/policies.md: in a version without the label, the rule would not
// be in force for a moment. The returned function waits for its deletion and counts versions.
func watchPolicies(t *testing.T, g *scenario.Guarded) func() (versions int) {
	t.Helper()
	client, err := g.Client()
	if err != nil {
		t.Fatal(err)
	}
	watching, err := client.CoreV1().ConfigMaps("termguard-system").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=our-policies"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watching.Stop)
	return func() (versions int) {
		deadline := time.After(30 * time.Second)
		for {
			select {
			case <-deadline:
				t.Fatal("its deletion was not seen")
			case event, open := <-watching.ResultChan():
				if !open {
					t.Fatal("the watch ended early")
				}
				if event.Type == watch.Deleted {
					return versions
				}
				versions++
				if _, labelled := event.Object.(*corev1.ConfigMap).Labels[config.PolicyLabel]; !labelled {
					t.Errorf("a version of the policies has no label: %v", event.Object)
				}
			}
		}
	}
}
