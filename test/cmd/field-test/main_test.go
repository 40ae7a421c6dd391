package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const data = "../../field"

func TestPage(t *testing.T) {
	const file = "../../../test/results/lint-field-test.md"
	repositories, err := readRepositories(filepath.Join(data, "repositories.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	rated, err := readJudged(filepath.Join(data, "judged.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rated {
		if !slices.ContainsFunc(repositories, func(r repository) bool { return r.name == f.repository && r.commit == f.commit }) {
			t.Errorf("%s at %s is judged, and not in repositories.tsv", f.repository, f.commit)
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := writePage(file, repositories, rated); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := page(string(text), repositories, rated)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the page is not current (make field-test-page writes it): -want, +got:\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	at := func(policy string, line int, verdict string) finding {
		return finding{policy: policy, repository: "a/b", commit: "c", file: "f.yaml", line: line, verdict: verdict}
	}
	rated := []finding{at("p", 1, "right"), at("p", 2, "wrong"), at("p", 3, "debatable"), at("p", 4, "was right")}
	cases := map[string]struct {
		reason   string
		findings []finding
		want     []string
		worse    bool
	}{
		"Same": {"Findings that were right are present, those that were wrong are not.", []finding{at("p", 1, "")}, nil, false},
		"Gone": {"A right one disappeared.", nil, []string{"missing, and was right:"}, true},
		"Back": {"A wrong one came back.", []finding{at("p", 1, ""), at("p", 2, "")}, []string{"back, and was wrong:"}, true},
		"Left": {"One that was removed on purpose is judged.", []finding{at("p", 1, ""), at("p", 4, "")}, nil, false},
		"With": {"It is reported with another, of the same cause.", []finding{{policy: "p", repository: "a/b", file: "e.yaml", line: 9, also: " in 3 copies of this manifest: also at f.yaml:1, f.yaml:7"}}, nil, false},
		"New":  {"It has no judgement yet.", []finding{at("p", 1, ""), at("q", 1, "")}, []string{"to be judged:"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			lines, worse := compare(rated, tc.findings)
			var got []string
			for _, line := range lines {
				label, _, _ := strings.Cut(line, "\t")
				got = append(got, label)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || worse != tc.worse {
				t.Errorf("%s\nworse: want %t, got %t; -want, +got:\n%s", tc.reason, tc.worse, worse, diff)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	repositories, err := readRepositories(filepath.Join(data, "repositories.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	pick := func(seed uint64) []repository {
		chosen, err := options{sample: 5, seed: seed}.choose(slices.Clone(repositories))
		if err != nil {
			t.Fatal(err)
		}
		return chosen
	}
	if first := pick(1); len(first) != 5 || !slices.Equal(first, pick(1)) || slices.Equal(first, pick(2)) {
		t.Errorf("five of seed 1: %v, again %v; of seed 2 %v", first, pick(1), pick(2))
	}
}

func TestGoesOn(t *testing.T) {
	clones := t.TempDir()
	if err := os.Mkdir(filepath.Join(clones, "a+broken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a+broken", filepath.Join(clones, "b+broken")); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := options{data: data, clones: clones, termguard: "none"}.run(t.Context(), &out)
	if err == nil || !strings.Contains(err.Error(), "2 of 2 repositories could not be linted") {
		t.Errorf("want both counted, got %v", err)
	}
	for _, name := range []string{"a/broken", "b/broken"} {
		if !strings.Contains(out.String(), "# "+name+": not linted: ") {
			t.Errorf("%s is not named: %s", name, &out)
		}
	}
}

// TestExport checks that only files for lint, or for a renderer, are written: a snapshot may lack large ones.
func TestExport(t *testing.T) {
	clone := t.TempDir()
	for name, text := range map[string]string{"a/pod.yaml": "kind: Pod\n", "empty.yml": "", "go.mod": "module m\n", "main.go": "package m\n", "large.json": strings.Repeat(" ", maxManifest+1)} {
		file := filepath.Join(clone, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(clone, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "all"}, {"hash-object", "large.json"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = clone
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
		if args[0] == "hash-object" {
			name := strings.TrimSpace(string(out))
			if err := os.Remove(filepath.Join(clone, ".git", "objects", name[:2], name[2:])); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string]string{"a/pod.yaml": "kind: Pod\n", "empty.yml": "", "go.mod": "module m\n"}
	for _, whole := range []bool{false, true} {
		if whole {
			want["main.go"] = "package m\n"
		}
		if diff := cmp.Diff(want, exported(t, clone, whole)); diff != "" {
			t.Errorf("whole %t: -want, +got:\n%s", whole, diff)
		}
	}
}

func exported(t *testing.T, clone string, whole bool) map[string]string {
	t.Helper()
	tree := t.TempDir()
	if err := export(t.Context(), filepath.Join(clone, ".git"), "HEAD", tree, whole); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := filepath.WalkDir(tree, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(tree, file)
		got[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
