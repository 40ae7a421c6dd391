package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// notes are the notes of a run.
type notes struct {
	templates      []string       // files with templates
	charts         []string       // directories with an unrendered chart
	kustomizations []string       // directories with an unrendered kustomization
	unrendered     string         // why
	far            []string       // kustomizations with remote references
	unbuilt        []unbuilt      // failed renderings
	unasked        map[string]int // number of objects by the owner of their finalizer, if only a cluster knows it
	strangers      []string       // custom policies that read the user
	snippets       []string       // documents that are neither YAML nor manifests
	incomplete     []string       // webhook configurations without rules
	patched        []string       // webhook configurations that a kustomization patches
}

func (n *notes) add(m notes) {
	n.templates = append(n.templates, m.templates...)
	n.charts = append(n.charts, m.charts...)
	n.kustomizations = append(n.kustomizations, m.kustomizations...)
	n.unrendered += m.unrendered
	n.far = append(n.far, m.far...)
	n.unbuilt = append(n.unbuilt, m.unbuilt...)
	n.incomplete = append(n.incomplete, m.incomplete...)
	n.patched = append(n.patched, m.patched...)
	n.strangers = append(n.strangers, m.strangers...)
	n.snippets = append(n.snippets, m.snippets...)
	for owner, count := range m.unasked {
		n.ask(owner, count)
	}
}

// unbuilt is a chart or kustomization that could not be rendered.
type unbuilt struct{ name, reason string }

// maxReason bounds an error in a note, in bytes: libraries write the cause last.
const maxReason = 240

func (u unbuilt) String() string {
	reason := strings.Join(strings.Fields(u.reason), " ")
	if len(reason) > maxReason {
		reason = "… " + strings.ToValidUTF8(reason[len(reason)-maxReason:], "")
	}
	return u.name + ": " + reason
}

// asTheyStand notes an unrendered chart or kustomization.
func (n *notes) asTheyStand(kind, name string) {
	if kind == "chart" {
		n.charts = append(n.charts, name)
	} else {
		n.kustomizations = append(n.kustomizations, name)
	}
}

func (n *notes) ask(owner string, count int) {
	if n.unasked == nil {
		n.unasked = map[string]int{}
	}
	n.unasked[owner] += count
}

// few returns the first names of a list.
func few(names []string) string {
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
		list = append(list, fmt.Sprintf("the templates of %s were skipped: helm template %s | termguard lint -", Counted(len(charts), "Helm chart"), charts[0]))
	}
	if len(n.kustomizations) > 0 {
		dirs := slices.Sorted(slices.Values(n.kustomizations))
		list = append(list, fmt.Sprintf("%s read as the files stand, without patches: kubectl kustomize %s | termguard lint -", Counted(len(dirs), "kustomization"), dirs[0]))
	}
	if n.unrendered != "" {
		list = append(list, "nothing is rendered, as "+n.unrendered)
	}
	if len(n.far) > 0 {
		list = append(list, fmt.Sprintf("%s (%s) read as the files stand, without patches: the rest of what is needed is elsewhere, and nothing is fetched", Counted(len(n.far), "kustomization"), few(n.far)))
	}
	if len(n.unbuilt) > 0 {
		var each []string
		for _, u := range n.unbuilt {
			each = append(each, u.String())
		}
		said := "1 chart or kustomization could not be rendered, and is read as its files stand"
		if len(each) > 1 {
			said = fmt.Sprintf("%d charts and kustomizations could not be rendered, and are read as their files stand", len(each))
		}
		list = append(list, said+": "+few(each))
	}
	if len(n.templates) > 0 {
		list = append(list, fmt.Sprintf("%s skipped (%s): render first, as in helm template CHART | termguard lint -", Counted(len(n.templates), "template"), few(n.templates)))
	}
	if len(n.incomplete) > 0 {
		list = append(list, fmt.Sprintf("what %s (%s) would see is unknown: the rules are filled in at run time", Counted(len(n.incomplete), "webhook configuration"), few(n.incomplete)))
	}
	if patched := slices.Compact(slices.Sorted(slices.Values(n.patched))); len(patched) > 0 {
		list = append(list, fmt.Sprintf("what %s (%s) would see is unknown: a kustomization patches the rules, and was not rendered", Counted(len(patched), "webhook configuration"), few(patched)))
	}
	if len(n.snippets) > 0 {
		said := "1 document cannot be read as YAML, and does not look like a manifest"
		if len(n.snippets) > 1 {
			said = Counted(len(n.snippets), "document") + " cannot be read as YAML, and do not look like manifests"
		}
		list = append(list, said+": "+few(n.snippets))
	}
	if len(n.strangers) > 0 {
		list = append(list, fmt.Sprintf("not asked, as no manifest tells who would delete, which they read: %s: termguard check --policies asks as you", few(n.strangers)))
	}
	if len(n.unasked) > 0 {
		objects := 0
		for _, count := range n.unasked {
			objects += count
		}
		list = append(list, fmt.Sprintf("only a cluster tells whether the owners of the finalizers of %s run (%s): add --snapshot", Counted(objects, "object"), few(slices.Collect(maps.Keys(n.unasked)))))
	}
	return list
}

// Counted returns a number with its noun, such as "2 files".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
