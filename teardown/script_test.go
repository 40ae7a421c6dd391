package teardown

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// kubectl writes its arguments down, one command a line, and fails where one of them is in
// FAILS. It has what GONE does not name.
const kubectl = `#!/bin/sh
line=kubectl
last= of=
for word; do line="$line <$word>"; [ "$last" != get ] || of=$word; last=$word; done
printf '%s\n' "$line" >> "$LOG"
case "$line" in
*jsonpath*) printf %s "$CLUSTER"; exit ;;
*"<get>"*) case " $GONE " in *" $of "*) ;; *) echo "$of" ;; esac; exit ;;
esac
case "$line" in *"$FAILS"*) exit 1 ;; esac
`

// run runs a script of a plan, with a kubectl that only writes down what it is asked.
func run(t *testing.T, p *Plan, env []string, args ...string) (commands []string, told string, err error) {
	t.Helper()
	dir := t.TempDir()
	var text strings.Builder
	if err := p.Script(&text); err != nil {
		t.Fatal(err)
	}
	script, log := filepath.Join(dir, "script"), filepath.Join(dir, "log")
	for file, content := range map[string]string{script: text.String(), filepath.Join(dir, "kubectl"): kubectl, log: ""} {
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{script}, args...)...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "LOG=" + log, "CLUSTER=c1", "FAILS=nothing fails", "GONE="}, env...)
	out, err := cmd.CombinedOutput()
	logged, readErr := os.ReadFile(log)
	if readErr != nil {
		t.Fatal(readErr)
	}
	for line := range strings.Lines(string(logged)) {
		if line = strings.TrimSuffix(line, "\n"); strings.Contains(line, "<delete>") {
			commands = append(commands, line)
		}
	}
	return commands, string(out), err
}

// TestScript runs the script of a plan as it is printed.
func TestScript(t *testing.T) {
	plan := planOf(t, scopeOf(t, sound(t)), Options{Of: "the shop", Cluster: "c1", Context: "a context"})
	commands, told, err := run(t, plan, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	at := 0
	for w, wave := range plan.Waves { // all of a wave is asked for, then waited for, before the next
		var waits []string
		for _, thing := range wave.Things {
			name := "<" + thing.Resource + "/" + thing.Name + ">"
			last := slices.IndexFunc(commands[at:], func(c string) bool {
				return strings.Contains(c, name) && strings.Contains(c, "<--wait>") && (thing.Namespace == "" || strings.Contains(c, "<"+thing.Namespace+">"))
			})
			if last < 0 {
				t.Fatalf("%s is not waited for in wave %d:\n%s", scan.Shown(thing.Object), w+1, strings.Join(commands, "\n"))
			}
			waits = append(waits, commands[at+last])
		}
		waits = slices.Compact(slices.Sorted(slices.Values(waits)))
		count := len(wave.Commands)
		if len(waits) != count {
			t.Errorf("wave %d: %d commands wait, want %d", w+1, len(waits), count)
		}
		if count > 1 {
			count *= 2
		}
		at += count
	}
	if at != len(commands) {
		t.Errorf("%d commands, want %d", len(commands), at)
	}
	for _, command := range commands {
		if !strings.Contains(command, "<--context> <a context>") || !strings.Contains(command, "<--ignore-not-found>") {
			t.Errorf("%s: want the context as one word, and no failure for what is gone", command)
		}
		if strings.Contains(command, "<--wait>") && !strings.Contains(command, "<--timeout=300s>") {
			t.Errorf("%s waits for ever", command)
		}
	}
	again, told, err := run(t, plan, []string{"GONE=customresourcedefinitions.apiextensions.k8s.io/gadgets.alive.test"})
	if err != nil || slices.ContainsFunc(again, func(c string) bool { return strings.Contains(c, "<gadgets.alive.test/") }) || len(again) == 0 {
		t.Errorf("%v: with a definition gone, its kind is not one any more: %s\n%s", err, told, strings.Join(again, "\n"))
	}
	failed, told, err := run(t, plan, []string{"FAILS=<apiservices."})
	if err == nil || !strings.Contains(failed[len(failed)-1], "<apiservices.") {
		t.Errorf("%v: it goes on after a failure: %s\n%s", err, told, strings.Join(failed, "\n"))
	}
	if elsewhere, told, err := run(t, plan, []string{"CLUSTER=c2"}); err == nil || len(elsewhere) > 0 || !strings.Contains(told, "another cluster") {
		t.Errorf("%v: in another cluster it runs %q: %s", err, elsewhere, told)
	}
}

// TestScriptWaits holds that a script does nothing while something stands in the way, unless
// somebody says so.
func TestScriptWaits(t *testing.T) {
	plan := planOf(t, scopeOf(t, sound(t), "monitoring"), Options{})
	commands, told, err := run(t, plan, nil)
	if err == nil || len(commands) > 0 || !strings.Contains(told, "kubectl delete apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io") {
		t.Errorf("%v: it runs %q, and says:\n%s", err, commands, told)
	}
	if commands, told, err = run(t, plan, nil, "--anyway"); err != nil || len(commands) == 0 {
		t.Errorf("%v: it runs %q, and says:\n%s", err, commands, told)
	}
}

// TestScriptHostile holds that names are words to a shell, and nothing more.
func TestScriptHostile(t *testing.T) {
	const name, context = "$(touch pwned)`touch pwned`;touch pwned\ntouch pwned #'\u202e", "a'; touch pwned; '"
	thing := Thing{Object: policies.Object{Resource: "gadgets.x.io", Namespace: "a b", Name: name}}
	p := &Plan{Verdict: policies.Unknown, Of: name, Unseen: []string{name}, context: context, kubeconfig: context, Circles: []string{name}, First: []scan.Cause{{Title: name, Names: []string{name}, Steps: []policies.Step{{Do: name, Command: name}}}}}
	m := &maker{at: map[policies.Object]int{{Resource: resourceDefinition, Name: "gadgets.x.io"}: 0}}
	wave := Wave{Things: []Thing{thing}}
	wave.deletions = m.deletions(wave)
	p.Waves = []Wave{wave}
	commands, told, err := run(t, p, []string{"CLUSTER="}, "--anyway")
	if err != nil || strings.Contains(told, "pwned: ") {
		t.Errorf("%v: %s", err, told)
	}
	if len(commands) == 0 {
		t.Error("it deletes nothing")
	}
	_, told, _ = run(t, p, nil)
	if strings.ContainsRune(told, '\u202e') {
		t.Errorf("it repaints the terminal: %q", told)
	}
	var script strings.Builder
	if err := p.Script(&script); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "kubectl() { :; }; command() { :; }\n"+script.String(), "sh", "--anyway")
	cmd.Dir = dir
	_ = cmd.Run()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(0, len(left)); diff != "" {
		t.Errorf("a name has become a command: %v", left)
	}
}
