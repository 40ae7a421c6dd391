package triage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Changed asks git for the files that changed since the commit where ref and
// the present one parted: in commits, in the work tree, and new ones that git
// does not ignore. dir is a folder of the repository, and names are joined with
// it. Files that are gone are not among them.
func Changed(ctx context.Context, dir, ref string) ([]string, error) {
	git := func(args ...string) (string, error) {
		command := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		out, err := command.Output()
		switch {
		case errors.Is(err, exec.ErrNotFound):
			return "", errors.New("git is not in PATH: install it, or lint all files")
		case err != nil && stderr.Len() > 0:
			return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(stderr.String()))
		case err != nil:
			return "", fmt.Errorf("git %s: %w", args[0], err)
		}
		return strings.TrimSuffix(string(out), "\n"), nil
	}
	up, err := git("rev-parse", "--show-cdup")
	if err != nil {
		return nil, err
	}
	var tracked string
	commit, err := git("rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	switch {
	case err != nil && ref == "HEAD": // before the first commit everything is new, as to a hook of it
		tracked, err = git("ls-files", "--cached", "--full-name", "-z", "--", ":/")
	case err != nil:
		return nil, fmt.Errorf("git knows no commit %q here: write a branch, tag or commit that is there, or fetch it (actions/checkout: fetch-depth: 0)", ref)
	default:
		var base string
		if base, err = git("merge-base", commit, "HEAD"); err != nil {
			return nil, fmt.Errorf("%s and HEAD have no commit in common here: fetch more of the history (actions/checkout: fetch-depth: 0)", ref)
		}
		tracked, err = git("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=d", base)
	}
	if err != nil {
		return nil, err
	}
	fresh, err := git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", ":/")
	if err != nil {
		return nil, err
	}
	files := []string{}
	for _, name := range strings.Split(tracked+fresh, "\x00") {
		if name != "" {
			files = append(files, filepath.Join(dir, filepath.FromSlash(up), filepath.FromSlash(name)))
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}
