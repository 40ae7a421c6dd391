package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/catalog"
)

// Objects that a world with gadgets.x.io, whose finalizer is x.io/cleanup, may have.
const (
	gadget = `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Gadget, plural: gadgets}, versions: [{name: v1, served: true, storage: true}]}}
---
{apiVersion: x.io/v1, kind: Gadget, metadata: {name: it, namespace: a, finalizers: [x.io/cleanup]}}
`
	// authorizes shows that RBAC is in force.
	authorizes = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: cluster-admin, labels: {kubernetes.io/bootstrapping: rbac-defaults}}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}
`
	anAccount = `
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: SA, namespace: ops}}
`
	controls = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: SA}, rules: [{apiGroups: [x.io], resources: [gadgets, gadgets/status], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: SA}, roleRef: {kind: ClusterRole, name: SA}, subjects: [{kind: ServiceAccount, name: SA, namespace: ops}]}
`
	wholeGroup = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: SA}, rules: [{apiGroups: [x.io], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: SA}, roleRef: {kind: ClusterRole, name: SA}, subjects: [{kind: ServiceAccount, name: SA, namespace: ops}]}
`
	running = `
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: SA, namespace: ops}, spec: {replicas: 1, template: {spec: {serviceAccountName: SA, containers: [{name: c, image: i}]}}}, status: {readyReplicas: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: SA-1, namespace: ops}, spec: {nodeName: n1, serviceAccountName: SA, containers: [{name: c, image: i}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
`
	scaledToZero = `
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: SA, namespace: ops}, spec: {replicas: 0, template: {spec: {serviceAccountName: SA, containers: [{name: c, image: i}]}}}}
`
	notReady = `
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: SA, namespace: ops}, spec: {replicas: 1, template: {spec: {serviceAccountName: SA, containers: [{name: c, image: i}]}}}}
`
	badPod = `
---
{apiVersion: v1, kind: Pod, metadata: {name: POD, namespace: ops}, spec: {serviceAccountName: SA, containers: [{name: c, image: i}]}, status: {phase: Pending, STATUS}}
`
	packages = `
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: packages.x.io}, spec: {group: x.io, scope: Cluster, names: {kind: Package, plural: packages}, versions: [{name: v1, served: true, storage: true}]}}
---
{apiVersion: x.io/v1, kind: Package, metadata: {name: p}}
`
	blindness = `
---
{apiVersion: termguard.dev/v1, kind: Cluster, unseen: [{resource: pods, namespaced: true, reason: forbidden, message: denied}]}
`
)

func as(account string, parts ...string) string {
	return strings.ReplaceAll(strings.Join(parts, ""), "SA", account)
}

func bad(name, status string) string {
	return strings.NewReplacer("POD", name, "STATUS", status).Replace(badPod)
}

func waiting(reason string) string {
	return "containerStatuses: [{name: c, restartCount: 3, state: {waiting: {reason: " + reason + "}}}]"
}

// seen returns the ConfigMap that records the removals of the finalizer by identities, each
// "IDENTITY OBJECTS AGE" or "IDENTITY OBJECTS AGE outside".
func seen(sightings ...string) string {
	var owners []string
	for _, s := range sightings {
		f := strings.Fields(s)
		age, err := time.ParseDuration(f[2])
		if err != nil {
			panic(err)
		}
		last := time.Unix(0, 0).Add(-age).UTC()
		owners = append(owners, fmt.Sprintf(`{"finalizer":"x.io/cleanup","resource":"gadgets.x.io","identity":%q,"objects":%s,"outside":%v,"first":%q,"last":%q}`,
			f[0], f[1], len(f) > 3, last.Add(-48*time.Hour).Format(time.RFC3339), last.Format(time.RFC3339)))
	}
	return fmt.Sprintf("\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: termguard-learned, namespace: termguard-system}, data: {learned.json: '{\"apiVersion\":\"termguard.dev/v1\",\"owners\":[%s]}'}}\n", strings.Join(owners, ","))
}

// TestOwnershipByStrength checks the order of the sources, declared, learned, managed, catalog,
// RBAC, and what each proves.
func TestOwnershipByStrength(t *testing.T) {
	const one, two = "system:serviceaccount:ops:one", "system:serviceaccount:ops:two"
	declaredTwo := strings.Replace(gadget, "name: it,", "name: it, annotations: {termguard.dev/finalizer-owner: Deployment/ops/two},", 1)
	const owner = "ownerReferences: [{apiVersion: x.io/v1, kind: Package, name: p, uid: u1, controller: true}]"
	packaged := strings.Replace(gadget, "metadata: {name: gadgets.x.io}", "metadata: {name: gadgets.x.io, "+owner+"}", 1)
	packaged += packages
	packagedAs := func(account string, parts ...string) string {
		return strings.Replace(as(account, parts...), "kind: Deployment, metadata: {", "kind: Deployment, metadata: {"+owner+", ", 1)
	}
	managedTwo := strings.Replace(gadget, "name: it,", `name: it, managedFields: [{manager: c, operation: Update, apiVersion: x.io/v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:finalizers": {'v:"x.io/cleanup"': {}}}}}],`, 1)
	// manager names the field manager and the containers as kubebuilder does.
	manager := func(text string) string {
		return strings.NewReplacer("manager: c,", "manager: manager,", "name: c, image: i", "name: manager, image: i").Replace(text)
	}
	tests := map[string]struct {
		reason, cluster, state, certainty string
		evidence                          []string
	}{
		"learned, alive, no permissions of its own": {
			"a cluster-admin's permissions prove nothing, but it was seen",
			gadget + as("one", anAccount, running) + seen(one+" 1 1h"),
			Alive, "will", []string{"service account ops/one removed it from 1 object", "pod ops/one-1 is ready under it"},
		},
		"learned, scaled to zero": {
			"the account that removed it so far is scaled to zero; only the sighting supports it",
			gadget + as("one", anAccount, scaledToZero) + seen(one+" 1 1h"),
			Down, "may", []string{"removed it", "Deployment ops/one is scaled to zero"},
		},
		"learned, scaled to zero, and it alone may do it": {
			"its permissions say the same without a sighting",
			gadget + as("one", anAccount, controls, scaledToZero) + seen(one+" 1 1h"),
			Down, "will", []string{"removed it", "Deployment ops/one is scaled to zero"},
		},
		"all of its group, and runs": {
			"a wildcard says who may, not who does: Cluster API's core may update what each provider brings",
			gadget + as("one", anAccount, wholeGroup, running),
			Unknown, "may", []string{"service accounts ops/one may update gadgets.x.io: whether one of them removes the finalizer is unknown"},
		},
		"all of its group, one role names it, too": {
			"near miss: the role names its account, too",
			gadget + as("one", anAccount, wholeGroup, running) + strings.NewReplacer("metadata: {name: one}", "metadata: {name: named}", "ClusterRole, name: one", "ClusterRole, name: named").Replace(as("one", controls)),
			Alive, "will", []string{"service account ops/one may update gadgets.x.io and its status"},
		},
		"all of its group, another is named": {
			"of two, neither is sure",
			gadget + as("one", anAccount, wholeGroup, running) + as("two", anAccount, controls, running),
			Unknown, "may", []string{"service accounts ops/one, ops/two may update gadgets.x.io"},
		},
		"all of its group, another is named and idle": {
			"the named account does not run",
			gadget + as("one", anAccount, wholeGroup, running) + as("two", anAccount, controls, scaledToZero),
			Unknown, "may", []string{"service accounts ops/one may update gadgets.x.io"},
		},
		"learned, scaled to zero, another may do it": {
			"seen once against permissions: neither is certain",
			gadget + as("one", anAccount, scaledToZero) + as("two", anAccount, controls, running) + seen(one+" 1 1h"),
			Down, "may", []string{"Deployment ops/one is scaled to zero", "service account ops/two may update gadgets.x.io"},
		},
		"learned often, scaled to zero, another may do it": {
			"a tenant may remove it as often as it likes, and then scale itself to zero",
			gadget + as("one", anAccount, scaledToZero) + as("two", anAccount, controls, running) + seen(one+" 3 1h"),
			Down, "may", []string{"Deployment ops/one is scaled to zero"},
		},
		"learned, scaled to zero, another wrote it and runs": {
			"two strong sources disagree",
			managedTwo + as("one", anAccount, scaledToZero) + as("two", anAccount, controls, running) + seen(one+" 9 1h"),
			Down, "may", []string{"Deployment ops/one is scaled to zero", "field manager"},
		},
		"learned, scaled to zero, declared otherwise": {
			"a declaration outweighs everything",
			declaredTwo + as("one", anAccount, scaledToZero) + as("two", anAccount, running) + seen(one+" 9 1h"),
			Alive, "will", []string{"declared owner Deployment ops/two has 1 ready pod"},
		},
		"learned, alive, declared otherwise and gone": {
			"a declaration outweighs everything",
			declaredTwo + as("one", anAccount, running) + seen(one+" 9 1h"),
			Absent, "will", []string{"declared owner Deployment/ops/two does not exist"},
		},
		"managed under a common name, by one of two": {
			"the provider is uninstalled, and another operator's container is called manager as well",
			manager(managedTwo) + manager(as("one", anAccount, wholeGroup, running)) + manager(as("two", anAccount, wholeGroup, running)),
			Unknown, "may", []string{"service accounts ops/one, ops/two may update gadgets.x.io"},
		},
		"managed under a name of its own, by one of two": {
			"near miss: that name is unique",
			managedTwo + manager(as("one", anAccount, wholeGroup, running)) + as("two", anAccount, wholeGroup, running),
			Alive, "will", []string{`field manager "c" wrote the finalizer, and pod ops/two-1 runs`},
		},
		"learned, gone, its successor runs": {
			"an upgrade gave the service account another name",
			gadget + as("two", anAccount, controls, running) + seen(one+" 9 1h"),
			Alive, "will", []string{"service account ops/two may update"},
		},
		"learned, gone": {
			"nothing is left that may do it: but the catalog does not know it",
			gadget + seen(one+" 9 1h"),
			Absent, "may", []string{"no running controller has a role for", "that service account does not exist"},
		},
		"two learned, one of them alive": {
			"replicas of two kinds share the work",
			gadget + as("one", anAccount, scaledToZero) + as("two", anAccount, running) + seen(one+" 9 1h", two+" 1 48h"),
			Alive, "will", []string{"service account ops/two removed it"},
		},
		"two learned, both down": {
			"proof for each that it is down, and none that they are the only ones",
			gadget + as("one", anAccount, scaledToZero) + as("two", anAccount) + seen(one+" 1 1h", two+" 1 48h"),
			Down, "may", []string{"Deployment ops/one is scaled to zero", "service account ops/two has no pod"},
		},
		"learned, from outside, lately": {
			"no pod ever ran under it: that none does is no proof",
			gadget + as("one", anAccount, controls) + seen(one+" 1 1h outside"),
			Alive, "will", []string{"from outside the cluster"},
		},
		"learned, from outside, long ago": {
			"nothing shows whether it still runs: never absent, never down",
			gadget + as("one", anAccount, controls) + seen(one+" 1 72h outside"),
			Unknown, "may", []string{"whether it still runs is unknown"},
		},
		"stranger, lately": {
			"a controller outside the cluster with a certificate",
			gadget + seen("manager 3 1h"),
			Alive, "will", []string{"user manager removed it from 3 objects"},
		},
		"stranger, long ago": {
			"as above, but no longer fresh",
			gadget + seen("manager 3 72h"),
			Unknown, "may", []string{"user manager"},
		},
		"stranger, too rarely": {
			"a person who forced it twice is not its owner",
			gadget + seen("alice 2 1h"),
			Absent, "may", []string{"no running controller has a role for"},
		},
		"learned, scaled to zero, pods cannot be seen": {
			"an owner is not down while facts are unseen",
			gadget + as("one", anAccount, scaledToZero) + seen(one+" 9 1h") + blindness,
			Unknown, "may", []string{"unseen: pods (forbidden)"},
		},

		"made with the definition, another may update, too": {
			"a package manager gives each member of a family the rights of all",
			packaged + packagedAs("one", anAccount, controls, running) + as("two", anAccount, controls, running),
			Alive, "will", []string{"Deployment ops/one has 1 ready pod; it and the definition of gadgets.x.io belong to Package.x.io/p"},
		},
		"made with the definition, scaled to zero, another may update": {
			"the other members of its family do not do its work",
			packaged + packagedAs("one", anAccount, controls, scaledToZero) + as("two", anAccount, controls, running),
			Down, "will", []string{"Deployment ops/one is scaled to zero"},
		},
		"made with the definition, without a right": {
			"any account may name an owner; one without rights to the resource removes no finalizer",
			packaged + packagedAs("one", anAccount, running) + as("two", anAccount, controls, scaledToZero),
			Down, "will", []string{"service account ops/two may update it and its status"},
		},
		"made with the definition, pods cannot be seen": {
			"an owner is not down while facts are unseen",
			packaged + packagedAs("one", anAccount, controls, scaledToZero) + blindness,
			Unknown, "may", []string{"unseen: pods (forbidden)"},
		},
		"down: service account without pods": {
			"only its service account is left", gadget + as("one", anAccount, controls),
			Down, "will", []string{"service account ops/one may update it and its status, and has no pod"},
		},
		"down: CrashLoopBackOff": {
			"its only pod crashes again and again", gadget + as("one", anAccount, controls, notReady, bad("p", waiting("CrashLoopBackOff"))) + seen(one+" 1 1h"),
			Down, "will", []string{"pod ops/p is in CrashLoopBackOff"},
		},
		"down: image missing": {
			"its image cannot be pulled", gadget + as("one", anAccount, controls, notReady, bad("p", waiting("ImagePullBackOff"))) + seen(one+" 1 1h"),
			Down, "will", []string{"pod ops/p is in ImagePullBackOff"},
		},
		"down: no node": {
			"the scheduler finds no node", gadget + as("one", anAccount, controls, notReady, bad("p", `conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]`)) + seen(one+" 1 1h"),
			Down, "will", []string{"pod ops/p is in Unschedulable"},
		},
		"down for a moment: one crashes, another starts": {
			"the other may well become ready", gadget + as("one", anAccount, notReady, bad("p", waiting("CrashLoopBackOff")), bad("q", waiting("ContainerCreating"))) + seen(one+" 1 1h"),
			Down, "may", []string{"at the moment"},
		},
		"down for a moment: starting": {
			"no proof", gadget + as("one", anAccount, notReady, bad("p", waiting("ContainerCreating"))) + seen(one+" 1 1h"),
			Down, "may", []string{"at the moment"},
		},
		"up again: one crashes, another is ready": {
			"one is enough", gadget + as("one", anAccount, running, bad("p", waiting("CrashLoopBackOff"))) + seen(one+" 1 1h"),
			Alive, "will", []string{"pod ops/one-1 is ready"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			obj := objects(t, tc.cluster)[1]
			got, _ := w.Ownership(obj, schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.state || got["certainty"] != tc.certainty {
				t.Errorf("%s\ngot %s (%s), want %s (%s): %v", tc.reason, got["state"], got["certainty"], tc.state, tc.certainty, got["evidence"])
			}
			for _, want := range tc.evidence {
				if !strings.Contains(fmt.Sprint(got["evidence"]), want) {
					t.Errorf("%s\nthe evidence lacks %q: %v", tc.reason, want, got["evidence"])
				}
			}
		})
	}
}

// TestOwnershipTellsWhatMustBeCreated checks that the objects that an owner needs to create are
// reported while it runs, whichever source shows that; an owner that is down creates nothing.
func TestOwnershipTellsWhatMustBeCreated(t *testing.T) {
	entry, err := catalog.Parse([]byte("- {finalizer: x.io/cleanup, resources: [gadgets.x.io], owner: X, component: in-cluster, source: x, creates: jobs.batch, createsWhen: [{path: 'metadata.annotations[\"x.io/keep\"]', notIn: [\"yes\"]}, {path: spec.destroy, in: [\"true\"]}], workloads: [{kind: Deployment, name: one, namespace: ops}]}"))
	if err != nil {
		t.Fatal(err)
	}
	declared := strings.Replace(gadget, "name: it,", "name: it, annotations: {termguard.dev/finalizer-owner: external},", 1)
	tests := map[string]struct {
		reason, cluster string
		want            any
	}{
		"the workload of the catalog runs": {"its need is known", gadget + as("one", anAccount, running), "jobs.batch"},
		"it was seen":                      {"its need does not depend on who removes the finalizer", gadget + as("two", anAccount, running) + seen("system:serviceaccount:ops:two 1 1h"), "jobs.batch"},
		"it is declared to be elsewhere":   {"its jobs run here all the same", declared, "jobs.batch"},
		"it is to destroy nothing":         {"the spec says so", strings.Replace(gadget, "metadata: {name: it,", "spec: {destroy: false}, metadata: {name: it,", 1) + as("one", anAccount, running), nil},
		"it is to destroy":                 {"the spec says so", strings.Replace(gadget, "metadata: {name: it,", "spec: {destroy: true}, metadata: {name: it,", 1) + as("one", anAccount, running), "jobs.batch"},
		"it is to be kept":                 {"an annotation says so", strings.Replace(gadget, "name: it,", "name: it, annotations: {x.io/keep: 'yes'},", 1) + as("one", anAccount, running), nil},
		"scaled to zero":                   {"an owner that does not run needs nothing", gadget + as("one", anAccount, scaledToZero), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w, err := FromObjects(Options{Catalog: entry, Now: func() time.Time { return time.Unix(0, 0) }}, objects(t, tc.cluster))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := w.Ownership(objects(t, tc.cluster)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if diff := cmp.Diff(tc.want, got["creates"]); diff != "" {
				t.Errorf("%s; state %s: -want +got\n%s", tc.reason, got["state"], diff)
			}
		})
	}
}

// TestOwnershipOfNamed checks that an object that a request only names, such as the pod of an
// eviction, is judged by its own fields if they are known.
func TestOwnershipOfNamed(t *testing.T) {
	declared := strings.Replace(gadget, "name: it,", "name: it, annotations: {termguard.dev/finalizer-owner: Deployment/ops/one},", 1) + as("one", anAccount, running)
	named := &metav1.ObjectMeta{Namespace: "a", Name: "it", Finalizers: []string{"x.io/cleanup"}}
	other := &metav1.ObjectMeta{Namespace: "a", Name: "other", Finalizers: []string{"x.io/cleanup"}}
	itself := &metav1.ObjectMeta{Namespace: "a", Name: "it", UID: "u", Finalizers: []string{"x.io/cleanup"}}
	got := map[string]any{}
	w := world(t, declared)
	for reason, obj := range map[string]*metav1.ObjectMeta{
		"known by its name": named, "unknown": other, "with a UID it speaks for itself": itself,
	} {
		verdict, _ := w.Ownership(obj, schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
		got[reason] = verdict["state"]
	}
	want := map[string]any{"known by its name": Alive, "unknown": Absent, "with a UID it speaks for itself": Absent}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
