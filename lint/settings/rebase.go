package settings

import (
	"path"
	"path/filepath"
	"strings"
)

// Rebase turns .gitignore patterns rooted in the folder from into ones rooted in the folder to. Both are
// absolute.
func Rebase(patterns []string, from, to string) []string {
	down, err := filepath.Rel(to, from)
	if err != nil || down == "." {
		return patterns
	}
	var rebased []string
	for _, text := range patterns {
		pattern, not := strings.CutPrefix(text, "!")
		add := func(p string) {
			if not {
				p = "!" + p
			}
			rebased = append(rebased, p)
		}
		if !strings.Contains(strings.TrimSuffix(pattern, "/"), "/") {
			pattern = "**/" + pattern // at any depth
		}
		pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/")
		add("/" + filepath.ToSlash(down) + "/" + pattern)
		// Name entries of the folder to without the way from it and back.
		if within, err := filepath.Rel(from, to); err == nil && !strings.HasPrefix(within, "..") {
			if rest, matches := below(pattern, filepath.ToSlash(within)); matches {
				add("/" + rest)
			}
		}
	}
	return rebased
}

// below returns the rest of a pattern inside a folder.
func below(pattern, folder string) (rest string, matches bool) {
	for _, name := range strings.Split(folder, "/") {
		if strings.HasPrefix(pattern, "**/") {
			return pattern, true
		}
		first, after, more := strings.Cut(pattern, "/")
		if ok, err := path.Match(first, name); !more || after == "" || err != nil || !ok {
			return "", false
		}
		pattern = after
	}
	return pattern, true
}
