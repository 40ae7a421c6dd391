package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// github is as much of GitHub's API as .ci/review asks for, as its documentation describes it
// (https://docs.github.com/rest/pulls): pull request 7, of which 101 files before it change
// nothing that is asked about.
type github struct {
	t        *testing.T
	comments []reviewComment
	reviews  int  // that were made: each is a mail to who watches
	patches  int  // comments that were rewritten
	readOnly bool // as for a pull request from a fork
}

type reviewComment struct {
	ID   int    `json:"id"`
	Path string `json:"path"`
	Line int    `json:"line"`
	Body string `json:"body"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
}

const robot = "github-actions[bot]"

// patch adds lines 10 to 13 of deploy/ü b.yaml, and shows 7 to 16; and has line 40.
const patch = "@@ -7,6 +7,10 @@ spec:\n a\n b\n c\n+d\n+e\n+f\n+@@ -1,9 +100,9 @@ of a manifest\n g\n h\n i\n@@ -36 +40 @@\n-x\n+y"

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer the-token" || r.Header.Get("X-GitHub-Api-Version") == "" {
		g.t.Errorf("%s %s without a token or a version", r.Method, r.URL)
	}
	where := strings.TrimPrefix(r.URL.Path, "/api/repos/acme/shop/")
	id, isComment := strings.CutPrefix(where, "pulls/comments/")
	switch {
	case r.Method == http.MethodGet && where == "pulls/7/files":
		files := []map[string]any{}
		for n := range 101 {
			files = append(files, map[string]any{"filename": fmt.Sprintf("a/%d.png", n)}) // no patch: it is binary
		}
		page(w, r, append(files, map[string]any{"filename": "deploy/ü b.yaml", "patch": patch}))
	case r.Method == http.MethodGet && where == "pulls/7/comments":
		page(w, r, g.comments)
	case g.readOnly:
		http.Error(w, `{"message": "Resource not accessible by integration"}`, http.StatusForbidden)
	case r.Method == http.MethodPost && where == "pulls/7/reviews":
		var review struct {
			CommitID string `json:"commit_id"`
			Event    string
			Comments []struct {
				Path, Side, Body string
				Line             int
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.CommitID != "c0ffee" || review.Event != "COMMENT" {
			g.t.Errorf("a review %+v: %v", review, err)
		}
		g.reviews++
		for _, c := range review.Comments {
			if c.Path != "deploy/ü b.yaml" || c.Side != "RIGHT" || (c.Line < 7 || c.Line > 16) && c.Line != 40 {
				http.Error(w, `{"message": "Unprocessable Entity", "errors": ["line must be part of the diff"]}`, http.StatusUnprocessableEntity)
				return
			}
		}
		for _, c := range review.Comments {
			g.add(robot, c.Path, c.Line, c.Body)
		}
	case r.Method == http.MethodPatch && isComment:
		var change struct{ Body string }
		n, _ := strconv.Atoi(id)
		at := slices.IndexFunc(g.comments, func(c reviewComment) bool { return c.ID == n })
		if err := json.NewDecoder(r.Body).Decode(&change); err != nil || at < 0 {
			g.t.Errorf("comment %s becomes %+v: %v", id, change, err)
			return
		}
		g.patches++
		g.comments[at].Body = change.Body
	default:
		g.t.Errorf("%s %s", r.Method, r.URL)
		http.NotFound(w, r)
	}
}

func (g *github) add(login, path string, line int, body string) {
	c := reviewComment{ID: 1000 + len(g.comments), Path: path, Line: line, Body: body}
	c.User.Login = login
	g.comments = append(g.comments, c)
}

// page writes the part of a list that was asked for.
func page[T any](w http.ResponseWriter, r *http.Request, all []T) {
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	number, _ := strconv.Atoi(r.URL.Query().Get("page"))
	from := min((number-1)*size, len(all))
	_ = json.NewEncoder(w).Encode(all[from:min(from+size, len(all))])
}

var hidden = regexp.MustCompile(`\n\n<!-- .* -->$`)

// TestReview runs what the action does, and does it again: each finding on a line of the diff
// has one comment, which follows what is found.
func TestReview(t *testing.T) {
	type found struct {
		Fingerprint string `json:"fingerprint"`
		Path        string `json:"path"`
		Line        int    `json:"line"`
		Body        string `json:"body"`
	}
	on := func(line int, body string) found {
		return found{fmt.Sprintf("%032x", line), "deploy/ü b.yaml", line, body}
	}
	g := &github{t: t}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	// Somebody quotes a comment of ours, of the same finding: it is theirs.
	quoted := fmt.Sprintf("> see\n\n<!-- termguard 1-2 %032x -->", 10)
	for range 120 {
		g.add("a-person", "deploy/ü b.yaml", 10, quoted)
	}
	script, err := filepath.Abs("../../.ci/review")
	if err != nil {
		t.Fatal(err)
	}
	run := func(category, complete string, findings ...found) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "review.json")
		text, err := json.Marshal(append([]found{}, findings...))
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
		command := exec.CommandContext(t.Context(), script, file)
		command.Env = append(os.Environ(), "TOKEN=the-token", "GITHUB_API_URL="+server.URL+"/api", "GITHUB_REPOSITORY=acme/shop", "PULL=7", "HEAD=c0ffee", "CATEGORY="+category, "COMPLETE="+complete)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("it fails the step: %v: %s", err, out)
		}
		return string(out)
	}
	var many []found
	for n := range 50 {
		many = append(many, found{fmt.Sprintf("%031xf:%d", n, n), "deploy/ü b.yaml", 40, fmt.Sprint("number ", n)})
	}
	for _, step := range []struct {
		reason             string
		category, complete string
		findings           []found
		want               []string // comments of the robot: line and text
		reviews, patches   int
	}{
		{"Lines of the diff have comments, others have none.", "1-2", "true", []found{on(10, "a `$(b)` \\<c\\>"), on(16, "last of the hunk"), on(6, "above"), on(17, "below"), on(100, "in no diff"), {"abc", "other.yaml", 10, "of no file of the pull request"}, {"abd", "a/1.png", 10, "no patch"}},
			[]string{"10 a `$(b)` \\<c\\>", "16 last of the hunk"}, 1, 0},
		{"The same again.", "1-2", "true", []found{on(10, "a `$(b)` \\<c\\>"), on(16, "last of the hunk")}, []string{"10 a `$(b)` \\<c\\>", "16 last of the hunk"}, 1, 0},
		{"One says something else, and one is gone.", "1-2", "true", []found{on(10, "b")}, []string{"10 b", "16 No longer found.\n\nlast of the hunk"}, 1, 2},
		{"It is still gone; another was not read.", "1-2", "false", nil, []string{"10 b", "16 No longer found.\n\nlast of the hunk"}, 1, 2},
		{"It is back, and a line is new.", "1-2", "true", []found{on(10, "b"), on(16, "last of the hunk"), on(40, "new")}, []string{"10 b", "16 last of the hunk", "40 new"}, 2, 3},
		{"A step over other paths has comments of its own.", "3-4", "true", []found{on(10, "other")}, []string{"10 b", "16 last of the hunk", "40 new", "10 other"}, 3, 3},
		{"Not more than 30 at a time.", "5-6", "true", many, append([]string{"10 b", "16 last of the hunk", "40 new", "10 other"}, func() (all []string) {
			for n := range 30 {
				all = append(all, fmt.Sprint("40 number ", n))
			}
			return all
		}()...), 4, 3},
	} {
		out := run(step.category, step.complete, step.findings...)
		var got []string
		for _, c := range g.comments {
			switch {
			case c.User.Login == robot:
				got = append(got, fmt.Sprintf("%d %s", c.Line, hidden.ReplaceAllString(c.Body, "")))
			case c.Body != quoted:
				t.Errorf("%s\nthe comment of %s is now %q", step.reason, c.User.Login, c.Body)
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s\n-want, +got:\n%s\n%s", step.reason, diff, out)
		}
		if g.reviews != step.reviews || g.patches != step.patches {
			t.Errorf("%s\n%d reviews and %d changes, want %d and %d", step.reason, g.reviews, g.patches, step.reviews, step.patches)
		}
	}
	g.readOnly = true
	if out := run("7-8", "true", on(10, "from a fork")); !strings.HasPrefix(out, "curl: ") || !strings.Contains(out, "::notice title=termguard::") || !strings.Contains(out, `needs "pull-requests: write"`) {
		t.Errorf("a token that may not write: %q", out)
	}
	server.Close()
	if out := run("7-8", "true"); !strings.Contains(out, "to list the files failed") {
		t.Errorf("nobody answers: %q", out)
	}
}
