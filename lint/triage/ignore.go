package triage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

type Ignore struct {
	Policies []string
	Reason   string
	Until    time.Time // inclusive; zero without end
}

// maxIgnore is in bytes.
const maxIgnore = 4096

var (
	// policyID is as in the schema of METADATA.
	policyID = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	// dashes stand alone.
	dashes = regexp.MustCompile(`(^|[ \t])--([ \t]|$)`)
	// lastDay also accepts an impossible day, but not a word at the end of a reason.
	lastDay = regexp.MustCompile(`^(?:(.*) )?until ([0-9]\S*)$`)
)

// ParseIgnore parses "ID[,ID] -- reason [until YYYY-MM-DD]".
func ParseIgnore(text string) (i Ignore, err error) {
	const syntax = "write: ID[,ID] -- reason [until YYYY-MM-DD]"
	if len(text) > maxIgnore {
		return i, fmt.Errorf("longer than %d bytes", maxIgnore)
	}
	parts := append(dashes.Split(text, 2), "")
	i.Policies = strings.FieldsFunc(parts[0], func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	i.Reason = strings.Join(strings.Fields(parts[1]), " ")
	day := ""
	if m := lastDay.FindStringSubmatch(i.Reason); m != nil {
		i.Reason, day = m[1], m[2]
		i.Until, err = time.Parse(time.DateOnly, day)
	}
	invalid := slices.IndexFunc(i.Policies, func(id string) bool { return !policyID.MatchString(id) })
	switch {
	case len(i.Policies) == 0:
		return i, errors.New("it names no policy; " + syntax)
	case invalid >= 0:
		return i, fmt.Errorf("%q is no id of a policy; %s", i.Policies[invalid], syntax)
	case err != nil:
		return i, fmt.Errorf("%q is no day: want YYYY-MM-DD, the last day on which it holds", day)
	case i.Reason == "":
		return i, errors.New("it gives no reason; " + syntax)
	}
	return i, nil
}
