package answer

import (
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// queue is a world with a webhook that answers and whose rules match DELETE of queues.
const queue = `
{apiVersion: termguard.dev/v1, kind: Cluster, version: v1.36.3}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: queues.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Queue, plural: queues}, versions: [{name: v1, served: true, storage: true}]}, status: {storedVersions: [v1]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: demo, labels: {team: a}}}
---
{apiVersion: x.io/v1, kind: Queue, metadata: {name: research, namespace: demo, uid: q1}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- {name: queues.x.io, failurePolicy: Fail, clientConfig: {url: "https://192.0.2.9/"}, sideEffects: None, admissionReviewVersions: [v1], namespaceSelector: {matchLabels: {team: a}}, rules: [{operations: [DELETE], apiGroups: [x.io], apiVersions: ["*"], resources: [queues]}]}
`

// TestUnasked checks that a webhook that only a dry run can query is reported, unless its rules do
// not match the deletion, it fails open, or it matches everything.
func TestUnasked(t *testing.T) {
	race.Skip(t)
	for name, tc := range map[string]struct {
		was, is string
		unasked bool
	}{
		"matches exactly that":   {"", "", true},
		"of another team":        {"namespaceSelector: {matchLabels: {team: a}}", "namespaceSelector: {matchLabels: {team: b}}", false},
		"matches everything":     {"resources: [queues]", "resources: ['*']", false},
		"matches other requests": {"operations: [DELETE]", "operations: [CREATE]", false},
		"it fails open":          {"failurePolicy: Fail", "failurePolicy: Ignore", false},
	} {
		t.Run(name, func(t *testing.T) {
			world, err := cluster.FromObjects(cluster.Options{MaxNames: 10}, decodeAll(t, strings.Replace(queue, tc.was, tc.is, 1)))
			if err != nil {
				t.Fatal(err)
			}
			s, err := FromFacts(world, Name{Object: policies.Object{Resource: "queues.x.io", Namespace: "demo", Name: "research"}})
			if err != nil {
				t.Fatal(err)
			}
			s.Unseen = nil
			report, err := ask(t.Context(), newEngine(t), world, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			report.all.Items[0].addUnasked(world, s, nil)
			report.all.sum()
			shown := strings.Contains(report.Why(), "webhook configuration guard, which was not tried, allows it") &&
				slices.ContainsFunc(report.all.Plan, func(s Step) bool { return s.Do == "Send webhook queues.x.io a dry run: add --dry-run-deletes" })
			if shown != tc.unasked || report.Verdict != policies.Completes {
				t.Errorf("%s: %v", report.Why(), report.all.Plan)
			}
		})
	}
}

// TestForeseeGuards checks that a plan names what would refuse the removal of a finalizer before
// that is tried.
func TestForeseeGuards(t *testing.T) {
	race.Skip(t)
	const world = `
{apiVersion: termguard.dev/v1, kind: Cluster, version: v1.36.3}
---
{apiVersion: v1, kind: Namespace, metadata: {name: demo}}
---
{apiVersion: v1, kind: Pod, metadata: {name: it, namespace: demo, uid: c1, finalizers: [kiali.io/finalizer]}, spec: {nodeName: a, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}, status: {phase: Running}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: zeal}
webhooks:
- {name: zeal.x.io, failurePolicy: Fail, clientConfig: {service: {namespace: demo, name: none}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [UPDATE], apiGroups: [""], apiVersions: ["*"], resources: [pods]}]}
`
	for operation, before := range map[string]bool{"UPDATE": true, "CREATE": false} {
		w, err := cluster.FromObjects(cluster.Options{MaxNames: 10}, decodeAll(t, strings.Replace(world, "UPDATE", operation, 1)))
		if err != nil {
			t.Fatal(err)
		}
		strip := Step{Step: policies.Step{Kind: policies.Remove, Do: "take the finalizer off", Command: "kubectl patch", Action: &policies.Action{
			Verb: policies.VerbPatch, Objects: []string{"pods/it"}, Namespace: "demo", Type: "json",
			Patch: []byte(`[{"op":"test","path":"/metadata/finalizers/0","value":"kiali.io/finalizer"},{"op":"remove","path":"/metadata/finalizers/0"}]`),
		}}}
		strip.Why = "nobody removes it"
		first := Step{Step: policies.Step{Kind: policies.Mend, Do: "bring its owner back"}, Why: strip.Why}
		a := Answer{Plan: []Step{first, strip}}
		if err := a.Foresee(t.Context(), newEngine(t), w); err != nil {
			t.Fatal(err)
		}
		steps := byCause(a.Plan)
		names := slices.ContainsFunc(steps[:len(steps)-1], func(s Step) bool {
			return strings.Contains(s.Command, "validatingwebhookconfigurations.admissionregistration.k8s.io/zeal")
		})
		if names != before || steps[len(steps)-1].Command != strip.Command {
			t.Errorf("webhook that matches %s: %v", operation, steps)
		}
	}
}
