package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMakers checks that no running operator counts as the owner of a generated kind whose maker
// was deleted, however the definition names the maker.
func TestMakers(t *testing.T) {
	const (
		owned     = `ownerReferences: [{apiVersion: make.io/v1, kind: GadgetMaker, name: m, uid: u1}]`
		labelled  = `labels: {make.io/gadget-maker-name: m}`
		withUID   = `labels: {make.io/gadget-maker-name: m, make.io/gadget-maker-id: 6f7a0d0e-6a0c-4c5e-8f58-0f9a3f1b2c3d}`
		annotated = `annotations: {make.io/gadget-maker-name: m}`
		foreign   = `labels: {make.io/operand-name: m, app.kubernetes.io/name: m, meta.helm.sh/release-name: m}`
		kind      = `
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgetmakers.make.io}, spec: {group: make.io, scope: Cluster, names: {kind: GadgetMaker, plural: gadgetmakers}, versions: [{name: v1, served: true, storage: true}]}}
`
		other = `
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.make.io}, spec: {group: make.io, scope: Cluster, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true}]}}
`
		itself  = "\n---\n{apiVersion: make.io/v1, kind: GadgetMaker, metadata: {name: m}}\n"
		another = "\n---\n{apiVersion: make.io/v1, kind: GadgetMaker, metadata: {name: n}}\n"
		hidden  = "\n---\n{apiVersion: termguard.dev/v1, kind: Cluster, unseen: [{resource: gadgetmakers.make.io, namespaced: false, reason: forbidden, message: denied}]}\n"
		removes = "GadgetMaker.make.io/m, customresourcedefinitions.apiextensions.k8s.io/gadgetmakers.make.io"
	)
	made := func(how string) string {
		return strings.Replace(gadget, "metadata: {name: gadgets.x.io}", "metadata: {name: gadgets.x.io, "+how+"}", 1)
	}
	operator := as("one", anAccount, controls, running)
	ofMakers := strings.ReplaceAll(operator, "apiGroups: [x.io], resources: [gadgets, gadgets/status]", "apiGroups: [make.io], resources: [gadgetmakers, gadgetmakers/status]") + strings.ReplaceAll(as("one", controls), "name: one}", "name: all}") // and everything
	ofMakers = strings.Replace(ofMakers, "apiGroups: [x.io]", "apiGroups: ['*']", 1)
	for name, tc := range map[string]struct {
		reason, cluster, finalizer, state, evidence, removers string
	}{
		"owned":                      {"its maker exists", made(owned) + kind + itself + operator, "", Alive, "is ready under it", removes},
		"labelled":                   {"its maker exists", made(labelled) + kind + itself + operator, "", Alive, "is ready under it", removes},
		"owned, gone":                {"its maker was deleted and left it behind", made(owned) + kind + another + operator, "", Unknown, "GadgetMaker.make.io/m, from which the definition of gadgets.x.io was made, does not exist", ""},
		"labelled, gone":             {"its maker was deleted and left it behind", made(labelled) + kind + operator, "", Unknown, "does not exist", ""},
		"annotated, gone":            {"its maker was deleted and left it behind", made(annotated) + kind + operator, "", Unknown, "does not exist", ""},
		"owned, no kind":             {"the definition of its maker's kind was deleted", made(owned) + other + operator, "", Unknown, "was deleted with its kind", ""},
		"labelled with UID, no kind": {"the definition of its maker's kind was deleted", made(withUID) + other + operator, "", Unknown, "was deleted with its kind", ""},
		"labelled, no kind":          {"a label may have another meaning", made(labelled) + other + operator, "", Alive, "is ready under it", ""},
		"other labels":               {"these name no maker", made(foreign) + kind + operator, "", Alive, "is ready under it", ""},
		"hidden":                     {"an unseen maker does not certainly exist", made(labelled) + kind + hidden + operator, "", Unknown, "unseen: gadgetmakers.make.io (forbidden)", ""},
		"declared":                   {"a declaration outweighs it", strings.Replace(made(labelled), "name: it,", "name: it, annotations: {termguard.dev/finalizer-owner: external},", 1) + kind + operator, "", Alive, "declared", ""},

		"handled by the maker's":        {"the controller of the maker's kind may update everything, and the finalizer is named after its group", made(labelled) + kind + itself + ofMakers, "make.io/cleanup", Alive, "was made from GadgetMaker.make.io/m", removes},
		"of another name":               {"installers of other software create definitions, too", made(labelled) + kind + itself + ofMakers, "x.io/cleanup", Absent, "no running controller", ""},
		"the maker's is scaled to zero": {"no running controller", made(labelled) + kind + itself + strings.Replace(ofMakers, as("one", running), as("one", scaledToZero), 1), "make.io/cleanup", Absent, "no running controller", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := tc.cluster
			if tc.finalizer != "" {
				text = strings.ReplaceAll(text, "x.io/cleanup", tc.finalizer)
			} else {
				tc.finalizer = "x.io/cleanup"
			}
			all := objects(t, text)
			w, err := FromObjects(Options{Now: func() time.Time { return time.Unix(0, 0) }}, all)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := w.Ownership(all[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)[tc.finalizer].(map[string]any)
			if said := strings.Join(texts(got["evidence"]), "\n"); got["state"] != tc.state || !strings.Contains(said, tc.evidence) {
				t.Errorf("%s\ngot %s, want %s with %q: %s", tc.reason, got["state"], tc.state, tc.evidence, said)
			}
			var removers []string
			entries, _ := at(w, "removers", "").(map[string]any)
			for what := range entries {
				if strings.Contains(what, "make.io") {
					removers = append(removers, what)
				}
			}
			slices.Sort(removers)
			if diff := cmp.Diff(tc.removers, strings.Join(removers, ", ")); diff != "" {
				t.Errorf("%s: removers: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func texts(list any) (lines []string) {
	items, _ := list.([]any)
	for _, item := range items {
		text, _ := item.(string)
		lines = append(lines, text)
	}
	return lines
}
