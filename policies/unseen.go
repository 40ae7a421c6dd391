package policies

import (
	"cmp"
	"slices"
)

// Unseen is unreadable, but an answer depends on it; in JSON it is text.
type Unseen struct {
	// Resource is a hidden kind, What another thing in words: "pods/a -n b itself".
	Resource, What string
	Reason         string
}

func (u Unseen) String() string {
	if what := cmp.Or(u.What, u.Resource); what != "" {
		return what + ": " + u.Reason
	}
	return u.Reason
}

func (u Unseen) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for readers of the text alone.
func (u *Unseen) UnmarshalText(text []byte) error {
	*u = Unseen{Reason: string(text)}
	return nil
}

// SortUnseen also removes duplicates.
func SortUnseen(list []Unseen) []Unseen {
	slices.SortFunc(list, func(a, b Unseen) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(list)
}

func UnseenTexts(list []Unseen) (texts []string) {
	for _, u := range list {
		texts = append(texts, u.String())
	}
	return texts
}

// Placeholders in reliances.
const (
	content    = "$CONTENT"   // namespaced
	instances  = "$INSTANCES" // of the definition under review
	referrers  = "$REFERRERS" // may refer to the object under review
	finalizers = "$FINALIZERS"
	custom     = "$CUSTOM"
	// hidden in namespaces other than the request's, or in all
	elsewhere = "$ELSEWHERE"
)

type hiddenResource struct {
	resource   string
	namespaced bool
	reason     string
	refers     bool // to the request's object
}

func (h hiddenResource) elsewhere() bool { return h.reason == "elsewhere" }

func (s *subject) unseen(all []candidate) []Unseen {
	list, _ := s.cluster["unseen"].([]any)
	var relevant []Unseen
	for _, item := range list {
		u, _ := item.(map[string]any)
		var h hiddenResource
		h.resource, _ = u["resource"].(string)
		h.namespaced, _ = u["namespaced"].(bool)
		h.reason, _ = u["reason"].(string)
		of, _ := child(s.cluster, "referrers")[s.resource].([]any)
		h.refers = slices.Contains(of, any(h.resource))
		// If hidden in one namespace, it matters to requests about that, an object in it, or a definition.
		if namespace, one := u["namespace"].(string); one && !(s.resource == "namespaces" && s.name == namespace || s.resource == h.resource && s.namespace == namespace || s.name == h.resource) {
			continue
		}
		if h.resource == s.resource && !h.elsewhere() || slices.ContainsFunc(all, func(c candidate) bool { return c.reliesOn(s, h) }) {
			relevant = append(relevant, Unseen{Resource: h.resource, Reason: h.reason})
		}
	}
	return SortUnseen(relevant)
}

func (p *Policy) reliesOn(s *subject, h hiddenResource) bool {
	return slices.ContainsFunc(p.ReliesOn, func(r Reliance) bool { return r.applies(p, s) && r.includes(s, h) })
}

func (r Reliance) applies(p *Policy, s *subject) bool {
	if len(r.For) == 0 {
		return p.about(s)
	}
	return slices.Contains(r.For, s.resource) || s.finalizers && slices.Contains(r.For, finalizers) || s.custom() && slices.Contains(r.For, custom)
}

func (r Reliance) includes(s *subject, h hiddenResource) bool {
	if slices.Contains(r.Except, h.resource) {
		return false
	}
	return slices.ContainsFunc(r.Kinds, func(kind string) bool {
		switch kind {
		case content:
			return h.namespaced && !h.elsewhere()
		case instances:
			return h.resource == s.name
		case referrers:
			return h.refers
		case elsewhere:
			return h.elsewhere() || h.reason == "forbidden"
		}
		return kind == h.resource
	})
}
