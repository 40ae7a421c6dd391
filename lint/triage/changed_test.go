package triage

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository creates a repository with a branch "main" and more commits on top of it.
func repository(t *testing.T) (dir string, git func(...string)) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not in PATH: install it to run this test")
	}
	dir = t.TempDir()
	for key, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		t.Setenv(key, value)
	}
	git = func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q", "-b", "main")
	for _, name := range []string{"same.yaml", "sub/changed.yaml", "gone.yaml", "old name.yaml", "edited.yaml", ".gitignore"} {
		write(name, "a: "+name+"\n")
	}
	write(".gitignore", "ignored.yaml\n")
	git("add", "-A")
	git("commit", "-qm", "one")
	git("checkout", "-qb", "topic")
	write("sub/changed.yaml", "b: 1\n")
	git("mv", "old name.yaml", "new ü.yaml")
	git("rm", "-q", "gone.yaml")
	git("commit", "-qam", "two")
	git("checkout", "-q", "main")
	write("same.yaml", "changed on main only\n")
	git("commit", "-qam", "three")
	git("checkout", "-q", "topic")
	write("edited.yaml", "not committed\n")
	write("sub/new.yaml", "not added\n")
	write("ignored.yaml", "not wanted\n")
	return dir, git
}

func TestChanged(t *testing.T) {
	dir, git := repository(t)
	for _, from := range []string{".", "sub"} {
		got, err := Changed(t.Context(), filepath.Join(dir, from), "main")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, name := range []string{"edited.yaml", "new ü.yaml", "sub/changed.yaml", "sub/new.yaml"} {
			want[filepath.Join(dir, name)] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %s: -want, +got:\n%s", from, diff)
		}
	}
	git("checkout", "-q", "--orphan", "alone")
	git("commit", "-qm", "other root")
	cases := map[string]struct{ reason, dir, ref, err string }{
		"UnknownRef": {"A typing error, or not fetched.", dir, "mian", `git knows no commit "mian" here: name an existing branch, tag or commit, or fetch it`},
		"Option":     {"A ref is no option of git.", dir, "--all", `git knows no commit "--all" here`},
		"NoCommon":   {"As in a shallow clone.", dir, "main", "main and HEAD have no commit in common here: fetch more of the history"},
		"NoGit":      {"Not a repository.", t.TempDir(), "main", "is in no git repository"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Changed(t.Context(), tc.dir, tc.ref); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s\nwant an error with %q, got %v", tc.reason, tc.err, err)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Changed(t.Context(), dir, "main"); err == nil || !strings.Contains(err.Error(), "git is not in PATH") {
		t.Errorf("without git: %v", err)
	}
}

// No command that a repository configures is run, in any of the ways that git has.
func TestChangedRunsNothing(t *testing.T) {
	dir, git := repository(t)
	ran := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >>'"+ran+"'\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := t.TempDir()
	for _, hook := range []string{"post-index-change", "fsmonitor-watchman"} {
		if err := os.Symlink(script, filepath.Join(hooks, hook)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("*.yaml filter=evil diff=evil\n*.yaml filter=e=vil\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"core.fsmonitor": script, "core.hooksPath": hooks, "core.pager": script, "diff.external": script,
		"filter.evil.clean": script, "filter.evil.process": script, "filter.evil.required": "true",
		"filter.e=vil.clean": script, "filter.e=vil.required": "true",
		"diff.evil.command": script, "diff.evil.textconv": script,
	} {
		git("config", key, value)
	}
	got, err := Changed(t.Context(), dir, "main")
	if err != nil || len(got) != 5 { // those of TestChanged, and .gitattributes
		t.Errorf("got %v, %v", got, err)
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("it ran:\n%s", text)
	}
	// An unguarded git diff does run it, so the test can fail.
	if _, err := exec.CommandContext(t.Context(), "git", "-C", dir, "diff", "--name-only", "main").Output(); err != nil {
		t.Log(err)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("git ran nothing even without care: %v", err)
	}
}

// TestChangedBeforeTheFirstCommit checks the call of a hook before the first commit.
func TestChangedBeforeTheFirstCommit(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"staged.yaml", "new.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "staged.yaml"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	got, err := Changed(t.Context(), dir, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{filepath.Join(dir, "new.yaml"): true, filepath.Join(dir, "staged.yaml"): true}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
