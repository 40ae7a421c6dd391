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

	"github.com/termguard/termguard/internal/race"
)

// The script of the GitHub Action passes its inputs on unchanged, and no line of a manifest becomes
// a command to the runner.
func TestAction(t *testing.T) {
	type scripted struct {
		Name, Run string
		Env       map[string]string
	}
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []scripted }
	}
	readYAML(t, "../../action.yml", &action)
	for _, step := range action.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			t.Errorf("the script of %q has an expression, which would make input part of the script", step.Name)
		}
	}
	step := action.Runs.Steps[slices.IndexFunc(action.Runs.Steps, func(s scripted) bool { return s.Name == "Lint" })]
	for name := range action.Inputs {
		key := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if got, want := step.Env[key], "${{ inputs."+name+" }}"; got != want {
			t.Errorf("environment %s is %q, want %q", key, got, want)
		}
	}
	// fake replaces termguard and prints its arguments.
	const fake = `#!/bin/sh
for a; do
	echo "$a" >>"$RECORD"
	case $a in
	github=*) echo '::error file=a.yaml::it hangs' >"${a#github=}" ;;
	esac
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
		"Defaults": {"Only defaults.", map[string]string{"PATHS": ".", "ANNOTATIONS": "true"}, []string{"lint", "-o", "text", "-o", "github=FILE", "--", "."}},
		"All": {
			"Every input, with spaces and quotes.",
			map[string]string{"PATHS": "a b\n\n-c\n", "CONFIG": "../the base.yaml", "NO_REPO_POLICIES": "true", "INCLUDE_TESTS": "true", "FAIL_ON": "high", "TIMEOUT": "5m", "CHANGED_SINCE": "origin/main", "BASELINE": "k $(id).json", "SNAPSHOT": "f.json", "KUBERNETES_VERSION": "1.36", "SARIF": "s'.sarif", "JUNIT": "j.xml", "ANNOTATIONS": "false"},
			[]string{"lint", "-o", "text", "-o", "sarif=s'.sarif", "-o", "junit=j.xml", "--config=../the base.yaml", "--no-repo-policies", "--include-tests", "--fail-on=high", "--timeout=5m", "--changed-since=origin/main", "--baseline=k $(id).json", "--snapshot=f.json", "--kubernetes-version=1.36", "--", "a b", "-c"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			record := filepath.Join(t.TempDir(), "record")
			command := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
			command.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "RECORD=" + record, "TMPDIR=" + t.TempDir()}
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
				if format, _, file := strings.Cut(arg, "="); file && format == "github" {
					args[i] = format + "=FILE"
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
				t.Errorf("%s\nlines of manifests became commands to the runner:\n%s", tc.reason, out)
			}
			if annotated := slices.Index(lines, "::error file=a.yaml::it hangs") > until; annotated != (tc.env["ANNOTATIONS"] == "true") {
				t.Errorf("%s\nannotations shown: got %t", tc.reason, annotated)
			}
		})
	}
}

// The action takes the program of a release if its checksum is the one in the release, and builds
// the program for any other commit.
func TestActionRelease(t *testing.T) {
	var action struct {
		Runs struct {
			Steps []struct{ ID, If, Run string }
		}
	}
	readYAML(t, "../../action.yml", &action)
	steps := action.Runs.Steps
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].ID != "release" || steps[1].If != "steps.release.outputs.found != 'true'" || steps[2].If != steps[1].If {
		t.Fatal("the build steps do not depend on the first step, which looks for a release")
	}
	cases := map[string]struct {
		reason, ref, release string
		complete, fails      bool
	}{
		"Release":  {reason: "It is there.", ref: "v1.2.3", release: pack(t, true), complete: true},
		"Branch":   {reason: "A branch has no release.", ref: "main", release: pack(t, true)},
		"Commit":   {reason: "A branch has no release.", ref: "0123456789abcdef0123456789abcdef01234567", release: pack(t, true)},
		"Odd":      {reason: "It is no version.", ref: "v1.2.3/../../x", release: pack(t, true)},
		"Missing":  {reason: "The release has none for this platform.", ref: "v1.2.3", release: t.TempDir()},
		"Tampered": {reason: "It is another program.", ref: "v1.2.3", release: pack(t, false), fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			output := filepath.Join(temp, "output")
			command := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[0].Run)
			command.Env = append(releases(t, tc.release), "REF="+tc.ref, "RUNNER_TEMP="+temp, "GITHUB_ACTION_PATH="+root, "GITHUB_OUTPUT="+output, "GITHUB_PATH="+filepath.Join(temp, "path"))
			out, err := command.CombinedOutput()
			if (err != nil) != tc.fails {
				t.Errorf("%s\n%v: %s", tc.reason, err, out)
			}
			outputs, _ := os.ReadFile(output)
			if ok := string(outputs) == "found=true\n"; ok != tc.complete {
				t.Errorf("%s\ngot found=%t: %s", tc.reason, ok, out)
			}
			var got []string
			for _, program := range []string{"termguard", "termguard-render"} {
				if _, err := os.Stat(filepath.Join(temp, "termguard", program)); err == nil {
					got = append(got, program)
				}
			}
			if (len(got) == 2) != tc.complete || !tc.complete && len(got) > 0 {
				t.Errorf("%s\ngot files %v", tc.reason, got)
			}
		})
	}
}

const archive = "termguard_v1.2.3_linux_amd64.tar.gz"

// pack makes a release of programs that print their arguments, with checksums that are right, or of
// other files.
func pack(t *testing.T, right bool) string {
	t.Helper()
	dir := t.TempDir()
	programs := []string{"termguard", "termguard-render"} // test/tools/release packs both
	for _, name := range programs {
		write(t, filepath.Join(dir, name), "#!/bin/sh\necho released \"$@\"\n")
	}
	if out, err := exec.CommandContext(t.Context(), "tar", append([]string{"-C", dir, "-czf", filepath.Join(dir, archive)}, programs...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, archive))
	if err != nil {
		t.Fatal(err)
	}
	sums := fmt.Sprintf("%064x  other.tar.gz\n", 0)
	if right {
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(text), archive)
	}
	write(t, filepath.Join(dir, "checksums.txt"), sums)
	return dir
}

// releases returns the environment of a linux/amd64 machine with a curl that serves the files of a
// release, and a go that builds programs which say so.
func releases(t *testing.T, release string) []string {
	t.Helper()
	bin := t.TempDir()
	write(t, filepath.Join(bin, "curl"), "#!/bin/sh\nfor a; do case $a in https://github.com/termguard/termguard/releases/download/v1.2.3/*) cp \"$RELEASE/${a##*/}\" . || exit 22 ;; esac; done\n")
	write(t, filepath.Join(bin, "uname"), "#!/bin/sh\ncase $1 in -s) echo Linux ;; -m) echo x86_64 ;; esac\n")
	write(t, filepath.Join(bin, "go"), "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nprintf '#!/bin/sh\\necho built \"$@\"\\n' >\"$2\"\nchmod +x \"$2\"\n")
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "RELEASE=" + release}
}

// The flags of the hook exist.
func TestHook(t *testing.T) {
	for _, hook := range hooks(t) {
		words := append(strings.Fields(hook.Entry), hook.Args...)
		c := newLint()
		if err := c.ParseFlags(words[1:]); err != nil || len(c.Flags().Args()) == 0 {
			t.Errorf("%s: %v, paths %q", hook.Entry, err, c.Flags().Args())
		}
	}
}

type hook struct {
	Entry string
	Args  []string
}

func hooks(t *testing.T) (hooks []hook) {
	t.Helper()
	readYAML(t, "../../.pre-commit-hooks.yaml", &hooks)
	return hooks
}

// TestHookRelease runs the hook in a clone as pre-commit makes it: the program is downloaded from
// the release that is checked out, or is built.
func TestHookRelease(t *testing.T) {
	race.Skip(t)
	from := t.TempDir()
	git := func(dir string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"}, args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	if err := os.CopyFS(filepath.Join(from, ".ci"), os.DirFS("../../.ci")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(from, "cmd/termguard-render/go.mod"), "module a\n")
	git(from, "init", "-q")
	git(from, "add", ".")
	git(from, "commit", "-qm", "a release")
	git(from, "tag", "-am", "v1.2.3", "v1.2.3")
	git(from, "commit", "-qm", "more", "--allow-empty")
	git(from, "branch", "next")
	git(from, "config", "uploadpack.allowAnySHA1InWant", "true")
	for name, tc := range map[string]struct {
		reason, rev, release, want string
	}{
		"Release":  {"A tag has a release.", "v1.2.3", pack(t, true), "released lint --changed-since HEAD .\n"},
		"Frozen":   {"pre-commit autoupdate --freeze writes the commit of the tag.", "v1.2.3^{}", pack(t, true), "released lint --changed-since HEAD .\n"},
		"Branch":   {"A branch has no release.", "next", pack(t, true), "built lint --changed-since HEAD .\n"},
		"Missing":  {"The release cannot be fetched.", "v1.2.3", t.TempDir(), "built lint --changed-since HEAD .\n"},
		"Tampered": {"A program with another checksum than the release's never runs, and nothing replaces it.", "v1.2.3", pack(t, false), ""},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			rev := tc.rev
			if strings.HasSuffix(rev, "^{}") {
				out, err := exec.CommandContext(t.Context(), "git", "-C", from, "rev-parse", rev).Output()
				if err != nil {
					t.Fatal(err)
				}
				rev = strings.TrimSpace(string(out))
			}
			// as in pre_commit/store.py, _shallow_clone
			git(to, "init", "-q")
			git(to, "remote", "add", "origin", "file://"+from)
			git(to, "fetch", "-q", "origin", rev, "--depth=1")
			git(to, "checkout", "-q", "FETCH_HEAD")
			for run := range 2 {
				hook := hooks(t)[0]
				words := append(strings.Fields(hook.Entry), hook.Args...)
				command := exec.CommandContext(t.Context(), filepath.Join(to, words[0]), words[1:]...)
				command.Env = append(releases(t, tc.release), "GIT_DIR="+filepath.Join(t.TempDir(), "of the commit"))
				if run > 0 && tc.want != "" {
					command.Env = append(command.Env, "RELEASE=/nowhere") // it is there already
				}
				out, err := command.Output()
				if string(out) != tc.want || (err != nil) != (tc.want == "") {
					t.Errorf("%s\nrun %d: %q, %v, want %q", tc.reason, run, out, err, tc.want)
				}
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
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
