package policies

import (
	"slices"
)

// Placeholders in a policy's reliances.
const (
	content    = "$CONTENT"    // namespaced resources
	instances  = "$INSTANCES"  // of the definition under review
	referrers  = "$REFERRERS"  // resources that may refer to the object under review
	finalizers = "$FINALIZERS" // objects with finalizers
	custom     = "$CUSTOM"     // custom resources
	// Resources that rights hide in other namespaces than the request's, or in all.
	elsewhere = "$ELSEWHERE"
)

// hiddenResource is a resource that the facts cannot see.
type hiddenResource struct {
	resource   string
	namespaced bool
	elsewhere  bool    // it is visible in the request's namespace only
	forbidden  bool    // rights hide it
	refers     bool    // its objects may refer to the request's
	namespace  *string // the namespace that hides it, nil for all
}

// concerns reports whether a resource hidden in one namespace may matter to a request: the request is about
// that namespace, an object in it, or a definition.
func (h hiddenResource) concerns(s *subject) bool {
	return h.namespace == nil || s.resource == "namespaces" && s.name == *h.namespace || s.resource == h.resource && s.namespace == *h.namespace || s.name == h.resource
}

// unseen returns the hidden resources that the answer depends on: the request's own, and the policies'
// reliances.
func (s *subject) unseen(all []candidate) []Unseen {
	list, _ := s.cluster["unseen"].([]any)
	var relevant []Unseen
	for _, item := range list {
		u, _ := item.(map[string]any)
		var h hiddenResource
		h.resource, _ = u["resource"].(string)
		h.namespaced, _ = u["namespaced"].(bool)
		reason, _ := u["reason"].(string)
		h.elsewhere, h.forbidden = reason == "elsewhere", reason == "forbidden"
		of, _ := child(s.cluster, "referrers")[s.resource].([]any)
		h.refers = slices.Contains(of, any(h.resource))
		if namespace, one := u["namespace"].(string); one {
			h.namespace = &namespace
		}
		if !h.concerns(s) {
			continue
		}
		if h.resource == s.resource && !h.elsewhere || slices.ContainsFunc(all, func(c candidate) bool { return c.reliesOn(s, h) }) {
			relevant = append(relevant, Unseen{Resource: h.resource, Reason: reason})
		}
	}
	return SortUnseen(relevant)
}

// reliesOn reports whether the policy must see a resource to judge a request.
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
			return h.namespaced && !h.elsewhere
		case instances:
			return h.resource == s.name
		case referrers:
			return h.refers
		case elsewhere:
			return h.elsewhere || h.forbidden
		}
		return kind == h.resource
	})
}
