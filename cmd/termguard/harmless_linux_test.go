package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/deletion"
)

// bystanders are objects that the user does not name: they must not change.
const bystanders = `
---
{apiVersion: v1, kind: Node, metadata: {name: silent}, status: {conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bystander, namespace: other}, spec: {nodeName: silent, containers: [{name: c, image: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: bystander}}]}, status: {phase: Running}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: bystander, namespace: other, finalizers: [kubernetes.io/pvc-protection]}, spec: {volumeName: bystander}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: bystander, finalizers: [kubernetes.io/pv-protection]}, status: {phase: Bound}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: bystander, namespace: other}, spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: bystander}, webhooks: [{name: v.example.com, failurePolicy: Fail, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [gone.example.com], apiVersions: ["*"], resources: ["*"], operations: [DELETE, UPDATE]}], clientConfig: {service: {namespace: gone, name: gone}}}]}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.gone.example.com}, spec: {group: gone.example.com, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: gone, name: gone}}, status: {conditions: [{type: Available, status: "False", reason: ServiceNotFound}]}}
`

const rbac = `
---
{apiVersion: v1, kind: Namespace, metadata: {name: acme-system}, status: {phase: Active}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: acme-operator, namespace: acme-system}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: acme-operator, namespace: acme-system}, spec: {replicas: 1, selector: {matchLabels: {app: acme}}, template: {metadata: {labels: {app: acme}}, spec: {serviceAccountName: acme-operator, containers: [{name: c, image: acme/operator}]}}}, status: {replicas: 1, readyReplicas: 1}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: acme-operator-1, namespace: acme-system, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: acme-operator, uid: d, controller: true}]}, spec: {replicas: 1, selector: {matchLabels: {app: acme}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: acme-operator-1-x, namespace: acme-system, labels: {app: acme}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: acme-operator-1, uid: r, controller: true}]}, spec: {serviceAccountName: acme-operator, nodeName: good, containers: [{name: c, image: acme/operator}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: acme-operator}, rules: [{apiGroups: [acme.example.com], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: acme-operator}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acme-operator}, subjects: [{kind: ServiceAccount, name: acme-operator, namespace: acme-system}]}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: of-others, namespace: other, finalizers: [acme.example.com/cleanup]}}
`

// TestDeleteHarmsNobody runs each way in which --yes, with permissions for a whole class, once
// changed objects that the user had not named.
func TestDeleteHarmsNobody(t *testing.T) {
	all := []string{"--yes", "--allow=restore", "--allow=strip", "--timeout=1ms"}
	for name, tc := range map[string]struct {
		reason, world string
		args          []string
		hidden        []string
		flags         []string
		// own has paths of named objects, or beginnings of paths.
		own []string
		// says is part of the output, and code is the exit code, if they matter.
		says string
		code int
	}{
		"RightsOfAnOperator": {
			"on a mere may, custom resources of other namespaces were deleted", orphaned() + rbac,
			[]string{"clusterrolebinding/acme-operator"}, nil, all,
			[]string{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/acme-operator"}, "", -1,
		},
		"Strangers": {
			"a policy from a ConfigMap had an administrator carry out its action", orphaned("a") + `
---
{apiVersion: v1, kind: Namespace, metadata: {name: termguard-system}, status: {phase: Active}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: strangers, namespace: termguard-system, labels: {termguard.dev/policy: ""}}
data:
  strangers.rego: |
    # METADATA
    # title: A stranger's
    # description: It wants something else deleted.
    # related_resources:
    #   - ref: https://example.com
    # custom:
    #   id: strangers
    #   severity: high
    #   triggers: [delete]
    #   remedy: Delete it.
    #   limits: None.
    package termguard.strangers

    deny contains {
    	"msg": "it wants something else deleted",
    	"objects": [{"resource": "namespaces", "namespace": "", "name": "demo"}],
    	"evidence": [],
    	"steps": [{"kind": "mend", "do": "Delete what is somebody else's", "action": {"verb": "delete", "objects": ["kialis.kiali.io/a"], "namespace": "other"}}],
    } if {
    	input.request.operation == "DELETE"
    }
`,
			[]string{"ns/demo"}, nil, append(all, "--allow=foreign=kialis.kiali.io/other/a"),
			[]string{demo, "/apis/kiali.io/v1alpha1/namespaces/demo/"}, "policy strangers is not one of termguard's own", 1,
		},
		"Hidden": {
			"a finalizer was stripped whose owner was merely not to be seen", orphaned("a"),
			[]string{"kialis/a", "-n", "demo"}, []string{"deployments", "pods"}, all,
			nil, "to allow it: --allow risk", exitQuestion,
		},
		"HiddenElsewhere": {
			"a certain finding licensed a step, although the answer was of a part", orphaned("a"),
			[]string{"ns/demo"}, []string{"secrets"}, all, []string{"/nothing"}, "relevant facts are unseen", 1,
		},
		"Declared": {
			"a tenant's annotation had a workload scaled up that he cannot read", orphaned() + `
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: idle, namespace: other}, spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: c}]}}}, status: {}}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: tenants, namespace: demo, finalizers: [x.example.com/why], annotations: {termguard.dev/finalizer-owner: Deployment/other/idle}}}
`,
			[]string{"widgets/tenants", "-n", "demo"}, nil, all,
			[]string{"/apis/acme.example.com/v1/namespaces/demo/widgets/tenants"}, "", -1,
		},
		"Event": {
			"a tenant's Event had a webhook configuration deleted", orphaned("a") + `
---
{apiVersion: v1, kind: Event, metadata: {name: forged, namespace: demo}, involvedObject: {kind: Kiali, name: a, namespace: demo}, reason: Failed, lastTimestamp: "2026-11-24T09:00:00Z", message: 'failed calling webhook "v.example.com": Post "https://gone.gone.svc:443/?timeout=10s": context deadline exceeded'}
`,
			[]string{"ns/demo"}, nil, all, []string{demo, "/apis/kiali.io/v1alpha1/namespaces/demo/"}, "", -1,
		},
		"Bystanders": {
			"a silent Node, an APIService that is down and a pod that uses a claim were deleted", orphaned(),
			[]string{"ns/demo"}, nil, all, []string{demo}, "", -1,
		},
		"ClaimInUse": {
			"a running pod of an unrelated workload was deleted, since it used the claim", orphaned(),
			[]string{"pvc/bystander", "-n", "other"}, nil, all,
			[]string{"/api/v1/namespaces/other/persistentvolumeclaims/bystander"}, "", -1,
		},
		"Refused": {
			"a finalizer was stripped although the deletion is refused, and nothing allowed ends that", orphaned("a") + `
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: refuses}, webhooks: [{name: v.example.com, failurePolicy: Fail, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [""], apiVersions: [v1], resources: [namespaces], operations: [DELETE]}], clientConfig: {service: {namespace: gone, name: gone}}}]}
`,
			[]string{"ns/demo"}, nil, all, []string{"/nothing"}, "to allow it: --allow force=validatingwebhookconfigurations", exitQuestion,
		},
		"Everything": {
			"a type alone with -A selected everything", orphaned(), []string{"cm", "-A"}, nil, all, nil, "", exitFailed,
		},
		"EverythingHere": {
			"-n beside -A deleted everywhere", orphaned(), []string{"cm", "-A", "--all", "-n", "demo"}, nil, all, nil, "", exitFailed,
		},
		"Blank": {
			"an empty selector selected everything", orphaned(), []string{"cm", "-A", "-l", " "}, nil, all, nil, "selects everything", exitFailed,
		},
		"BlankFields": {
			"so did one of fields", orphaned(), []string{"cm", "-A", "--field-selector", ","}, nil, all, nil, "selects everything", exitFailed,
		},
		"EmptyHere": {
			"as where a script's variable is empty", orphaned(), []string{"cm", "-n", "demo", "-l", ""}, nil, all, nil, "selects everything", exitFailed,
		},
		"TypeHere": {
			"a type in a namespace is not all of it", orphaned(), []string{"cm", "-n", "demo"}, nil, all, nil, "for all of a type, check takes -n NAMESPACE or -A, and delete takes --all", exitFailed,
		},
		"TypeAlone": {
			"no name, no selector and no --all is an error, as in kubectl", orphaned(), []string{"cm"}, nil, all, nil, "", exitFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, tc.world+bystanders)
			c.hidden = tc.hidden
			before := frozen(t, c, tc.own)
			code, out, errs := deleted(t.Context(), c, nil, append(tc.args, tc.flags...)...)
			if diff := cmp.Diff(before, frozen(t, c, tc.own)); diff != "" {
				t.Errorf("%s: objects that were not named have changed: -before, +after:\n%s\n%s%s", tc.reason, diff, &out.text, errs)
			}
			if tc.code >= 0 && code != tc.code || !strings.Contains(out.text.String()+errs, tc.says) {
				t.Errorf("%s: exit code %d, want %d and %q: %s%s", tc.reason, code, tc.code, tc.says, &out.text, errs)
			}
			if changes := slices.DeleteFunc(slices.Clone(c.requests), func(r string) bool {
				return !strings.HasPrefix(r, "DELETE ") && !strings.HasPrefix(r, "PATCH ") && !strings.HasPrefix(r, "PUT ")
			}); len(tc.own) == 0 && len(changes) > 0 {
				t.Errorf("%s: sent %v", tc.reason, changes)
			}
		})
	}
}

// frozen returns all objects except the named ones, as text.
func frozen(t *testing.T, c *fakeCluster, own []string) map[string]string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(c.objects)) {
		if slices.ContainsFunc(own, func(p string) bool {
			return path == p || strings.HasPrefix(path, p+"/") || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
		}) {
			continue
		}
		text, err := json.Marshal(c.objects[path])
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	return all
}

// TestDeleteAnswersWhatWasAsked checks that a deletion ends, or repeats the question, if the
// cluster changed after it was shown.
func TestDeleteAnswersWhatWasAsked(t *testing.T) {
	const held = "/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a"
	for name, tc := range map[string]struct {
		reason  string
		happens string // to be applied while the first question is open; "" makes the namespace anew
		says    string
	}{
		"Owner": {"the owner changed", "{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: demo, finalizers: [kiali.io/finalizer], labels: {app.kubernetes.io/managed-by: somebody}}}", "the answer has changed meanwhile"},
		"Anew":  {"the target was recreated", "{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}", "was recreated: the new one is left alone, and the run ends"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, orphaned("a"))
			terminal, keys := typing(t)
			out := &output{}
			questions := 0
			out.on = func(transcript string) {
				n := strings.Count(transcript, "[y/N] ")
				if n == questions {
					return
				}
				if questions = n; n > 1 {
					if _, err := keys.WriteString("n\n"); err != nil {
						t.Error(err)
					}
					return
				}
				c.apply(tc.happens)
				if _, err := keys.WriteString("y\n"); err != nil {
					t.Error(err)
				}
			}
			var errs output
			run(t.Context(), []string{"termguard", "delete", "--kubeconfig", c.kubeconfig, "ns/demo", "--timeout=1ms"}, terminal, out, &errs)
			if transcript := out.text.String() + errs.text.String(); !strings.Contains(transcript, tc.says) {
				t.Errorf("%s: want %q: %s", tc.reason, tc.says, transcript)
			}
			if c.objects[held] == nil || len(c.objects[held]["metadata"].(map[string]any)["finalizers"].([]any)) != 1 {
				t.Errorf("%s: its finalizer was removed", tc.reason)
			}
		})
	}
}

// TestDeleteSaysItHangs checks that the output repeats that the deletion will hang after a remedy
// was declined.
func TestDeleteSaysItHangs(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	code, out, errs := deleted(t.Context(), c, answering(t, "n", "n"), "ns/demo", "--timeout=1ms")
	if transcript := out.text.String(); code != 1 || !strings.Contains(transcript, "not deleted: ") || !strings.Contains(transcript, "\nDelete namespaces/demo all the same?\n  risked: it hangs: ") {
		t.Errorf("exit code %d: %s%s", code, transcript, errs)
	}
}

// TestDeleteWaitsForTheOwner checks that nothing is deleted while an owner that was scaled up does
// not become ready.
func TestDeleteWaitsForTheOwner(t *testing.T) {
	c := newFakeCluster(t, orphaned("a")+"---"+idle("0"))
	code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=restore", "--allow=strip", "--timeout=100ms")
	if transcript := out.text.String(); code != 1 || !strings.Contains(transcript, "done: deployments.apps/kiali-operator") || !strings.Contains(transcript, "no effect within 100ms") {
		t.Errorf("exit code %d: %s%s", code, transcript, errs)
	}
	if held := string(marshalled(t, c.objects[heldA])); !strings.Contains(held, "kiali.io/finalizer") || strings.Contains(held, "deletionTimestamp") || !c.has(demo) {
		t.Errorf("the object is now %s", held)
	}
}

// TestDeleteOpenQuestion checks that an unanswered question ends the command with an exit code of
// its own and names the flag that answers it; with that flag, the deletion finishes.
func TestDeleteOpenQuestion(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "-o", "json")
	var answer struct {
		Left      []string
		Questions []deletion.Question
	}
	if err := json.Unmarshal(out.text.Bytes(), &answer); err != nil || code != exitQuestion || len(answer.Questions) != 1 {
		t.Fatalf("exit code %d, %v, %d questions: %s%s", code, err, len(answer.Questions), &out.text, errs)
	}
	q := answer.Questions[0]
	if want := []string{"--allow strip"}; !slices.Equal(q.Allow, want) || q.Class != "strip" || len(q.Objects) != 1 {
		t.Errorf("question: %+v", q)
	}
	if code, out, errs = deleted(t.Context(), c, nil, append([]string{"ns/demo", "--yes"}, strings.Fields(q.Allow[0])...)...); code != 0 || c.has(demo) {
		t.Errorf("with the flag: exit code %d: %s%s", code, &out.text, errs)
	}
}
