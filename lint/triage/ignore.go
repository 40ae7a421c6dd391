package triage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Ignore ignores some policies.
type Ignore struct {
	Policies []string
	Reason   string
	Until    time.Time // inclusive; zero without end
}

// maxIgnore is in bytes.
const maxIgnore = 4096

// policyID is as in the schema of METADATA.
var policyID = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// ParseIgnore parses "ID[,ID] -- reason [until YYYY-MM-DD]".
func ParseIgnore(text string) (Ignore, error) {
	const syntax = "write: ID[,ID] -- reason [until YYYY-MM-DD]"
	if len(text) > maxIgnore {
		return Ignore{}, fmt.Errorf("longer than %d bytes", maxIgnore)
	}
	ids, reason, hasReason := cutDashes(text)
	var i Ignore
	i.Policies = strings.FieldsFunc(ids, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	invalid := slices.IndexFunc(i.Policies, func(id string) bool { return !policyID.MatchString(id) })
	switch {
	case len(i.Policies) == 0:
		return i, errors.New("it names no policy; " + syntax)
	case invalid >= 0:
		return i, fmt.Errorf("%q is no id of a policy; %s", i.Policies[invalid], syntax)
	case !hasReason:
		return i, errors.New("it gives no reason; " + syntax)
	}
	i.Reason = strings.Join(strings.Fields(reason), " ")
	words := strings.Fields(i.Reason)
	if n := len(words); n >= 2 && words[n-2] == "until" && looksLikeDay(words[n-1]) {
		day, err := time.Parse(time.DateOnly, words[n-1])
		if err != nil {
			return i, fmt.Errorf("%q is no day: want YYYY-MM-DD, the last day on which it holds", words[n-1])
		}
		i.Until = day
		i.Reason = strings.Join(words[:n-2], " ")
	}
	if i.Reason == "" {
		return i, errors.New("it gives no reason; " + syntax)
	}
	return i, nil
}

// cutDashes cuts around the first "--" that stands alone.
func cutDashes(text string) (before, after string, found bool) {
	for at := 0; at < len(text); {
		n := strings.Index(text[at:], "--")
		if n < 0 {
			break
		}
		n += at
		left := n == 0 || strings.ContainsRune(" \t", rune(text[n-1]))
		right := n+2 == len(text) || strings.ContainsRune(" \t", rune(text[n+2]))
		if left && right {
			return text[:n], text[n+2:], true
		}
		at = n + 2
	}
	return text, "", false
}

// looksLikeDay also accepts an impossible day, but not a word at the end of a reason.
func looksLikeDay(word string) bool {
	return len(word) > 0 && word[0] >= '0' && word[0] <= '9'
}
