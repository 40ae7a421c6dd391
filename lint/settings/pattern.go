package settings

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

func checkPattern(pattern string) error {
	switch {
	case strings.Contains(pattern, `\`):
		return fmt.Errorf("%q: separate folders by /, on Windows too", pattern)
	case strings.HasPrefix(pattern, "/"):
		return fmt.Errorf("%q: want a path relative to the folder of the configuration", pattern)
	case strings.HasPrefix(pattern, "../"):
		return fmt.Errorf("%q: want a path below the folder of the configuration", pattern)
	case !doublestar.ValidatePattern(pattern):
		return fmt.Errorf("%q is no pattern: a bracket or brace is not closed", pattern)
	}
	return nil
}

// matchPattern takes a file with forward slashes; a folder's name matches everything in it.
func matchPattern(pattern, file string) bool {
	pattern = strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/")
	if pattern == "." {
		return true
	}
	return doublestar.MatchUnvalidated(pattern, file) || doublestar.MatchUnvalidated(pattern+"/**", file)
}
