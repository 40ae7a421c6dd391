package policies

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/internal/race"
)

// policyText is a valid policy, of the folder too_many_pods.
const policyText = `# METADATA
# title: Too many pods
# description: A namespace with too many pods.
# related_resources:
#   - ref: https://example.com/pods
# custom:
#   id: too-many-pods
#   severity: low
#   triggers: [delete]
#   remedy: Delete some first.
#   limits: None.
package termguard.too_many_pods

import data.termguard.lib.request

deny contains {"msg": "too many pods"} if {
	request.deletes_namespace
	data.cluster.counts[request.name].pods > 10
}
`

func files(pairs ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fsys
}

func TestLoad(t *testing.T) {
	race.Skip(t)
	const file = "too_many_pods/too_many_pods.rego"
	edit := func(old, replacement string) string {
		if !strings.Contains(policyText, old) {
			t.Fatalf("the policy of this test has no %q", old)
		}
		return strings.Replace(policyText, old, replacement, 1)
	}
	cases := map[string]struct {
		reason string
		files  fstest.MapFS
		want   []string // each in the error; none: no error
	}{
		"Good":             {"a policy beside ours", files(file, policyText), nil},
		"TestsAreLeftOut":  {"tests are not policies and need not compile", files(file, policyText, "too_many_pods/too_many_pods_test.rego", "not rego"), nil},
		"OtherFilesAreNot": {"folders without Rego and stray files are no policies", files(file, policyText, "docs/x.md", "", "x.rego", "not rego"), nil},
		"NoMetadata": {
			"the answer needs METADATA",
			files(file, "package termguard.too_many_pods\n\ndeny contains {\"msg\": \"x\"}\n"), []string{file + ":1: no METADATA"},
		},
		"MissingKey":      {"the file, the line of the mapping, and the key", files(file, edit("#   limits: None.\n", "")), []string{file + `:6: METADATA: key "custom": missing key "limits"`}},
		"MissingTitle":    {"an error at the root has the line of the block", files(file, edit("# title: Too many pods\n", "")), []string{file + `:1: METADATA: missing key "title"`}},
		"UnknownKey":      {"OPA itself would drop it in silence", files(file, edit("#   limits: None.", "#   limits: None.\n#   severty: high")), []string{file + `:12: METADATA: key "custom.severty": unknown key; did you mean "severity"?`}},
		"UnknownRootKey":  {"a key of custom, one level too high", files(file, edit("# custom:", "# severity: high\n# custom:")), []string{file + `:6: METADATA: key "severity": unknown key`}},
		"BadSeverity":     {"the value is not one of the known", files(file, edit("severity: low", "severity: loww")), []string{file + `:8: METADATA: key "custom.severity": loww is none of high, medium, low, info; did you mean "low"?`}},
		"BadTrigger":      {"an element of a list", files(file, edit("[delete]", "[delete, create]")), []string{file + `:9: METADATA: key "custom.triggers.1": create is none of delete, finalizer-edit, apply`}},
		"BadPattern":      {"a violation without a message of ours", files(file, edit("[delete]", "[delete]\n#   needs: [cluster.pods]")), []string{file + `:10: METADATA: key "custom.needs.0": Does not match pattern`}},
		"UnknownResource": {"a policy without a trigger is silent", files(file, edit("[delete]", "[delete]\n#   resources: [pods, deployment.apps]")), []string{file + `:10: METADATA: key "custom.resources.1": Kubernetes has no resource "deployment.apps"; did you mean "deployments.apps"?`}},
		"UnknownKind":     {"a fact that does not exist cannot be unseen", files(file, edit("[delete]", "[delete]\n#   relies_on:\n#     - kinds: [$CONTENT]\n#     - kinds: [node]")), []string{file + `:12: METADATA: key "custom.relies_on.1.kinds.0": Kubernetes has no resource "node"; did you mean "nodes"?`}},
		"UnknownGroup":    {"a group of Kubernetes is known in full", files(file, edit("[delete]", "[delete]\n#   relies_on:\n#     - kinds: [nodes]\n#       for: [roles.rbac.authorization.k8s.io, rols.rbac.authorization.k8s.io]")), []string{file + `:12: METADATA: key "custom.relies_on.0.for.1": Kubernetes has no resource "rols.rbac.authorization.k8s.io"; did you mean "roles.rbac.authorization.k8s.io"?`}},
		"CustomKind":      {"a definition may come with any group of its own", files(file, edit("[delete]", "[delete]\n#   resources: [kialis.kiali.io]\n#   relies_on:\n#     - kinds: [gateways.gateway.networking.k8s.io, $INSTANCES]")), nil},
		"BadPlaceholder":  {"a placeholder that does not exist", files(file, edit("[delete]", "[delete]\n#   relies_on:\n#     - kinds: [$CONTENTS]")), []string{file + `:11: METADATA: key "custom.relies_on.0.kinds.0"`, `: $CONTENTS is none of $CONTENT, $INSTANCES, $REFERRERS, $ELSEWHERE; did you mean "$CONTENT"?`}},
		"NotYAML":         {"OPA finds this one", files(file, edit("# title: Too many pods", "# title: [")), []string{file + ":"}},
		"OtherID":         {"the folder is the id", files(file, edit("too-many-pods", "too-few-pods")), []string{file + `:12: METADATA custom.id is "too-few-pods"`, `"too-many-pods"`}},
		"OtherPackage":    {"the folder is the package", files(file, edit("package termguard.too_many_pods", "package termguard.pods")), []string{file + ":12: package termguard.pods should be termguard.too_many_pods"}},
		"OtherFile":       {"the folder is the file", files("too_many_pods/main.rego", policyText), []string{"too_many_pods:1: no policy: too_many_pods.rego is missing"}},
		"DoesNotParse":    {"file and line of a syntax error", files(file, edit("deny contains", "deny contians")), []string{file + ":16:"}},
		"DoesNotCompile":  {"file and line of an unsafe variable", files(file, edit("request.deletes_namespace", "x == 1")), []string{file + ":17: rego_unsafe_var_error"}},
		"MisspeltPath":    {"the facts have a shape", files(file, edit("data.cluster.counts", "data.cluster.count")), []string{file + ":18: rego_type_error: undefined ref: data.cluster.count"}},
		"MisspeltLibrary": {"a rule that is not there", files(file, edit("\trequest.deletes_namespace", "\trequest.deletes_namespaces")), []string{file + ":17: undefined ref: data.termguard.lib.request.deletes_namespaces"}},
		"OtherData":       {"a missing key", files(file, edit("data.cluster.counts", "data.clutser.counts")), []string{file + ":18: undefined ref: data.clutser"}},
		"Network":         {"policies are pure", files(file, edit("request.deletes_namespace", `http.send({"url": "http://example.com", "method": "GET"})`)), []string{file + ":17: rego_type_error: http.send is not available: a review may not call out"}},
		"Environment":     {"policies are pure", files(file, edit("request.deletes_namespace", "opa.runtime().env.HOME")), []string{file + ":17: rego_type_error: opa.runtime is not available: policies see no environment"}},
		"Clock":           {"now is a fact", files(file, edit("request.deletes_namespace", "time.now_ns() > 0")), []string{file + ":17: rego_type_error: time.now_ns is not available: the same facts must always have the same answer: the time is data.cluster.now"}},
		"NoSet":           {"a finding is a member of a set", files(file, edit(`deny contains {"msg": "too many pods"}`, `deny := {"msg": "too many pods"}`)), []string{file + ":16: deny is not a set of findings"}},
		"FindsNothing":    {"neither deny nor warn", files(file, edit("deny contains", "denied contains")), []string{file + ":12: the policy finds nothing"}},
		"Duplicate": {
			"two policies of one id, in one folder each",
			files(file, policyText, "unavailable_apiservice/unavailable_apiservice.rego",
				strings.NewReplacer("too-many-pods", "unavailable-apiservice", "too_many_pods", "unavailable_apiservice").Replace(policyText)),
			[]string{`unavailable_apiservice.rego:12: policy "unavailable-apiservice" is already defined in policies/unavailable_apiservice`},
		},
		"Library": {"a user's library would mix with ours", files("lib/lib.rego", "package termguard.lib\n"), []string{`lib/lib.rego:1: the folder name "lib" is taken`}},
		"All":     {"each broken policy is named", files(file, "x", "another/another.rego", "y"), []string{file + ":1:", "another/another.rego:1:"}},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		tc := cases[name]
		t.Run(name, func(t *testing.T) {
			set, err := Load(Embedded(), tc.files)
			if len(tc.want) == 0 {
				if err != nil {
					t.Fatalf("%s\nLoad(...): %v", tc.reason, err)
				}
				if len(set.Policies()) < 2 {
					t.Errorf("%s\nLoad(...) found %d policies", tc.reason, len(set.Policies()))
				}
				return
			}
			if err == nil {
				t.Fatalf("%s\nLoad(...): no error, want one with %q", tc.reason, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s\nLoad(...): error is\n%v\nwant in it: %q", tc.reason, err, want)
				}
			}
		})
	}
}

// TestLoadMetadata checks that a policy has the fields of its METADATA.
func TestLoadMetadata(t *testing.T) {
	set, err := Load(files("too_many_pods/too_many_pods.rego", policyText))
	if err != nil {
		t.Fatal(err)
	}
	want := []Policy{{
		ID: "too-many-pods", Title: "Too many pods", Description: "A namespace with too many pods.", Severity: Low, Triggers: []Trigger{Delete},
		Remedy: "Delete some first.", Limits: "None.", RelatedResources: []Resource{{Ref: "https://example.com/pods"}},
		Custom: true, Folder: "too_many_pods", File: "too_many_pods/too_many_pods.rego",
	}}
	if diff := cmp.Diff(want, set.Policies()); diff != "" {
		t.Errorf("Policies(): -want, +got:\n%s", diff)
	}
}

// TestEmbedded checks that a folder alone is a policy, and validates the policies that are loaded
// unchecked from the binary.
func TestEmbedded(t *testing.T) {
	set, err := load(true, Embedded())
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, p := range set.Policies() {
		got = append(got, p.Folder)
	}
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.IsDir() && f.Name() != libFolder && f.Name() != schemaFolder && !slices.Contains([]string{"testdata", "internal", "scaffold"}, f.Name()) {
			want = append(want, f.Name())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folders of policies: -want, +got:\n%s", diff)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(policyText)
	f.Add(strings.Replace(policyText, "limits: None.", "limits: [", 1))
	f.Add("# METADATA\n# title: x\npackage termguard.too_many_pods\n")
	f.Add("package termguard.too_many_pods\ndeny contains x if x := [1][_]\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Load(files("too_many_pods/too_many_pods.rego", text))
		if (set == nil) == (err == nil) {
			t.Errorf("Load(...) = %v, %v: want either a set or an error", set, err)
		}
	})
}
