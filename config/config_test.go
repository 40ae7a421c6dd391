package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var ids = []string{"orphaned-finalizer", "unavailable-apiservice"}

func TestRead(t *testing.T) {
	const head = "apiVersion: termguard.dev/v1\nkind: Config\n"
	cases := map[string]struct {
		reason, text string
		want         Config
		err          string // contained in the error
	}{
		"Whole": {
			reason: "Every key.",
			text: head + `
enforcement: {default: warn, policies: {orphaned-finalizer: deny}}
finalizerOwners: {x.io/f: Deployment/x/controller, y.io/f: external}
params: {orphaned-finalizer: {limit: 3}}
catalog: [{finalizer: z.io/f, resources: [zs.z.io], owner: Z, component: in-cluster, source: us}]
`,
			want: Config{
				APIVersion: "termguard.dev/v1", Kind: "Config",
				Enforcement: Enforcement{Default: Warn, Policies: map[string]Mode{"orphaned-finalizer": Deny}},
				Shared: Shared{
					FinalizerOwners: map[string]string{"x.io/f": "Deployment/x/controller", "y.io/f": "external"},
					Params:          map[string]any{"orphaned-finalizer": map[string]any{"limit": int64(3)}},
					Catalog:         []any{map[string]any{"finalizer": "z.io/f", "resources": []any{"zs.z.io"}, "owner": "Z", "component": "in-cluster", "source": "us"}},
				},
			},
		},
		"Empty":         {reason: "An empty file is a mistake.", text: "", err: "want apiVersion: termguard.dev/v1, kind: Config"},
		"OtherKind":     {reason: "So is another document.", text: "apiVersion: v1\nkind: ConfigMap\n", err: "got apiVersion: v1, kind: ConfigMap"},
		"UnknownKey":    {reason: "An unknown key is a typing error.", text: head + "enforcment: {}\n", err: `unknown field "enforcment"`},
		"TwiceTheKey":   {reason: "Which one counts?", text: head + "kind: Config\n", err: "already set"},
		"OtherCase":     {reason: "Kubernetes minds the case of keys.", text: head + "Enforcement: {default: deny}\n", err: `unknown field "Enforcement"`},
		"TwoDocuments":  {reason: "Nobody would read the second.", text: head + "---\nenforcement: {default: deny}\n", err: "second document"},
		"EmptyDocument": {reason: "A line at the end is no document.", text: head + "---\n# the end\n", want: Config{APIVersion: "termguard.dev/v1", Kind: "Config"}},
		"ByteOrderMark": {reason: "Some editors leave one.", text: "\ufeff" + head, want: Config{APIVersion: "termguard.dev/v1", Kind: "Config"}},
		"Windows":       {reason: "Some editors end lines so.", text: strings.ReplaceAll(head, "\n", "\r\n"), want: Config{APIVersion: "termguard.dev/v1", Kind: "Config"}},
		"UnknownPolicy": {reason: "The nearest name helps.", text: head + "enforcement: {policies: {orphan-finalizer: deny}}\n", err: `enforcement.policies: policy "orphan-finalizer" not found; did you mean "orphaned-finalizer"?`},
		"StrangePolicy": {reason: "What is not near is no help.", text: head + "params: {zzz: {}}\n", err: `params: policy "zzz" not found`},
		"UnknownMode":   {reason: "Modes are few.", text: head + "enforcement: {default: block}\n", err: `enforcement.default: "block" is not deny, warn, dryrun or off`},
		"EmptyMode":     {reason: "No mode is no mode.", text: head + "enforcement: {policies: {orphaned-finalizer: \"\"}}\n", err: `"" is not deny`},
		"OddOwner":      {reason: "It has the form of the annotation.", text: head + "finalizerOwners: {x: a/b}\n", err: `owner of "x" is "a/b"; want KIND/NAMESPACE/NAME`},
		"OddEntry":      {reason: "An entry is checked like one in the binary.", text: head + "catalog: [{finalizer: z.io/f}]\n", err: "catalog entry 1 (z.io/f): resources, owner and source are needed"},
		"NotYAML":       {reason: "Not YAML.", text: "a: [", err: "not a Config"},
		"TooLarge":      {reason: "No ConfigMap is larger.", text: head + strings.Repeat("#", maxConfig), err: "larger than"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Read(strings.NewReader(tc.text), ids)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%s\nwant an error with %q, got %v", tc.reason, tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s\n%v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nconfig: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add("apiVersion: termguard.dev/v1\nkind: Config\nenforcement: {default: warn, policies: {orphaned-finalizer: deny}}\nparams: {orphaned-finalizer: {}}")
	f.Add("finalizerOwners: {a: external}")
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text), ids)
		if err == nil && c.Kind != "Config" {
			t.Errorf("accepted %+v", c)
		}
	})
}
