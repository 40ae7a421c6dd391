package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
)

type state string

const (
	held   = "held"     // in the same file
	moved  = "moved"    // in another file
	gone   = "gone"     // only in an older release
	lost   = "lost"     // not found by this program: a person must look
	absent = "no clone" // not looked up
)

type repository struct {
	name, dir string
	newest    string   // revision to search: the newest release, or the newest commit if that is much newer
	head      string   // the newest commit
	releases  []string // tags, newest first
	files     map[string][]byte
	grepped   map[string][]place
}

var release = regexp.MustCompile(`^v?[0-9]+\.[0-9]+(\.[0-9]+)?$`)

// stale is relative to the newest commit, which is then searched instead: some projects stop tagging.
const stale = 365 * 24 * time.Hour

func read(name, dir string) (*repository, error) {
	r := &repository{name: name, dir: dir, files: map[string][]byte{}, grepped: map[string][]place{}}
	head, err := r.git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return nil, err
	}
	r.head = strings.TrimSpace(head)
	r.newest = r.head
	tags, err := r.git("tag")
	if err != nil {
		return nil, err
	}
	versions := map[string]semver.Version{}
	for _, tag := range strings.Fields(tags) {
		if !release.MatchString(tag) {
			continue
		}
		if v, err := semver.ParseTolerant(tag); err == nil {
			versions[tag] = v
			r.releases = append(r.releases, tag)
		}
	}
	slices.SortFunc(r.releases, func(a, b string) int { return cmp.Or(versions[b].Compare(versions[a]), cmp.Compare(a, b)) })
	if len(r.releases) == 0 {
		return r, nil
	}
	var at [2]time.Time
	for i, rev := range []string{r.releases[0], "HEAD"} {
		seconds, err := r.git("log", "-1", "--format=%ct", rev)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(seconds), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: when was %s: %w", name, rev, err)
		}
		at[i] = time.Unix(n, 0)
	}
	if at[1].Sub(at[0]) < stale {
		r.newest = r.releases[0]
	}
	return r, nil
}

func (r *repository) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"--git-dir", r.dir}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: git %s: %w: %s", r.name, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

func (r *repository) file(revision, name string) []byte {
	id := revision + ":" + name
	text, ok := r.files[id]
	if !ok {
		out, err := r.git("show", id)
		if err == nil {
			text = []byte(out)
		}
		r.files[id] = text
	}
	return text
}

type place struct {
	path string
	line int
	text string
}

// irrelevant files show no owner: third-party code, tests, and texts that only mention a finalizer.
var irrelevant = regexp.MustCompile(`(^|/)(vendor|node_modules|docs?|test|tests|e2e|testdata|website|examples?)/|_test\.go$|\.(md|mdx|ya?ml|json|txt|sum|svg|html)$|^CHANGELOG`)

func (r *repository) grep(revision, text string) ([]place, error) {
	id := revision + " " + text
	if places, ok := r.grepped[id]; ok {
		return places, nil
	}
	out, err := r.git("grep", "-nIF", "-e", text, revision, "--")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	var places []place
	for line := range strings.Lines(out) {
		parts := strings.SplitN(strings.TrimPrefix(line, revision+":"), ":", 3)
		if len(parts) < 3 || irrelevant.MatchString(parts[0]) {
			continue
		}
		n, err := strconv.Atoi(parts[1])
		if err != nil {
			continue
		}
		places = append(places, place{parts[0], n, strings.TrimSpace(parts[2])})
	}
	r.grepped[id] = places
	return places, nil
}

func (r *repository) look(e entry, at source) (source, state, error) {
	quoted := r.quoted(at)
	revisions := []string{r.newest}
	if r.head != r.newest {
		revisions = append(revisions, r.head)
	}
	for _, revision := range revisions {
		if n, err := r.stands(e, revision, at.path, quoted); err != nil {
			return at, lost, err
		} else if n > 0 {
			return source{at.repository, revision, at.path, strconv.Itoa(n)}, held, nil
		}
		p, err := r.elsewhere(e, revision, at.path, quoted)
		if err != nil {
			return at, lost, err
		}
		if p.line > 0 {
			return source{at.repository, revision, p.path, strconv.Itoa(p.line)}, moved, nil
		}
	}
	for _, revision := range r.releases {
		if n, err := r.stands(e, revision, at.path, quoted); err != nil {
			return at, lost, err
		} else if n > 0 {
			return source{at.repository, revision, at.path, strconv.Itoa(n)}, gone, nil
		}
	}
	if quoted != "" {
		return at, gone, nil // it was there once
	}
	return at, lost, nil
}

func (r *repository) quoted(at source) string {
	n, err := strconv.Atoi(at.line)
	if err != nil || at.version == "" {
		return ""
	}
	lines := strings.Split(string(r.file(at.version, at.path)), "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[n-1])
}

var literal = regexp.MustCompile("\"([^\"\\s]+)\"|'([^'\\s]+)'|`([^`\\s]+)`")

var verb = regexp.MustCompile(`%\w|\{\w*\}|\$\{\w+\}`)

// The beginning is shared with other finalizers.
const ends = 100

// stands returns 0 without a line of the finalizer or its unique part.
func (r *repository) stands(e entry, revision, name, quoted string) (int, error) {
	text := r.file(revision, name)
	if quoted != "" {
		lines := strings.Split(string(text), "\n")
		if i := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == quoted }); i >= 0 {
			return i + 1, nil
		}
	}
	best, rank, n := 0, 0, 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if holds(e, line) && !comment(line) {
			return n, nil
		}
		if comment(line) {
			continue
		}
		for _, m := range literal.FindAllStringSubmatch(line, -1) {
			l := m[1] + m[2] + m[3]
			much := len(l)
			if strings.HasSuffix(e.Finalizer, l) {
				much *= ends
			}
			if much <= rank {
				continue
			}
			composed, err := r.composes(e, revision, l)
			if err != nil {
				return 0, err
			}
			if composed {
				best, rank = n, much
			}
		}
	}
	return best, nil
}

func comment(line string) bool {
	return strings.HasPrefix(line, "//") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "*") || strings.HasPrefix(line, "/*")
}

// holds rejects a finalizer inside another one.
func holds(e entry, line string) bool {
	text := cmp.Or(e.Finalizer, e.Prefix, e.Suffix)
	for from := 0; text != ""; {
		i := strings.Index(line[from:], text)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(text)
		before, after := i == 0 || !within(line[i-1]), end == len(line) || !within(line[end])
		// Without a domain, a word needs quotes.
		if !strings.ContainsAny(text, "./") {
			before, after = i > 0 && strings.IndexByte("\"'`", line[i-1]) >= 0, end < len(line) && strings.IndexByte("\"'`", line[end]) >= 0
		}
		if (before || e.Suffix != "") && (after || e.Prefix != "") {
			return true
		}
		from = i + 1
	}
	return false
}

func within(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("./-_", c) >= 0
}

// composes needs each part of the finalizer as a literal.
func (r *repository) composes(e entry, revision, l string) (bool, error) {
	if e.Finalizer == "" {
		return false, nil
	}
	if verb.MatchString(l) {
		parts := verb.Split(l, -1)
		fixed := strings.Join(parts, "")
		if len(strings.Trim(fixed, "./-")) < 5 {
			return false, nil
		}
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		return regexp.MustCompile("^" + strings.Join(parts, ".+") + "$").MatchString(e.Finalizer), nil
	}
	if len(strings.Trim(l, "./-")) < 3 {
		return false, nil
	}
	rest, ok := strings.CutSuffix(e.Finalizer, l)
	if !ok {
		rest, ok = strings.CutPrefix(e.Finalizer, l)
	}
	if rest = strings.Trim(rest, "./-"); !ok || rest == "" {
		return false, nil
	}
	places, err := r.grep(revision, rest)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(places, func(p place) bool {
		return slices.ContainsFunc(literal.FindAllStringSubmatch(p.text, -1), func(m []string) bool {
			return strings.Trim(m[1]+m[2]+m[3], "./-") == rest
		}) || strings.HasPrefix(p.text, "// +groupName="+rest)
	}), nil
}

// elsewhere prefers files like the old one.
func (r *repository) elsewhere(e entry, revision, old, quoted string) (place, error) {
	search := cmp.Or(e.Finalizer, e.Prefix, e.Suffix)
	if e.Regex != "" {
		search = quoted
	}
	if search == "" {
		return place{}, nil
	}
	places, err := r.grep(revision, search)
	if err != nil {
		return place{}, err
	}
	places = slices.DeleteFunc(slices.Clone(places), func(p place) bool {
		return comment(p.text) || p.text != quoted && !holds(e, p.text)
	})
	if len(places) == 0 {
		return place{}, nil
	}
	return slices.MinFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(unlike(a, old), unlike(b, old)), cmp.Compare(a.path, b.path), cmp.Compare(a.line, b.line))
	}), nil
}

// unlike is low for a definition at a similar path.
func unlike(p place, old string) int {
	score := 0
	if !strings.Contains(p.text, "=") {
		score++
	}
	if path.Base(p.path) != path.Base(old) {
		score += 4
	}
	if path.Dir(p.path) != path.Dir(old) {
		score += 2
	}
	return score
}
