package triage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint/files"
)

// Changed returns the absolute names of files that changed since the merge base of ref and HEAD, also in the
// work tree or untracked, but not ignored or deleted. dir is absolute.
func Changed(ctx context.Context, dir, ref string) (map[string]bool, error) {
	root := files.Root(dir)
	if root == "" {
		return nil, fmt.Errorf("%s is in no git repository: lint all files", dir)
	}
	git, err := newGit(ctx, root)
	if err != nil {
		return nil, err
	}
	var tracked string
	commit, err := git.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	switch {
	case err != nil && ref == "HEAD": // before the first commit everything is new, as for a git hook
		tracked, err = git.run(ctx, "ls-files", "--cached", "--full-name", "-z")
	case err != nil:
		return nil, fmt.Errorf("git knows no commit %q here: name an existing branch, tag or commit, or fetch it (actions/checkout: fetch-depth: 0)", ref)
	default:
		var base string
		if base, err = git.run(ctx, "merge-base", commit, "HEAD"); err != nil {
			return nil, fmt.Errorf("%s and HEAD have no commit in common here: fetch more of the history (actions/checkout: fetch-depth: 0)", ref)
		}
		tracked, err = git.run(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--diff-filter=d", base)
	}
	if err != nil {
		return nil, err
	}
	untracked, err := git.run(ctx, "ls-files", "--others", "--exclude-standard", "--full-name", "-z")
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for _, name := range strings.Split(tracked+untracked, "\x00") {
		if name != "" {
			changed[filepath.Join(root, filepath.FromSlash(name))] = true
		}
	}
	return changed, nil
}

// git prevents the commands of an untrusted repository: git takes a folder with a bare repository's files for
// one, and runs commands in its configuration (git-config(1), core.fsmonitor, core.hooksPath,
// filter.<driver>.clean).
type git struct {
	root  string
	flags []string
}

func newGit(ctx context.Context, root string) (*git, error) {
	g := &git{root: root, flags: []string{
		"--git-dir=" + filepath.Join(root, ".git"), "--work-tree=" + root, "--no-pager", "--no-optional-locks",
		"-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "protocol.allow=never",
	}}
	filters, err := g.run(ctx, "config", "--null", "--name-only", "--get-regexp", `^filter\..*\.(clean|smudge|process|required)$`)
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: there are none
		return nil, err
	}
	for _, key := range strings.Split(filters, "\x00") {
		switch {
		case strings.HasSuffix(key, ".required"):
			g.flags = append(g.flags, "--config-env="+key+"="+off)
		case key != "":
			g.flags = append(g.flags, "--config-env="+key+"="+nothing)
		}
	}
	return g, nil
}

// --config-env takes values from variables, for keys that -c cannot.
const off, nothing = "TERMGUARD_OFF", "TERMGUARD_NOTHING"

// run keeps the variables that git hooks set: they name the index of the commit.
func (g *git) run(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", slices.Concat(g.flags, args)...)
	command.Dir = g.root
	command.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", off+"=false", nothing+"=")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("git is not in PATH: install it, or lint all files")
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && stderr.Len() > 0:
		return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(stderr.String()))
	case err != nil:
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
