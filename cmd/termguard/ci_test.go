package main

import (
	"crypto/sha256"
	"fmt"
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

// The action takes the program of a release, if it is the one that the checksums
// of the release name, and has it built for any other commit.
func TestActionRelease(t *testing.T) {
	var action struct {
		Runs struct {
			Steps []struct{ ID, If, Run string }
		}
	}
	readYAML(t, "../../action.yml", &action)
	steps := action.Runs.Steps
	if steps[0].ID != "release" || steps[1].If != "steps.release.outputs.found != 'true'" || steps[2].If != steps[1].If {
		t.Fatal("the steps that build do not depend on the first, which looks for a release")
	}
	// In the place of curl, a program that has the files of RELEASE; in that of
	// uname, one that is always of the same machine.
	const curl = "#!/bin/sh\nfor a; do case $a in https://github.com/termguard/termguard/releases/download/v1.2.3/*) cp \"$RELEASE/${a##*/}\" . || exit 22 ;; esac; done\n"
	const uname = "#!/bin/sh\ncase $1 in -s) echo Linux ;; -m) echo x86_64 ;; esac\n"
	const archive = "termguard_v1.2.3_linux_amd64.tar.gz"
	pack := func(t *testing.T, sums func(archive []byte) string) string {
		dir := t.TempDir()
		programs := []string{"termguard", "termguard-render"} // test/tools/release packs both
		for _, name := range programs {
			write(t, filepath.Join(dir, name), "#!/bin/sh\n")
		}
		if out, err := exec.CommandContext(t.Context(), "tar", append([]string{"-C", dir, "-czf", filepath.Join(dir, archive)}, programs...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, archive))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "checksums.txt"), sums(text))
		return dir
	}
	right := func(text []byte) string {
		return fmt.Sprintf("%064x  other.tar.gz\n%x  %s\n", 0, sha256.Sum256(text), archive)
	}
	wrong := func([]byte) string { return fmt.Sprintf("%064x  %s\n", 0, archive) }
	unnamed := func([]byte) string { return fmt.Sprintf("%064x  other.tar.gz\n", 0) }
	cases := map[string]struct {
		reason, ref, release string
		found, fails         bool
	}{
		"Release":  {reason: "It is there.", ref: "v1.2.3", release: pack(t, right), found: true},
		"Branch":   {reason: "Nobody packs it.", ref: "main", release: pack(t, right)},
		"Commit":   {reason: "Nobody packs it.", ref: "0123456789abcdef0123456789abcdef01234567", release: pack(t, right)},
		"Odd":      {reason: "It is no version.", ref: "v1.2.3/../../x", release: pack(t, right)},
		"Missing":  {reason: "The release has none for this platform.", ref: "v1.2.3", release: t.TempDir()},
		"Tampered": {reason: "It is another program.", ref: "v1.2.3", release: pack(t, wrong), fails: true},
		"Unnamed":  {reason: "The release knows nothing of it.", ref: "v1.2.3", release: pack(t, unnamed), fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bin, temp := t.TempDir(), t.TempDir()
			write(t, filepath.Join(bin, "curl"), curl)
			write(t, filepath.Join(bin, "uname"), uname)
			output, path := filepath.Join(temp, "output"), filepath.Join(temp, "path")
			command := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[0].Run)
			command.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "REF=" + tc.ref, "RELEASE=" + tc.release, "RUNNER_TEMP=" + temp, "GITHUB_OUTPUT=" + output, "GITHUB_PATH=" + path}
			out, err := command.CombinedOutput()
			if (err != nil) != tc.fails {
				t.Errorf("%s\n%v: %s", tc.reason, err, out)
			}
			said, _ := os.ReadFile(output)
			if found := string(said) == "found=true\n"; found != tc.found {
				t.Errorf("%s\nfound is %t: %s", tc.reason, found, out)
			}
			if _, err := os.Stat(path); (err == nil) != tc.found {
				t.Errorf("%s\nwhether it can be run: %v", tc.reason, err)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
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
