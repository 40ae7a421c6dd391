package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

const (
	plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"
	hangs = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: m}\nspec: {ports: [{port: 443}]}\n---\n" +
		"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata:\n  name: v1beta1.metrics.k8s.io\n" +
		"spec: {service: {name: a, namespace: m}, group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100}\n"
)

// in creates files and changes to their folder.
func in(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return dir
}

// start runs with the policies in the binary.
func start(t *testing.T, o Options) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	o.Stdout, o.Stderr = &out, &errs
	if o.Outputs == nil {
		o.Outputs = []string{"text"}
	}
	if o.Load == nil {
		o.Load = func([]string) (*policies.Set, error) { return policies.Load(policies.Embedded()) }
	}
	err = Run(t.Context(), o)
	return out.String(), errs.String(), err
}

func TestRun(t *testing.T) {
	const config = "apiVersion: termguard.dev/v1\nkind: LintConfig\n"
	cases := map[string]struct {
		reason  string
		files   map[string]string
		options Options
		fails   bool
		err     string
		stdout  string
		stderr  string
	}{
		"Nothing":    {"A file that is fine.", map[string]string{"a.yaml": plain}, Options{Input: sets.Options{Paths: []string{"a.yaml"}}}, false, "", "no findings", ""},
		"Found":      {"A finding is an error of its own.", map[string]string{"a.yaml": hangs}, Options{Input: sets.Options{Paths: []string{"."}}}, true, "", "a.yaml:9:9", ""},
		"FailOn":     {"It does not weigh enough.", map[string]string{"a.yaml": hangs}, Options{Input: sets.Options{Paths: []string{"."}}, FailOn: "never"}, false, "", "a.yaml:9:9", ""},
		"ConfigFile": {"The configuration says so.", map[string]string{"a.yaml": hangs, ".termguard.yaml": config + "failOn: never\n"}, Options{Input: sets.Options{Paths: []string{"."}}}, false, "", "a.yaml:9:9", ""},
		"FlagFirst":  {"The flag comes first.", map[string]string{"a.yaml": hangs, ".termguard.yaml": config + "failOn: never\n"}, Options{Input: sets.Options{Paths: []string{"."}}, FailOn: "low"}, true, "", "a.yaml:9:9", ""},
		"Broken":     {"A problem outweighs findings.", map[string]string{"a.yaml": hangs, "b.yaml": "apiVersion: v1\nkind: ["}, Options{Input: sets.Options{Paths: []string{"."}}}, false, "1 problem with the input", "b.yaml:2:", ""},
		"NoPaths":    {"No input was given.", nil, Options{}, false, "say what to lint", "", ""},
		"NoFiles":    {"A folder without manifests.", nil, Options{Input: sets.Options{Paths: []string{"."}}}, false, "nothing to lint", "", ""},
		"Severity":   {"A typing error.", map[string]string{"a.yaml": plain}, Options{Input: sets.Options{Paths: []string{"."}}, FailOn: "hihg"}, false, `--fail-on is "hihg"`, "", ""},
		"Format":     {"So is this.", map[string]string{"a.yaml": plain}, Options{Input: sets.Options{Paths: []string{"."}}, Outputs: []string{"texd"}}, false, `unknown output "texd"`, "", ""},
		"Version":    {"So is this.", map[string]string{"a.yaml": plain}, Options{Input: sets.Options{Paths: []string{"."}}, KubernetesVersion: "new"}, false, `the Kubernetes version is "new"`, "", ""},
		"Baseline":   {"It is not there.", map[string]string{"a.yaml": plain}, Options{Input: sets.Options{Paths: []string{"."}}, Baseline: "b.json"}, false, "write it with --write-baseline", "", ""},
		"Where":      {"A baseline has a file.", map[string]string{"a.yaml": plain}, Options{Input: sets.Options{Paths: []string{"."}}, WriteBaseline: true}, false, "say where to write the baseline", "", ""},
		"Stdin":      {"It has no history.", nil, Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(plain)}, ChangedSince: "main"}, false, "--changed-since compares files", "", ""},
		"Silent":     {"Without text on stdout, a summary is on stderr.", map[string]string{"a.yaml": hangs}, Options{Input: sets.Options{Paths: []string{"."}}, Outputs: []string{"json"}}, true, "", `"kind": "Lint"`, " 1 high"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, tc.files)
			stdout, stderr, err := start(t, tc.options)
			switch {
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("%s\nerror %v, want one with %q", tc.reason, err, tc.err)
			case tc.err == "" && errors.Is(err, ErrFindings) != tc.fails, tc.err == "" && !tc.fails && err != nil:
				t.Errorf("%s\nerror %v, findings: want %t", tc.reason, err, tc.fails)
			}
			if !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("%s\nwant %q and %q in\n%s\n%s", tc.reason, tc.stdout, tc.stderr, stdout, stderr)
			}
		})
	}
}

// TestBaseline writes known findings, and reports nothing new then.
func TestBaseline(t *testing.T) {
	in(t, map[string]string{"a.yaml": hangs})
	o := Options{Input: sets.Options{Paths: []string{"."}}, Baseline: "known.json"}
	o.WriteBaseline = true
	if _, stderr, err := start(t, o); err != nil || !strings.Contains(stderr, " to known.json") {
		t.Fatalf("%v\n%s", err, stderr)
	}
	o.WriteBaseline = false
	if stdout, _, err := start(t, o); err != nil || !strings.Contains(stdout, " in the baseline") {
		t.Errorf("%v\n%s", err, stdout)
	}
}

// TestTimeout ends a run whose input never ends, and one whose policies never compile.
func TestTimeout(t *testing.T) {
	in(t, map[string]string{"a.yaml": plain})
	forever, never := io.Pipe()
	defer never.Close()
	stdout, _, err := start(t, Options{Input: sets.Options{Paths: []string{"-"}, Stdin: forever}, Timeout: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "--timeout of 200ms has passed") || !strings.Contains(stdout, "note: stopped, as --timeout") {
		t.Errorf("%v\n%s", err, stdout)
	}
	release := make(chan struct{})
	defer close(release)
	_, _, err = start(t, Options{Input: sets.Options{Paths: []string{"."}}, Timeout: time.Millisecond, Load: func([]string) (*policies.Set, error) {
		<-release
		return nil, errors.New("late")
	}})
	if err == nil || !strings.Contains(err.Error(), "--timeout of 1ms has passed") {
		t.Errorf("policies: %v", err)
	}
	// Stopped while it reads, before any policy is compiled.
	manifests, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		_, _ = writer.Write([]byte("# a\n")) // until it is read
		cancel(errors.New("somebody stops it"))
	}()
	var out bytes.Buffer
	err = Run(ctx, Options{Input: sets.Options{Paths: []string{"-"}, Stdin: manifests}, Stdout: &out, Stderr: &out, Outputs: []string{"text"}, Load: func([]string) (*policies.Set, error) {
		<-release
		return nil, errors.New("late")
	}})
	if err == nil || !strings.Contains(out.String(), "note: stopped, as somebody stops it") {
		t.Errorf("while reading: %v\n%s", err, &out)
	}
}

// TestForeign checks that memory is bounded for input from others, and only for that.
func TestForeign(t *testing.T) {
	const config = "apiVersion: termguard.dev/v1\nkind: LintConfig\npolicies: [rules]\n"
	dir := in(t, map[string]string{"repository/.git/HEAD": "", "repository/a.yaml": plain, "repository/.termguard.yaml": config, "mine/.termguard.yaml": config})
	cases := map[string]struct {
		reason  string
		options Options
		bounded bool
		folders []string
	}{
		"Found":   {"Whoever writes the repository wrote it.", Options{}, true, []string{"repository/rules", "own"}},
		"Without": {"They are left out.", Options{NoRepoPolicies: true}, false, []string{"own"}},
		"Named":   {"Whoever starts lint wrote it.", Options{Config: "mine/.termguard.yaml"}, false, []string{"mine/rules", "own"}},
		"Again":   {"A named file counts as the user's own.", Options{Config: "repository/.termguard.yaml"}, true, []string{"repository/rules", "own"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var folders []string
			bounded := false
			o := tc.options
			o.Input.Paths, o.Policies = []string{"repository"}, []string{"own"}
			o.Bound = func(uint64) { bounded = true }
			o.Load = func(all []string) (*policies.Set, error) {
				folders = all
				return policies.Load(policies.Embedded())
			}
			if _, _, err := start(t, o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.folders, folders); diff != "" || bounded != tc.bounded {
				t.Errorf("%s\nbounded: want %t, got %t; folders: -want, +got:\n%s", tc.reason, tc.bounded, bounded, diff)
			}
		})
	}
	if root := files.Root(filepath.Join(dir, "repository")); root == "" {
		t.Error("the repository is none")
	}
}

func TestOutputs(t *testing.T) {
	cases := map[string]struct {
		reason string
		values []string
		want   []output
		err    string
	}{
		"Both":    {"Several at once.", []string{"text", "json=a=b.json", "sarif=s"}, []output{{"text", ""}, {"json", "a=b.json"}, {"sarif", "s"}}, ""},
		"Stdout":  {"As other programs call it.", []string{"json=-"}, []output{{"json", ""}}, ""},
		"Twice":   {"They would mix.", []string{"text", "json"}, nil, "-o text and -o json both go to standard output"},
		"NoFile":  {"The file was forgotten.", []string{"json="}, nil, "name the file behind ="},
		"Unknown": {"A typing error.", []string{"yaml"}, nil, `unknown output "yaml"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseOutputs(tc.values)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(output{})); diff != "" || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s\nerror %v, want %q; -want, +got:\n%s", tc.reason, err, tc.err, diff)
			}
		})
	}
}
