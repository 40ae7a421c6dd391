package answer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/deletion"
	"github.com/termguard/termguard/internal/race"
)

// TestClassesOfPolicies checks that each action of each policy has a class, both on an object of
// another owner and on a target.
func TestClassesOfPolicies(t *testing.T) {
	race.Skip(t)
	seen := map[deletion.Class]int{}
	for in := range answer.StepsOfSamples(t) {
		for _, own := range []bool{true, false} {
			class, err := deletion.ClassOf(in.Step, in.Resource, own, false)
			if err != nil {
				t.Errorf("%s: %s: %v", in.File, in.Finding.Policy, err)
			}
			seen[class]++
		}
	}
	for _, m := range deletion.Classes {
		if seen[m.Class] == 0 && m.Class != deletion.ClassWait && m.Class != deletion.ClassRisk { // which are of targets
			t.Errorf("no fixture has an action of class %s", m.Class)
		}
	}
}

// evidence says what the steps of a policy rely on, and who writes it.
type evidence struct{ of, by string }

// restsOn has each policy whose steps termguard delete may carry out on objects other than the
// targets. The policy marks what a tenant writes (steps.hearsay), or the deletion waits for that
// very object, and the user names it.
var restsOn = map[string]evidence{
	"admission-policy-blocks-delete":       {"an admission policy, its binding and its parameters, evaluated as the API server does", "administrators; parameters by their writers"},
	"busy-mount":                           {"Events of kubelets", "**any user: marked**"},
	"controller-removed-before-finalizers": {"objects with a finalizer whose owner is deleted with the target, before them", "their authors; each object is named"},
	"crd-removed-with-finalizers":          {"the owner of a finalizer, as below", "as below"},
	"dra-driver-missing":                   {"allocated claims, ResourceSlices, and no pod of the plugin on the node", "Kubernetes and administrators"},
	"eviction-blocked":                     {"a PodDisruptionBudget and its status, and the pods that it covers", "the author of the budget; its status by Kubernetes"},
	"failing-conversion-webhook":           {"a definition whose conversion webhook was called and did not answer", "administrators, and the API server"},
	"failing-webhook-blocks-delete":        {"a webhook configuration and its backend; **statements of Events and conditions about it are marked**", "administrators; **Events by any user**"},
	"finalizer-already-stuck":              {"an old deletionTimestamp, and a running owner of the finalizer", "Kubernetes"},
	"immutable-files":                      {"Events of kubelets", "**any user: marked**"},
	"in-use":                               {"references of other objects that the owner of its finalizer checks; **statements of a custom resource's status are marked**", "authors of these objects, each of which is named; **the status by its writers**"},
	"missing-reference":                    {"a missing object that the object refers to", "the author of the object with the finalizer"},
	"network-plugin-removed":               {"Events of kubelets", "**any user: marked**"},
	"node-already-stuck":                   {"pods that are long past their deadline; **Events of kubelets are marked**", "Kubernetes; **Events by any user**"},
	"operator-in-same-set":                 {"the order of the deletions", "the user"},
	"orphaned-finalizer":                   {"the owner of a finalizer: cluster-wide rights, workloads of the catalog that have these or are in its namespace, served API groups. **A declaration, a RoleBinding, an owner reference, and observations are marked**", "administrators; **the rest by any user**"},
	"refused-request":                      {"as failing-webhook-blocks-delete", "as there"},
	"storage-in-use":                       {"pods that use a claim, and the claim of a volume", "their authors; each object is named"},
	"unavailable-apiservice":               {"an APIService that was called and did not answer, and its condition", "administrators and Kubernetes"},
	"unreachable-node":                     {"conditions of a Node", "its kubelet and Kubernetes"},
	"volume-driver-missing":                {"a CSINode, and no pod of the driver on the node", "kubelets and administrators"},
	"webhook-backend-in-namespace":         {"a webhook configuration, and its backend among the deleted objects", "administrators"},
}

// TestEvidenceOfSteps checks that restsOn has each policy with such steps, and compares the table
// in test/results/delete-security.md with it, or writes it.
func TestEvidenceOfSteps(t *testing.T) {
	classes := map[string]map[deletion.Class]bool{}
	marked := map[string]bool{}
	for in := range answer.StepsOfSamples(t) {
		f := in.Finding
		if in.Advice != "" {
			continue
		}
		class, err := deletion.ClassOf(in.Step, in.Resource, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if classes[f.Policy] == nil {
			classes[f.Policy] = map[deletion.Class]bool{}
		}
		classes[f.Policy][class] = true
		marked[f.Policy] = marked[f.Policy] || in.Hearsay != ""
	}
	if race.Detector {
		return // which leaves time for few fixtures
	}
	var table strings.Builder
	table.WriteString("| policy | steps | rest on | written by |\n|---|---|---|---|\n")
	for _, p := range slices.Sorted(maps.Keys(classes)) {
		e, ok := restsOn[p]
		if !ok {
			t.Errorf("%s has steps that may be carried out: add what they rely on to restsOn", p)
		}
		if marks := strings.Contains(e.of+e.by, "marked"); marked[p] && !marks {
			t.Errorf("steps of %s are marked as hearsay, but restsOn lacks that", p)
		}
		names := make([]string, 0, len(classes[p]))
		for _, c := range slices.Sorted(maps.Keys(classes[p])) {
			names = append(names, "`"+string(c)+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", p, strings.Join(names, ", "), e.of, e.by)
	}
	for p := range restsOn {
		if classes[p] == nil {
			t.Errorf("restsOn has %s, but no fixture has such a step", p)
		}
	}
	answer.Section(t, "../test/results/delete-security.md", "evidence", table.String())
}
