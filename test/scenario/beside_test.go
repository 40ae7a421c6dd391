package scenario

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/test/lab"
)

// make e2e-beside plays all.
var representative = []string{
	"claim-in-use", "crd-with-held-instances", "drain-that-two-budgets-refuse", "kiali-left-behind", "operator-binding-removed",
	"owner-declared-gone", "pod-on-dead-node", "restored-operator", "volume-bound", "webhook-dead-holds-content",
}

// TestBeside runs termguard delete --yes with each flag, and repeats the cases that once harmed others: objects
// neither named nor allowed stay the same, byte for byte.
func TestBeside(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	g, err := PatientGuard(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	g.by = Beside
	if err := g.standBy(t.Context()); err != nil {
		t.Fatal(err)
	}
	scenarios, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var outcomes []Outcome
	t.Run("worlds", func(t *testing.T) {
		for _, s := range scenarios {
			if !slices.Contains(representative, s.Name) {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				o := g.Play(t.Context(), s, func() {})
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				mu.Lock()
				outcomes = append(outcomes, o)
				mu.Unlock()
				if o.Harm.Runs == 0 || o.Harm.Compared < 100 {
					t.Errorf("%d runs and %d comparisons say nothing", o.Harm.Runs, o.Harm.Compared)
				}
				for _, wrong := range o.Wrong {
					t.Error(wrong)
				}
			})
		}
	})
	outcomes = append(outcomes, attacks(t, g)...)
	var table strings.Builder
	Harms(&table, outcomes)
	t.Log("\n" + table.String())
	if err := besidePage(outcomes); err != nil {
		t.Error(err)
	}
}

// attack once made termguard delete --yes change objects that the user had not named.
type attack struct {
	name, reason string
	world, later string
	args         []string
	// own are prefixes: TYPE/NAME, or -n NAMESPACE.
	own []string
	// within is the namespace whose administrator runs the command; "" is a cluster administrator.
	within string
	// -1 is any exit code.
	says string
	code int
}

// All permissions that need no name.
var everyClass = []string{"--yes", "--allow=restore", "--allow=strip", "--allow=risk", "--timeout=5s"}

var all = []attack{
	{
		name: "rights", reason: "on a mere may, custom resources of other namespaces were deleted, then the operator's rights",
		world: widgets + operator, later: `
{apiVersion: attacks.test/v1, kind: Widget, metadata: {name: it, namespace: attacked-other, finalizers: [attacks.test/cleanup]}}
---
{apiVersion: attacks.test/v1, kind: Widget, metadata: {name: it, namespace: attacked, finalizers: [attacks.test/cleanup]}}
`,
		args: []string{"clusterrolebinding/attacked-operator"}, own: []string{"clusterrolebindings.rbac.authorization.k8s.io/attacked-operator"},
		says: "at-risk", code: 0,
	},
	{
		name: "annotation", reason: "a tenant's annotation had a workload scaled up that he cannot read",
		world: widgets, later: `
{apiVersion: attacks.test/v1, kind: Widget, metadata: {name: declared, namespace: attacked, finalizers: [attacks.test/why], annotations: {termguard.dev/finalizer-owner: Deployment/bystanders/bystander}}}
`,
		args: []string{"widgets.attacks.test/declared", "-n", "attacked"}, own: []string{"widgets.attacks.test/declared -n attacked"},
		says: "it relies on a declaration of the owner, which others may have written", code: 1,
	},
	{
		name: "event", reason: "a tenant's Event had a working webhook configuration deleted",
		world: widgets, later: `
{apiVersion: attacks.test/v1, kind: Widget, metadata: {name: it, namespace: attacked-by-event, finalizers: [attacks.test/cleanup]}}
---
{apiVersion: v1, kind: Event, metadata: {name: forged, namespace: attacked-by-event}, involvedObject: {apiVersion: attacks.test/v1, kind: Widget, name: it, namespace: attacked-by-event}, type: Warning, reason: Failed, message: 'failed calling webhook "v.bystanders.test": failed to call webhook: Post "https://gone.bystanders.svc:443/?timeout=10s": context deadline exceeded'}
`,
		args: []string{"ns/attacked-by-event"}, own: []string{"namespaces/attacked-by-event", "-n attacked-by-event"}, code: -1,
	},
	{
		name: "inventory", reason: "a forged inventory had its entries deleted",
		world: `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: applications.argoproj.io}
spec:
  group: argoproj.io
  scope: Namespaced
  names: {kind: Application, plural: applications, singular: application}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, later: `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: forged, namespace: attacked-app, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec: {destination: {server: https://kubernetes.default.svc, namespace: bystanders}}
status: {resources: [{version: v1, kind: ConfigMap, namespace: bystanders, name: bystander, status: Synced}, {group: bystanders.test, version: v1, kind: Passer, namespace: bystanders, name: bystander, status: Synced}]}
`,
		args: []string{"applications.argoproj.io/forged", "-n", "attacked-app"}, own: []string{"applications.argoproj.io/forged -n attacked-app"}, code: -1,
	},
	{
		name: "hidden", reason: "a finalizer was stripped whose owner ran where the rights did not reach",
		world: widgets, later: `
{apiVersion: attacks.test/v1, kind: Widget, metadata: {name: hidden, namespace: attacked-hidden, finalizers: [kiali.io/finalizer]}}
`,
		args: []string{"widgets.attacks.test/hidden", "-n", "attacked-hidden"}, within: "attacked-hidden", own: []string{"widgets.attacks.test/hidden -n attacked-hidden"},
		says: "termguard does not run it: an unknown or unseen controller may still remove the finalizer", code: 1,
	},
	{
		name: "policy", reason: "a policy from a ConfigMap had an administrator carry out its action",
		world: widgets, later: `
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
    	"objects": [{"resource": "namespaces", "namespace": "", "name": "attacked-by-policy"}],
    	"evidence": [],
    	"steps": [{"kind": "mend", "do": "Delete what is somebody else's", "action": {"verb": "delete", "objects": ["configmaps/bystander"], "namespace": "bystanders"}}],
    } if {
    	input.request.name == "attacked-by-policy"
    }
`,
		args: []string{"ns/attacked-by-policy", "--allow=foreign=configmaps/bystanders/bystander"}, own: []string{"namespaces/attacked-by-policy", "-n attacked-by-policy", "configmaps/strangers -n termguard-system"},
		says: "policy strangers is not one of termguard's own", code: 1,
	},
	{name: "node", reason: "a Node was deleted whose kubelet was silent for a minute", args: []string{"pod/bystander", "-n", "bystanders", "--allow=force=nodes/other"}, own: []string{"pods/bystander -n bystanders"}, code: 3, says: "--allow force=nodes/bystander"},
	{name: "claim", reason: "a running pod was deleted since it used the claim", args: []string{"pvc/bystander", "-n", "bystanders"}, code: 3, says: "--allow foreign=pods/bystanders/bystander"},
	{name: "everything", reason: "a type alone with -A selected everything", args: []string{"cm", "-A"}, code: 2},
	{name: "type alone", reason: "as does kubectl, a type alone selects nothing", args: []string{"cm"}, code: 2},
	{name: "two places", reason: "-n beside -A deleted everywhere", args: []string{"cm", "-A", "--all", "-n", "bystanders"}, code: 2},
	{ // last: from then on, no namespace of this cluster finishes
		name: "apiservice", reason: "an APIService was deleted right after its backend became unavailable",
		world: `
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.down.attacks.test}, spec: {group: down.attacks.test, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: bystanders, name: gone}, insecureSkipTLSVerify: true}}
`,
		args: []string{"ns/attacked-by-api"}, own: []string{"namespaces/attacked-by-api", "-n attacked-by-api"}, code: -1, says: "APIService v1.down.attacks.test",
	},
}

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.attacks.test}
spec:
  group: attacks.test
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

const operator = `
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: operator, namespace: attacked-other}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: attacked-operator}, rules: [{apiGroups: [attacks.test], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: attacked-operator}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: attacked-operator}, subjects: [{kind: ServiceAccount, name: operator, namespace: attacked-other}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: attacked-other}
spec:
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec: {serviceAccountName: operator, nodeName: steady, containers: [{name: c, image: c}]}
`

func attacks(t *testing.T, g *Guarded) (outcomes []Outcome) {
	t.Run("twice", func(t *testing.T) { twice(t, g) })
	left, err := g.objects(t.Context()) // by the worlds, where time goes on: pods of a dead node are evicted
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(left, func(uid types.UID, _ *unstructured.Unstructured) bool { _, stands := g.standing[uid]; return stands })
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			ctx := t.Context()
			var namespaces strings.Builder
			for _, name := range []string{"attacked", "attacked-other", "attacked-by-event", "attacked-app", "attacked-hidden", "attacked-by-policy", "attacked-by-api"} {
				if strings.Contains(a.world+a.later+strings.Join(a.args, " "), name) {
					namespaces.WriteString("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}\n---\n")
				}
			}
			for _, objects := range []string{namespaces.String() + a.world, a.later} {
				if strings.TrimSpace(objects) == "" {
					continue
				}
				if err := g.Create(ctx, objects); err != nil {
					t.Fatal(err)
				}
			}
			if strings.Contains(a.world, "kind: Deployment") {
				if r, err := g.Kubectl(ctx, "wait", "-n", "attacked-other", "deployment/operator", "--for=condition=Available", "--timeout=90s"); err != nil || r.Code != 0 {
					t.Fatalf("%v %s", err, r.Stderr)
				}
			}
			kubeconfig := g.Kubeconfig()
			if a.within != "" {
				kubeconfig = administrator(t, g, a.within)
			}
			before, err := g.objects(ctx)
			if err != nil {
				t.Fatal(err)
			}
			code, output, err := unasked(ctx, kubeconfig, append(slices.Clone(everyClass), a.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			after, err := g.objects(ctx)
			if err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(before, func(uid types.UID, _ *unstructured.Unstructured) bool { return left[uid] != nil })
			compared := unchanged(t, a, before, after, output)
			outcomes = append(outcomes, Outcome{Scenario: Scenario{Name: a.name}, Harm: &Harm{Runs: 1, Compared: compared}})
			if a.code >= 0 && code != a.code || !strings.Contains(output, a.says) {
				t.Errorf("%s: exit code %d, want %d and %q: %s", a.reason, code, a.code, a.says, output)
			}
		})
	}
	return outcomes
}

// twice runs deletions in parallel: neither fails because of the other.
func twice(t *testing.T, g *Guarded) {
	if err := g.Create(t.Context(), `
{apiVersion: v1, kind: Namespace, metadata: {name: twice}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: twice, finalizers: [kiali.io/finalizer]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: twice, finalizers: [kiali.io/finalizer]}}
`); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			code, output, err := unasked(t.Context(), g.Kubeconfig(), "ns/twice", "--yes", "--allow=strip", "--timeout=2m")
			if err != nil || code != 0 && !strings.Contains(output, "nothing to delete") { // it came too late
				t.Errorf("exit code %d, %v: %s", code, err, output)
			}
		})
	}
	both.Wait()
	if r, err := g.Kubectl(t.Context(), "get", "namespace/twice", "--ignore-not-found", "-o", "name"); err != nil || r.Stdout != "" {
		t.Errorf("the namespace still exists: %v %s", err, r.Stdout)
	}
}

func unchanged(t *testing.T, a attack, before, after map[types.UID]*unstructured.Unstructured, output string) (compared int) {
	t.Helper()
	w := world{before: before, after: after}
	for _, was := range before {
		if slices.ContainsFunc(a.own, func(own string) bool {
			return called(was) == own || strings.HasPrefix(own, "-n ") && strings.HasSuffix(called(was), " "+own)
		}) {
			continue
		}
		compared++
		if harm := w.harm(was); harm != "" {
			t.Errorf("%s: %s: %s\n%s", a.reason, called(was), harm, output)
		}
	}
	return compared
}

func administrator(t *testing.T, g *Guarded, namespace string) string {
	t.Helper()
	if err := g.Create(t.Context(), `
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: all, namespace: `+namespace+`}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: all, namespace: `+namespace+`}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]}
`); err != nil {
		t.Fatal(err)
	}
	config, err := g.ConfigFor("tenant")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Await(t.Context(), 30*time.Second, "the rights of the tenant", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	path, err := g.WriteKubeconfig("tenant", config)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
