package termguard.orphaned_finalizer_test

import data.termguard.orphaned_finalizer as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

kiali(changes) := object.union(
	{
		"state": "absent",
		"certainty": "will",
		"owner": "Kiali operator",
		"clears": "kiali-remove playbook ran",
		"evidence": ["no Deployment kiali-operator"],
	},
	changes,
)

nobody(changes) := object.union({"state": "absent", "certainty": "will", "owner": "", "clears": ""}, changes)

bring_back(who) := {"kind": "mend", "do": sprintf("Bring back %s, and the deletion finishes by itself", [who])}

# give_up is the step that takes finalizers out by an action.
give_up(clears, names, action) := {
	"kind": "remove",
	"do": sprintf(
		"If it is gone for good, clean up what the finalizer protects%s, then remove %s: %s",
		[clears, names, "what nobody cleaned up stays behind"],
	),
	"action": action,
}

kiali_cleared := " (kiali-remove playbook ran)"

patch(holder, ns, at, finalizer) := data.termguard.lib.finalizers.taking_out([holder], ns, [[at, finalizer]])

# The object's own finalizers.

delete_kiali(ownership) := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "kiali.io", "version": "v1alpha1", "resource": "kialis"},
		"name": "kiali",
		"namespace": "demo",
		"oldObject": {"metadata": {"name": "kiali", "finalizers": ["alive.io/f", "kiali.io/finalizer"]}},
	},
	"ownership": {"alive.io/f": {"state": "alive", "certainty": "will"}, "kiali.io/finalizer": ownership},
}

own_kiali(reason, evidence, who, clears) := {
	"msg": concat("", ["finalizer kiali.io/finalizer in metadata.finalizers is not removed: ", reason]),
	"objects": [{"resource": "kialis.kiali.io", "namespace": "demo", "name": "kiali"}],
	"evidence": evidence,
	"field": "metadata.finalizers[1]",
	"steps": [
		bring_back(who),
		give_up(clears, "kiali.io/finalizer", patch("kialis.kiali.io/kiali", "demo", 1, "kiali.io/finalizer")),
	],
}

kiali_is(reason) := own_kiali(reason, ["no Deployment kiali-operator"], "Kiali operator", kiali_cleared)

# mended is a finding whose first step is another one.
mended(finding, step) := json.patch(finding, [{"op": "replace", "path": "/steps/0/do", "value": step}])

find_out(who) := sprintf("Find out whether %s runs, and start it if not", [who])

nobody_is(reason) := own_kiali(reason, [], "the controller that removes the finalizer", "")

test_absent if {
	got := found with input as delete_kiali(kiali({}))
	got == {"deny": {kiali_is("its owner, Kiali operator, is not installed")}, "warn": set()}
}

test_down if {
	got := found with input as delete_kiali(kiali({"state": "down"}))
	got == {"deny": {kiali_is("its owner, Kiali operator, is not running")}, "warn": set()}
}

test_absent_perhaps if {
	got := found with input as delete_kiali(kiali({"certainty": "may"}))
	got == {"deny": set(), "warn": {mended(
		kiali_is("its owner, Kiali operator, was not found"),
		find_out("Kiali operator"),
	)}}
}

test_unknown if {
	got := found with input as delete_kiali(kiali({"state": "unknown", "certainty": "may"}))
	got == {"deny": set(), "warn": {mended(
		kiali_is("whether its owner, Kiali operator, is running is unknown"),
		find_out("Kiali operator"),
	)}}
}

test_watches_elsewhere if {
	got := found with input as delete_kiali(kiali({"state": "unknown", "certainty": "may", "watches": ["prod"]}))
	got == {"deny": set(), "warn": {mended(
		kiali_is("its owner, Kiali operator, is told to watch other namespaces"),
		"Have Kiali operator watch this namespace, too, and the deletion finishes by itself",
	)}}
}

test_maker_gone if {
	got := found with input as delete_kiali(kiali({"state": "unknown", "certainty": "may", "maker": "Mesh.kiali.io/one"}))
	got == {"deny": set(), "warn": {mended(
		kiali_is("Mesh.kiali.io/one, which its definition was made from, is gone"),
		"Make Mesh.kiali.io/one again, as it was, and the deletion finishes by itself",
	)}}
}

test_nobody_known_and_absent if {
	got := found with input as delete_kiali(nobody({"certainty": "may"}))
	got == {"deny": set(), "warn": {mended(
		nobody_is("nothing was found that removes it"),
		find_out("the controller that removes the finalizer"),
	)}}
}

test_nobody_known_and_down if {
	got := found with input as delete_kiali(nobody({"state": "down"}))
	got == {"deny": {nobody_is("its controller is not running")}, "warn": set()}
}

test_nobody_known_and_unknown if {
	got := found with input as delete_kiali(nobody({"state": "unknown"}))
	got == {"deny": set(), "warn": {mended(
		nobody_is("its controller is unknown"),
		find_out("the controller that removes the finalizer"),
	)}}
}

test_alive if {
	got := found with input as delete_kiali(kiali({"state": "alive"}))
	got == nothing
}

test_an_update_is_not_a_delete if {
	request := json.patch(delete_kiali(kiali({})), [{"op": "replace", "path": "/request/operation", "value": "UPDATE"}])
	got := found with input as request
	got == nothing
}

# Namespaces.

delete_namespace := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "demo",
		"namespace": "demo",
		"oldObject": {
			"metadata": {"name": "demo", "finalizers": ["example.com/f"]},
			"spec": {"finalizers": ["kubernetes", "example.com/f"]},
		},
	},
	"ownership": {"example.com/f": nobody({})},
}

spec_step := {
	"kind": "remove",
	"do": concat("", [
		give_up("", "example.com/f", "").do,
		" (to patch or edit spec.finalizers is silently ignored)",
	]),
	"action": {"verb": "finalize", "objects": ["namespaces/demo"], "finalizers": ["example.com/f"]},
}

test_namespace_with_the_same_finalizer_in_both_lists if {
	got := found with input as delete_namespace
	got == {
		"deny": {
			{
				"msg": "finalizer example.com/f in metadata.finalizers is not removed: nothing that could remove it is running",
				"objects": [{"resource": "namespaces", "namespace": "", "name": "demo"}],
				"evidence": [],
				"field": "metadata.finalizers[0]",
				"steps": [
					bring_back("the controller that removes the finalizer"),
					give_up("", "example.com/f", patch("namespaces/demo", "", 0, "example.com/f")),
				],
			},
			{
				"msg": "finalizer example.com/f in spec.finalizers is not removed: nothing that could remove it is running",
				"objects": [{"resource": "namespaces", "namespace": "", "name": "demo"}],
				"evidence": [],
				"field": "spec.finalizers[1]",
				"steps": [bring_back("the controller that removes the finalizer"), spec_step],
			},
		},
		"warn": set(),
	}
}

delete_plain_namespace := json.patch(delete_namespace, [
	{"op": "replace", "path": "/request/oldObject", "value": {"metadata": {"name": "demo"}}},
	{"op": "replace", "path": "/ownership", "value": {}},
])

content(n, verb, at, names, reason) := {
	"msg": sprintf("%d kialis.kiali.io %s finalizer kiali.io/finalizer: %s", [n, verb, reason]),
	"objects": [{"resource": "kialis.kiali.io", "namespace": "demo", "name": name} | some name in names],
	"evidence": ["no Deployment kiali-operator"],
	"steps": [bring_back("Kiali operator"), give_up(kiali_cleared, "kiali.io/finalizer", data.termguard.lib.finalizers.taking_out(
		[sprintf("kialis.kiali.io/%s", [name]) | some name in names],
		"demo",
		[[at, "kiali.io/finalizer"]],
	))],
}

inventory(buckets) := {"demo": {"kiali.io/finalizer": {"kialis.kiali.io": buckets}}}

held_by(n, names, at, ownership) := {"count": n, "names": names, "at": at, "ownership": ownership}

test_content if {
	got := found with input as delete_plain_namespace
		with data.cluster.finalized as inventory({
			"a": held_by(2, ["kiali", "kiali-b"], [0, 0], kiali({})),
			"b": held_by(1, ["kiali-c"], [2], kiali({"state": "unknown"})),
			"c": held_by(1, ["kiali-d"], [0], kiali({"state": "alive"})),
		})
	got == {
		"deny": {content(2, "have", 0, ["kiali", "kiali-b"], "its owner, Kiali operator, is not installed")},
		"warn": {mended(
			content(1, "has", 2, ["kiali-c"], "whether its owner, Kiali operator, is running is unknown"),
			find_out("Kiali operator"),
		)},
	}
}

things(at, ownership) := {"things.x.io": {"": held_by(1, ["it"], [at], ownership)}}

# Each finalizer that is taken out changes where the others stand: those of an
# object go together, and what is uncertain goes after what is certain.
test_several_finalizers_of_one_object if {
	got := found with input as delete_plain_namespace
		with data.cluster.finalized as {"demo": {
			"a/f": things(2, nobody({})),
			"b/f": things(0, nobody({})),
			"c/f": things(3, nobody({"state": "unknown"})),
			"d/f": things(1, nobody({"state": "alive"})),
		}}
	together := give_up("", "b/f, a/f", {
		"verb": "patch",
		"objects": ["things.x.io/it"],
		"namespace": "demo",
		"type": "json",
		"patch": [
			{"op": "test", "path": "/metadata/finalizers/2", "value": "a/f"},
			{"op": "remove", "path": "/metadata/finalizers/2"},
			{"op": "test", "path": "/metadata/finalizers/0", "value": "b/f"},
			{"op": "remove", "path": "/metadata/finalizers/0"},
		],
	})
	{finding.steps[1] | some finding in got.deny} == {together}
	{finding.steps[1] | some finding in got.warn} == {give_up("", "c/f", patch("things.x.io/it", "demo", 1, "c/f"))}
}

test_several_finalizers_of_the_object if {
	request := object.union(delete_kiali(kiali({"state": "unknown"})), {"ownership": {"alive.io/f": kiali({})}})
	got := found with input as request
	{finding.steps[1].action | some finding in got.deny} == {patch("kialis.kiali.io/kiali", "demo", 0, "alive.io/f")}
	{finding.steps[1].action | some finding in got.warn} == {patch("kialis.kiali.io/kiali", "demo", 0, "kiali.io/finalizer")}
}

# ray runs, and must create a job beside what it looks after.
ray(changes) := object.union(
	{
		"state": "alive",
		"certainty": "will",
		"owner": "KubeRay",
		"clears": "redis cleanup job finished",
		"creates": "jobs.batch",
		"evidence": ["Deployment kuberay-operator has 1 ready pod"],
	},
	changes,
)

rays(bucket) := {"demo": {"ray.io/cleanup": {"rayclusters.ray.io": {"a": bucket}}}}

thwarted(n, verb, names, steps) := {
	"msg": concat(" ", [
		sprintf("%d rayclusters.ray.io %s finalizer ray.io/cleanup: its owner, KubeRay,", [n, verb]),
		"must create jobs.batch here to clear it, which is refused once the namespace is Terminating",
	]),
	"objects": [{"resource": "rayclusters.ray.io", "namespace": "demo", "name": name} | some name in names],
	"evidence": ["Deployment kuberay-operator has 1 ready pod"],
	"steps": steps,
}

first := {"kind": "mend", "do": "Delete the rayclusters.ray.io first; go on when they are gone"}

test_owner_must_create_here if {
	got := found with input as delete_plain_namespace
		with data.cluster.finalized as rays(held_by(2, ["x", "y"], [0, 0], ray({})))
	action := {"verb": "delete", "objects": ["rayclusters.ray.io/x", "rayclusters.ray.io/y"], "namespace": "demo"}
	want := thwarted(2, "have", ["x", "y"], [object.union(first, {"action": action})])
	got == {"deny": set(), "warn": {want}}
}

test_owner_must_create_here_for_more_than_are_named if {
	got := found with input as delete_plain_namespace
		with data.cluster.finalized as rays(held_by(9, ["x"], [0], ray({})))
	got == {"deny": set(), "warn": {thwarted(9, "have", ["x"], [first])}}
}

test_owner_creates_nothing if {
	got := found with input as delete_plain_namespace
		with data.cluster.finalized as rays(held_by(1, ["x"], [0], object.remove(ray({}), ["creates"])))
	got == nothing
}

# An object alone is cleared: its namespace stays, and takes what is created. Here
# it has the name of a namespace.
test_owner_must_create_for_the_object_alone if {
	namesake := json.patch(delete_kiali(ray({})), [{"op": "replace", "path": "/request/name", "value": "demo"}])
	got := found with input as namesake
		with data.cluster.finalized as rays(held_by(1, ["x"], [0], ray({})))
	got == nothing
}

test_content_of_another_namespace if {
	elsewhere := inventory({"a": held_by(1, ["kiali"], [0], kiali({}))}).demo
	got := found with input as delete_plain_namespace with data.cluster.finalized as {"other": elsewhere}
	got == nothing
}

test_more_finalizers_than_fit_a_command if {
	finalizers := [sprintf("x.io/%d", [i]) | some i in numbers.range(1, 21)]
	request := object.union(delete_kiali(kiali({})), {"ownership": {finalizer: nobody({}) | some finalizer in finalizers}})
	path := "/request/oldObject/metadata/finalizers"
	got := policy.deny with input as json.patch(request, [{"op": "replace", "path": path, "value": finalizers}])
	{finding.steps[1] | some finding in got} == {object.remove(give_up("", "all 21 that nobody removes", ""), ["action"])}
}

# Evictions.

evict(ownership) := {
	"request": {
		"operation": "CREATE",
		"resource": {"group": "", "version": "v1", "resource": "pods"},
		"subResource": "eviction",
		"name": "web-0",
		"namespace": "demo",
		"object": {"kind": "Eviction"},
	},
	"ownership": {"kiali.io/finalizer": ownership},
}

evicted := {
	"msg": "finalizer kiali.io/finalizer in metadata.finalizers is not removed: its owner, Kiali operator, is not installed",
	"objects": [{"resource": "pods", "namespace": "demo", "name": "web-0"}],
	"evidence": ["no Deployment kiali-operator"],
	"steps": [
		bring_back("Kiali operator"),
		object.remove(give_up(kiali_cleared, "kiali.io/finalizer", ""), ["action"]),
	],
}

test_evicted if {
	got := found with input as evict(kiali({}))
	got == {"deny": {evicted}, "warn": set()}
}

test_evicted_and_not_certain if {
	got := found with input as evict(kiali({"certainty": "may"}))
	perhaps := object.union(evicted, {"msg": replace(evicted.msg, "is not installed", "was not found")})
	got == {"deny": set(), "warn": {mended(perhaps, find_out("Kiali operator"))}}
}

test_evicted_and_alive if {
	got := found with input as evict(kiali({"state": "alive"}))
	got == nothing
}

test_owner_that_is_scaled_to_zero if {
	idle := [{"resource": "deployments.apps", "namespace": "ops", "name": "kiali-operator"}]
	got := policy.deny with input as delete_kiali(kiali({"state": "down", "idle": idle}))
	{finding.steps[0] | some finding in got} == {{
		"kind": "mend",
		"do": "Scale up Kiali operator, and the deletion finishes by itself",
		"action": {"verb": "scale", "objects": ["deployments.apps/kiali-operator"], "namespace": "ops", "replicas": 1},
	}}
}

# What only a declaration says is marked: an annotation is the tenant's own word.
test_declared_owner if {
	idle := [{"resource": "deployments.apps", "namespace": "ops", "name": "kiali-operator"}]
	ownership := {"state": "down", "idle": idle, "hearsay": "a declaration of the owner"}
	got := policy.deny with input as delete_kiali(kiali(ownership))
	{step.hearsay | some finding in got; some step in finding.steps} == {"a declaration of the owner"}
	count({step | some finding in got; some step in finding.steps}) == 2
}

# An owner that runs and has no right to update the object.
test_barred if {
	barred := kiali({
		"state": "barred", "certainty": "may", "evidence": ["service account ops/kiali may read it"],
		"barred": {"account": "ops/kiali", "resource": "kialis.kiali.io"},
	})
	some finding in policy.warn with input as delete_kiali(barred)
	finding.msg == concat("", [
		"finalizer kiali.io/finalizer in metadata.finalizers is not removed: ",
		"its owner, Kiali operator, has no right to remove it",
	])
	array.slice(finding.steps, 0, 2) == [
		{
			"kind": "mend", "do": "Make a role that may update and patch kialis.kiali.io",
			"command": [
				"kubectl", "create", "clusterrole", "update-kialis.kiali.io",
				"--verb=update,patch", "--resource=kialis.kiali.io",
			],
		},
		{
			"kind": "mend", "do": "Give it to service account ops/kiali, and the deletion finishes by itself",
			"command": [
				"kubectl", "create", "clusterrolebinding", "update-kialis.kiali.io",
				"--clusterrole=update-kialis.kiali.io", "--serviceaccount=ops:kiali",
			],
		},
	]
	startswith(finding.steps[2].do, "If it must not have that right, clean up what the finalizer protects")
}

# An owner that runs and has no right to be elected.
test_barred_from_its_lease if {
	barred := kiali({
		"state": "barred", "certainty": "may", "evidence": ["no role lets it"],
		"barred": {"account": "ops/kiali", "resource": "leases.coordination.k8s.io", "lease": "ops/kiali"},
	})
	some finding in policy.warn with input as delete_kiali(barred)
	finding.msg == concat("", [
		"finalizer kiali.io/finalizer in metadata.finalizers is not removed: ",
		"its owner, Kiali operator, may not renew its lease, and waits to be elected",
	])
	[step.command | some step in array.slice(finding.steps, 0, 2)] == [
		[
			"kubectl", "create", "role", "renew-leases", "-n", "ops",
			"--verb=get,create,update,patch", "--resource=leases.coordination.k8s.io",
		],
		[
			"kubectl", "create", "rolebinding", "renew-leases", "-n", "ops",
			"--role=renew-leases", "--serviceaccount=ops:kiali",
		],
	]
}

# Where it is sure that the owner has none.
test_surely_barred if {
	barred := kiali({
		"state": "barred", "certainty": "will", "evidence": ["service account ops/kiali may read it"],
		"barred": {"account": "ops/kiali", "resource": "kialis.kiali.io"},
	})
	{finding.msg | some finding in policy.deny with input as delete_kiali(barred)} == {concat("", [
		"finalizer kiali.io/finalizer in metadata.finalizers is not removed: ",
		"its owner, Kiali operator, has no right to remove it",
	])}
	uncertain := policy.warn with input as delete_kiali(barred)
	uncertain == set()
}
