package policies

import (
	"cmp"
	"slices"
)

// Unseen is something that an answer depends on and that could not be read. In JSON it is its text.
type Unseen struct {
	// Resource is a hidden kind, and What another thing in words: "pods/a -n b itself".
	Resource, What string
	Reason         string
}

// String returns "WHAT: REASON", or the reason if that says it all.
func (u Unseen) String() string {
	if what := cmp.Or(u.What, u.Resource); what != "" {
		return what + ": " + u.Reason
	}
	return u.Reason
}

// MarshalText implements encoding.TextMarshaler.
func (u Unseen) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for readers of the text alone.
func (u *Unseen) UnmarshalText(text []byte) error {
	*u = Unseen{Reason: string(text)}
	return nil
}

// SortUnseen returns a list in order, each entry once.
func SortUnseen(list []Unseen) []Unseen {
	slices.SortFunc(list, func(a, b Unseen) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(list)
}

// UnseenTexts returns a list as text.
func UnseenTexts(list []Unseen) (texts []string) {
	for _, u := range list {
		texts = append(texts, u.String())
	}
	return texts
}
