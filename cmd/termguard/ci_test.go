package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// The script of the GitHub Action hands on what people write, as it is, and
// lets no line of a manifest pass for a command to the runner.
func TestAction(t *testing.T) {
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				Name, Run string
				Env       map[string]string
			}
		}
	}
	readYAML(t, "../../action.yml", &action)
	step := action.Runs.Steps[len(action.Runs.Steps)-1]
	if strings.Contains(step.Run, "${{") {
		t.Error("the script holds an expression: what people write would become part of it")
	}
	for name := range action.Inputs {
		key := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if got, want := step.Env[key], "${{ inputs."+name+" }}"; got != want {
			t.Errorf("environment %s is %q, want %q", key, got, want)
		}
	}
	// In the place of termguard, a program that tells its arguments.
	const fake = `#!/bin/sh
for a; do
	echo "$a" >>"$RECORD"
	case $a in github=*) echo '::error file=a.yaml::it hangs' >"${a#github=}" ;; esac
done
echo '::error::a line of a manifest'
exit 1
`
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "termguard"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		env    map[string]string
		want   []string // arguments; a temporary file is FILE
	}{
		"Defaults": {"Nothing but the defaults.", map[string]string{"PATHS": ".", "ANNOTATIONS": "true"}, []string{"lint", "-o", "text", "-o", "github=FILE", "--", "."}},
		"All": {
			"Every input, with spaces and quotes.",
			map[string]string{"PATHS": "a b\n\n-c\n", "CONFIG": "../the base.yaml", "NO_REPO_POLICIES": "true", "INCLUDE_TESTS": "true", "FAIL_ON": "high", "TIMEOUT": "5m", "CHANGED_SINCE": "origin/main", "BASELINE": "k $(id).json", "SNAPSHOT": "f.json", "KUBERNETES_VERSION": "1.36", "SARIF": "s'.sarif", "JUNIT": "j.xml", "ANNOTATIONS": "false", "GITHUB_STEP_SUMMARY": "page of run"},
			[]string{"lint", "-o", "text", "-o", "markdown=page of run", "-o", "sarif=s'.sarif", "-o", "junit=j.xml", "--config=../the base.yaml", "--no-repo-policies", "--include-tests", "--fail-on=high", "--timeout=5m", "--changed-since=origin/main", "--baseline=k $(id).json", "--snapshot=f.json", "--kubernetes-version=1.36", "--", "a b", "-c"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			record := filepath.Join(t.TempDir(), "record")
			command := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
			command.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "GITHUB_STEP_SUMMARY=" + tc.env["GITHUB_STEP_SUMMARY"], "RECORD=" + record, "TMPDIR=" + t.TempDir()}
			for key := range step.Env {
				command.Env = append(command.Env, key+"="+tc.env[key])
			}
			out, _ := command.Output()
			if code := command.ProcessState.ExitCode(); code != 1 {
				t.Errorf("%s\nexit code %d, want that of termguard, 1", tc.reason, code)
			}
			text, err := os.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			args := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			for i, arg := range args {
				if strings.HasPrefix(arg, "github=") {
					args[i] = "github=FILE"
				}
			}
			if diff := cmp.Diff(tc.want, args); diff != "" {
				t.Errorf("%s\narguments: -want, +got:\n%s", tc.reason, diff)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			stop, from := strings.CutPrefix(lines[0], "::stop-commands::")
			until := slices.Index(lines, "::"+stop+"::")
			of := slices.Index(lines, "::error::a line of a manifest")
			if !from || of < 0 || until < of {
				t.Errorf("%s\nthe runner takes lines of manifests for commands:\n%s", tc.reason, out)
			}
			if shown := slices.Index(lines, "::error file=a.yaml::it hangs") > until; shown != (tc.env["ANNOTATIONS"] == "true") {
				t.Errorf("%s\nannotations are shown: %t", tc.reason, shown)
			}
		})
	}
}

// The flags of the hook exist.
func TestHook(t *testing.T) {
	var hooks []struct {
		Entry string
		Args  []string
	}
	readYAML(t, "../../.pre-commit-hooks.yaml", &hooks)
	for _, hook := range hooks {
		words := append(strings.Fields(hook.Entry), hook.Args...)
		if diff := cmp.Diff([]string{"termguard", "lint"}, words[:2]); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		c := newLint()
		if err := c.ParseFlags(words[2:]); err != nil || len(c.Flags().Args()) == 0 {
			t.Errorf("%s: %v, paths %q", hook.Entry, err, c.Flags().Args())
		}
	}
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
