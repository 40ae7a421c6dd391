package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/page"
)

// note is in the order of the result.
type note int

const (
	unrenderedChart         note = iota // a folder
	unrenderedKustomization             // a folder
	renderingOff                        // why
	remoteKustomization                 // a folder
	renderFailure                       // a folder, and why
	template                            // a file
	incompleteWebhooks                  // a webhook configuration
	patchedWebhooks                     // a webhook configuration
	snippet                             // a place
	userPolicy                          // the id of a custom policy
	redactedSnapshot                    // a file
	unknownOwner                        // for each object
)

// noteTexts take sorted names.
var noteTexts = []func(names []string) string{
	unrenderedChart: func(names []string) string {
		return fmt.Sprintf("the templates of %s were skipped: helm template %s | termguard lint -", page.Count(len(names), "Helm chart"), names[0])
	},
	unrenderedKustomization: func(names []string) string {
		return fmt.Sprintf("%s read as the files stand, without patches: kubectl kustomize %s | termguard lint -", page.Count(len(names), "kustomization"), names[0])
	},
	renderingOff: func(names []string) string { return "nothing is rendered, as " + names[0] },
	remoteKustomization: func(names []string) string {
		return fmt.Sprintf("%s (%s) read as the files stand, without patches: the rest of what is needed is elsewhere, and nothing is fetched", page.Count(len(names), "kustomization"), joinFirst(names))
	},
	renderFailure: func(names []string) string {
		if len(names) == 1 {
			return "1 chart or kustomization could not be rendered, and is read as its files stand: " + names[0]
		}
		return fmt.Sprintf("%d charts and kustomizations could not be rendered, and are read as their files stand: %s", len(names), joinFirst(names))
	},
	template: func(names []string) string {
		return fmt.Sprintf("%s skipped (%s): render first, as in helm template CHART | termguard lint -", page.Count(len(names), "template"), joinFirst(names))
	},
	incompleteWebhooks: func(names []string) string {
		return fmt.Sprintf("what %s (%s) would see is unknown: the rules are filled in at run time", page.Count(len(names), "webhook configuration"), joinFirst(names))
	},
	patchedWebhooks: func(names []string) string {
		names = slices.Compact(names)
		return fmt.Sprintf("what %s (%s) would see is unknown: a kustomization patches the rules, and was not rendered", page.Count(len(names), "webhook configuration"), joinFirst(names))
	},
	snippet: func(names []string) string {
		if len(names) == 1 {
			return "1 document cannot be read as YAML, and does not look like a manifest: " + names[0]
		}
		return page.Count(len(names), "document") + " cannot be read as YAML, and do not look like manifests: " + joinFirst(names)
	},
	userPolicy: func(names []string) string {
		return fmt.Sprintf("not evaluated, because they read the user, whom no manifest names: %s: run termguard check --policies", joinFirst(names))
	},
	redactedSnapshot: func(names []string) string {
		return names[0] + " is redacted: what policies read of texts, ConfigMaps and certificates is missing"
	},
	unknownOwner: func(names []string) string {
		return fmt.Sprintf("only a cluster shows whether the owners of the finalizers of %s run (%s): add --snapshot", page.Count(len(names), "object"), joinFirst(names))
	},
}

type notes map[note][]string

func (n notes) list() []string {
	texts := []string{}
	for kind, text := range noteTexts {
		if names := n[note(kind)]; len(names) > 0 {
			texts = append(texts, text(slices.Sorted(slices.Values(names))))
		}
	}
	return texts
}

// maxReason bounds an error in a note, in bytes, from its end: libraries write the cause last.
const maxReason = 240

func (r *run) noteFailure(name string, err error) {
	reason := strings.Join(strings.Fields(err.Error()), " ")
	if len(reason) > maxReason {
		reason = "… " + strings.ToValidUTF8(reason[len(reason)-maxReason:], "")
	}
	r.note(renderFailure, name+": "+reason)
}

func joinFirst(names []string) string {
	return page.List(slices.Compact(slices.Sorted(slices.Values(names))), 3)
}
