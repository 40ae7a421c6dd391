// Command field-test lints a sample of public repositories and compares findings with the judgements in
// test/field, the source of the tables in test/results/lint-field-test.md. Charts and kustomizations are
// rendered if they were for the judgement.
//
// Exit codes: 0 all findings judged right are found, and none judged wrong; 1 otherwise; 2 failure.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	var o options
	flag.StringVar(&o.termguard, "termguard", "../bin/termguard", "binary that lints")
	flag.StringVar(&o.data, "data", "field", "folder of judged.tsv and repositories.tsv")
	flag.StringVar(&o.clones, "clones", "", "folder of clones, each called OWNER+NAME; without it, judged repositories are fetched")
	flag.StringVar(&o.remote, "remote", "https://github.com", "URL or folder that git fetches from, before /OWNER/NAME")
	flag.IntVar(&o.sample, "sample", 20, "number of repositories to lint; 0 for all")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the sample")
	flag.StringVar(&o.page, "page", "", "update the tables of this page, and lint nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx, os.Stdout)
	stop()
	switch {
	case errors.Is(err, errDiffers):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "field-test:", err)
		os.Exit(2)
	}
}

type options struct {
	termguard, data, clones, remote, page string
	sample                                int
	seed                                  uint64
}

var errDiffers = errors.New("findings differ from their judgements")

type repository struct {
	name, commit   string
	files, objects int
	round          string // in which it was first linted
}

type finding struct {
	policy, repository, commit, file string
	line                             int
	verdict, reason, severity        string
	manifest                         string // kept for it
	also                             string // other places that lint lists with it
}

func (f finding) row() string {
	return strings.Join([]string{f.policy, f.repository, f.commit, f.file, strconv.Itoa(f.line), f.verdict, f.reason, f.severity, f.manifest}, "\t")
}

// Judgements do not count.
func (f finding) is(g finding) bool {
	at := func(f, g finding) bool {
		place := fmt.Sprintf("%s:%d", f.file, f.line)
		return slices.Contains(strings.FieldsFunc(g.also, func(r rune) bool { return r == ' ' || r == ',' }), place)
	}
	return f.policy == g.policy && f.repository == g.repository && (f.file == g.file && f.line == g.line || at(f, g) || at(g, f))
}

func (o options) run(ctx context.Context, out io.Writer) error {
	repositories, err := readRepositories(filepath.Join(o.data, "repositories.tsv"))
	if err != nil {
		return err
	}
	rated, err := readJudged(filepath.Join(o.data, "judged.tsv"))
	if err != nil {
		return err
	}
	if o.page != "" {
		return writePage(o.page, repositories, rated)
	}
	if o.termguard, err = filepath.Abs(o.termguard); err != nil {
		return err
	}
	chosen, err := o.choose(repositories)
	if err != nil {
		return err
	}
	differs, failed := false, 0
	for _, r := range chosen {
		findings, err := o.lint(ctx, &r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // a snapshot may lack files
			failed++
			fmt.Fprintf(out, "# %s: not linted: %v\n", r.name, err)
			continue
		}
		fmt.Fprintf(out, "# %s %s: %d files, %d objects, %d findings\n", r.name, r.commit, r.files, r.objects, len(findings))
		of := slices.DeleteFunc(slices.Clone(rated), func(f finding) bool { return f.repository != r.name || f.commit != r.commit })
		lines, worse := compare(of, findings)
		for _, line := range lines {
			fmt.Fprintln(out, line)
		}
		differs = differs || worse
	}
	switch {
	case differs:
		return errDiffers
	case failed > 0:
		return fmt.Errorf("%d of %d repositories could not be linted", failed, len(chosen))
	}
	return nil
}

// New findings alone are not worse.
func compare(rated, findings []finding) (lines []string, worse bool) {
	for _, f := range rated {
		if f.verdict == "right" && !slices.ContainsFunc(findings, f.is) {
			lines, worse = append(lines, "missing, and was right:\t"+f.row()), true
		}
	}
	for _, f := range findings {
		i := slices.IndexFunc(rated, f.is)
		switch {
		case i < 0:
			lines = append(lines, "to be judged:\t"+f.row())
		case rated[i].verdict == "wrong":
			lines, worse = append(lines, "back, and was wrong:\t"+rated[i].row()), true
		}
	}
	return lines, worse
}

func (o options) choose(candidates []repository) ([]repository, error) {
	chosen := candidates
	if o.clones != "" {
		entries, err := os.ReadDir(o.clones)
		if err != nil {
			return nil, err
		}
		chosen = nil
		for _, entry := range entries {
			name := strings.Replace(entry.Name(), "+", "/", 1)
			if info, err := os.Stat(filepath.Join(o.clones, entry.Name())); err != nil || !info.IsDir() || !strings.Contains(name, "/") {
				continue // it may be a link to a clone
			}
			r := repository{name: name}
			if i := slices.IndexFunc(candidates, func(k repository) bool { return k.name == name }); i >= 0 {
				r.commit, r.round = candidates[i].commit, candidates[i].round
			}
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no clones called OWNER+NAME in %s", o.clones)
	}
	rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	if o.sample > 0 && o.sample < len(chosen) {
		chosen = chosen[:o.sample]
	}
	return chosen, nil
}

// maxManifest is in bytes: larger files are data.
const maxManifest = 3 << 20

// programs are files by which lint recognizes that a folder test beside them belongs to a program.
var programs = []string{"go.mod", "Gopkg.toml", "Cargo.toml", "pom.xml"}

// firstRendered begins the first round with rendered charts and kustomizations.
const firstRendered = "2026-11-25"

// lint prefers the judged commit, and records it.
func (o options) lint(ctx context.Context, r *repository) ([]finding, error) {
	dir, err := os.MkdirTemp("", "field-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	clone := filepath.Join(dir, "clone")
	if o.clones != "" {
		clone = gitDir(filepath.Join(o.clones, strings.Replace(r.name, "/", "+", 1)))
	} else if err := o.fetch(ctx, clone, *r); err != nil {
		return nil, err
	}
	if _, err := git(ctx, clone, nil, "cat-file", "-e", r.commit+"^{commit}"); err != nil || r.commit == "" {
		head, err := git(ctx, clone, nil, "rev-parse", "HEAD")
		if err != nil {
			return nil, err
		}
		r.commit = strings.TrimSpace(string(head))
	}
	tree := filepath.Join(dir, "tree")
	rendered := r.round == "" || r.round >= firstRendered
	if err := export(ctx, clone, r.commit, tree, rendered); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, o.termguard, "lint", ".", "-o", "json", fmt.Sprintf("--render=%t", rendered))
	cmd.Dir = tree
	text, err := cmd.Output()
	if len(text) == 0 && err != nil {
		if strings.Contains(stderr(err), "nothing to lint") {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %s", err, stderr(err))
	}
	return results(text, r)
}

func git(ctx context.Context, dir string, in io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir", dir}, args...)...)
	cmd.Stdin = in
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0") // a deleted repository would prompt for a password
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, stderr(err))
	}
	return out, nil
}

func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}

// A clone may be bare or contain repo.
func gitDir(clone string) string {
	for _, below := range []string{".git", "repo/.git", "repo"} {
		if info, err := os.Stat(filepath.Join(clone, below)); err == nil && info.IsDir() {
			return filepath.Join(clone, below)
		}
	}
	return clone
}

func (o options) fetch(ctx context.Context, into string, r repository) error {
	if out, err := exec.CommandContext(ctx, "git", "init", "--quiet", "--bare", into).CombinedOutput(); err != nil {
		return fmt.Errorf("git init: %w: %s", err, out)
	}
	_, err := git(ctx, into, nil, "fetch", "--quiet", "--depth=1", o.remote+"/"+r.name, r.commit)
	return err
}

// export writes a commit's manifests, with the files in programs, or all if whole is set, to a folder that
// lint takes for a repository. It skips links, and files above maxManifest, which a snapshot may lack.
func export(ctx context.Context, clone, commit, dir string, whole bool) error {
	listed, err := git(ctx, clone, nil, "ls-tree", "-r", "-z", "-l", commit)
	if err != nil {
		return err
	}
	var files []string
	var objects strings.Builder
	for entry := range strings.SplitSeq(string(listed), "\x00") {
		about, file, _ := strings.Cut(entry, "\t")
		cells := strings.Fields(about) // mode, type, name and size of an object
		base := path.Base(file)
		manifest := slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(base))) || base == "Kustomization" || slices.Contains(programs, base)
		if !manifest && !whole || len(cells) != 4 || !strings.HasPrefix(cells[0], "100") {
			continue
		}
		if size, err := strconv.Atoi(cells[3]); err != nil || size > maxManifest {
			continue
		}
		files = append(files, file)
		fmt.Fprintln(&objects, cells[2])
	}
	contents, err := git(ctx, clone, strings.NewReader(objects.String()), "cat-file", "--batch")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range files { // for each a line "NAME blob SIZE", the text and a line break
		header, rest, _ := bytes.Cut(contents, []byte("\n"))
		_, length, _ := strings.Cut(string(header), " blob ")
		size, err := strconv.Atoi(length)
		if err != nil || size >= len(rest) {
			return fmt.Errorf("git cat-file: %s: %s", file, header)
		}
		if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(file, rest[:size], 0o600); err != nil {
			return err
		}
		contents = rest[size+1:]
	}
	return nil
}

func results(text []byte, r *repository) ([]finding, error) {
	type place struct {
		File string
		Line int
	}
	var report struct {
		Findings []struct {
			Policy, Severity string
			Place            place
			Evidence         []string
		}
		Problems []place
		Summary  struct{ Files, Objects int }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read the report of lint: %w", err)
	}
	r.files, r.objects = report.Summary.Files, report.Summary.Objects
	var findings []finding
	for _, f := range report.Findings {
		one := finding{policy: f.Policy, repository: r.name, commit: r.commit, file: f.Place.File, line: f.Place.Line, severity: f.Severity}
		for _, evidence := range f.Evidence {
			if others, same := strings.CutPrefix(evidence, "the same "); same {
				one.also += " " + others
			}
		}
		findings = append(findings, one)
	}
	for _, p := range report.Problems {
		findings = append(findings, finding{policy: invalid, repository: r.name, commit: r.commit, file: p.File, line: p.Line})
	}
	slices.SortFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.policy, b.policy))
	})
	return findings, nil
}

const invalid = "invalid-input"

func table(file string, cells int) ([][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		row := strings.Split(line, "\t")
		if len(row) != cells {
			return nil, fmt.Errorf("%s:%d has %d cells, want %d", file, i+1, len(row), cells)
		}
		rows = append(rows, row)
	}
	return rows[1:], nil
}

func readRepositories(file string) ([]repository, error) {
	rows, err := table(file, 5)
	if err != nil {
		return nil, err
	}
	var all []repository
	for _, row := range rows {
		files, err1 := strconv.Atoi(row[2])
		objects, err2 := strconv.Atoi(row[3])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, row[0], err)
		}
		all = append(all, repository{row[0], row[1], files, objects, row[4]})
	}
	return all, nil
}

func readJudged(file string) ([]finding, error) {
	rows, err := table(file, 9)
	if err != nil {
		return nil, err
	}
	var all []finding
	for _, row := range rows {
		line, err := strconv.Atoi(row[4])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, row[1], err)
		}
		if !slices.Contains(verdicts, row[5]) {
			return nil, fmt.Errorf("%s: %s:%d: verdict %q, want one of %v", file, row[3], line, row[5], verdicts)
		}
		all = append(all, finding{policy: row[0], repository: row[1], commit: row[2], file: row[3], line: line, verdict: row[5], reason: row[6], severity: row[7], manifest: row[8]})
	}
	return all, nil
}

// "was right" marks findings that were since removed on purpose.
var verdicts = []string{"right", "was right", "debatable", "wrong"}
