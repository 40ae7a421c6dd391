package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// notes are the notes of a run.
type notes struct {
	templates          []string        // files with templates
	charts             []string        // directories with an unrendered chart
	kustomizations     []string        // directories with an unrendered kustomization
	renderOff          string          // why
	remote             []string        // kustomizations with remote references
	renderFailures     []renderFailure // failed renderings
	unknownOwners      map[string]int  // number of objects by the owner of their finalizer, if only a cluster knows it
	userPolicies       []string        // custom policies that read the user
	snippets           []string        // documents that are neither YAML nor manifests
	incompleteWebhooks []string        // webhook configurations without rules
	patchedWebhooks    []string        // webhook configurations that a kustomization patches
}

func (n *notes) add(m notes) {
	n.templates = append(n.templates, m.templates...)
	n.charts = append(n.charts, m.charts...)
	n.kustomizations = append(n.kustomizations, m.kustomizations...)
	n.renderOff += m.renderOff
	n.remote = append(n.remote, m.remote...)
	n.renderFailures = append(n.renderFailures, m.renderFailures...)
	n.incompleteWebhooks = append(n.incompleteWebhooks, m.incompleteWebhooks...)
	n.patchedWebhooks = append(n.patchedWebhooks, m.patchedWebhooks...)
	n.userPolicies = append(n.userPolicies, m.userPolicies...)
	n.snippets = append(n.snippets, m.snippets...)
	for owner, count := range m.unknownOwners {
		n.addUnknownOwner(owner, count)
	}
}

// renderFailure is a chart or kustomization that could not be rendered.
type renderFailure struct{ name, reason string }

// maxReason bounds an error in a note, in bytes: libraries write the cause last.
const maxReason = 240

func (u renderFailure) String() string {
	reason := strings.Join(strings.Fields(u.reason), " ")
	if len(reason) > maxReason {
		reason = "… " + strings.ToValidUTF8(reason[len(reason)-maxReason:], "")
	}
	return u.name + ": " + reason
}

// addUnrendered notes an unrendered chart or kustomization.
func (n *notes) addUnrendered(kind, name string) {
	if kind == "chart" {
		n.charts = append(n.charts, name)
	} else {
		n.kustomizations = append(n.kustomizations, name)
	}
}

func (n *notes) addUnknownOwner(owner string, count int) {
	if n.unknownOwners == nil {
		n.unknownOwners = map[string]int{}
	}
	n.unknownOwners[owner] += count
}

// joinFirst returns the first names of a list.
func joinFirst(names []string) string {
	names = slices.Sorted(slices.Values(names))
	names = slices.Compact(names)
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

func (n *notes) list() []string {
	list := []string{}
	if len(n.charts) > 0 {
		charts := slices.Sorted(slices.Values(n.charts))
		list = append(list, fmt.Sprintf("the templates of %s were skipped: helm template %s | termguard lint -", Plural(len(charts), "Helm chart"), charts[0]))
	}
	if len(n.kustomizations) > 0 {
		dirs := slices.Sorted(slices.Values(n.kustomizations))
		list = append(list, fmt.Sprintf("%s read as the files stand, without patches: kubectl kustomize %s | termguard lint -", Plural(len(dirs), "kustomization"), dirs[0]))
	}
	if n.renderOff != "" {
		list = append(list, "nothing is rendered, as "+n.renderOff)
	}
	if len(n.remote) > 0 {
		list = append(list, fmt.Sprintf("%s (%s) read as the files stand, without patches: the rest of what is needed is elsewhere, and nothing is fetched", Plural(len(n.remote), "kustomization"), joinFirst(n.remote)))
	}
	if len(n.renderFailures) > 0 {
		var failures []string
		for _, u := range n.renderFailures {
			failures = append(failures, u.String())
		}
		text := "1 chart or kustomization could not be rendered, and is read as its files stand"
		if len(failures) > 1 {
			text = fmt.Sprintf("%d charts and kustomizations could not be rendered, and are read as their files stand", len(failures))
		}
		list = append(list, text+": "+joinFirst(failures))
	}
	if len(n.templates) > 0 {
		list = append(list, fmt.Sprintf("%s skipped (%s): render first, as in helm template CHART | termguard lint -", Plural(len(n.templates), "template"), joinFirst(n.templates)))
	}
	if len(n.incompleteWebhooks) > 0 {
		list = append(list, fmt.Sprintf("what %s (%s) would see is unknown: the rules are filled in at run time", Plural(len(n.incompleteWebhooks), "webhook configuration"), joinFirst(n.incompleteWebhooks)))
	}
	if patched := slices.Compact(slices.Sorted(slices.Values(n.patchedWebhooks))); len(patched) > 0 {
		list = append(list, fmt.Sprintf("what %s (%s) would see is unknown: a kustomization patches the rules, and was not rendered", Plural(len(patched), "webhook configuration"), joinFirst(patched)))
	}
	if len(n.snippets) > 0 {
		text := "1 document cannot be read as YAML, and does not look like a manifest"
		if len(n.snippets) > 1 {
			text = Plural(len(n.snippets), "document") + " cannot be read as YAML, and do not look like manifests"
		}
		list = append(list, text+": "+joinFirst(n.snippets))
	}
	if len(n.userPolicies) > 0 {
		list = append(list, fmt.Sprintf("not asked, as no manifest tells who would delete, which they read: %s: termguard check --policies asks as you", joinFirst(n.userPolicies)))
	}
	if len(n.unknownOwners) > 0 {
		objects := 0
		for _, count := range n.unknownOwners {
			objects += count
		}
		list = append(list, fmt.Sprintf("only a cluster tells whether the owners of the finalizers of %s run (%s): add --snapshot", Plural(objects, "object"), joinFirst(slices.Collect(maps.Keys(n.unknownOwners)))))
	}
	return list
}

// Plural returns a number with its noun, such as "2 files".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
