package termguard.known_obstacle_test

import data.termguard.known_obstacle as policy

found := policy.warn

nothing := set()

fault := {
	"id": "queue", "release": "kueue:v0.16.2", "symptom": "may forget a ClusterQueue", "affected": "<0.16.7",
	"mend": "Upgrade Kueue to 0.16.7 or later", "source": "example.com/1",
}

alive(changes) := {"state": "alive", "certainty": "will", "owner": "Kueue", "obstacles": [object.union(fault, changes)]}

of_object(ownership) := got if {
	got := found with data.cluster as {} with input as {
		"request": {
			"operation": "DELETE",
			"resource": {"group": "kueue.x-k8s.io", "resource": "clusterqueues"},
			"name": "cq",
			"oldObject": {"metadata": {"name": "cq", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}},
		},
		"ownership": {"kueue.x-k8s.io/resource-in-use": ownership},
	}
}

finding(why, evidence) := {
	"msg": sprintf("finalizer kueue.x-k8s.io/resource-in-use may stay: %s", [why]),
	"objects": [{"resource": "clusterqueues.kueue.x-k8s.io", "namespace": "", "name": "cq"}],
	"evidence": [evidence],
	"field": "metadata.finalizers[0]",
	"steps": [{"kind": "mend", "do": "Upgrade Kueue to 0.16.7 or later, then delete"}],
	"manifest": {"remedy": "Upgrade Kueue to 0.16.7 or later."},
}

told := "example.com/1 (affected: <0.16.7)"

test_fault if of_object(alive({})) == {finding("kueue:v0.16.2 runs, which may forget a ClusterQueue", told)}

test_setting if {
	of_object(alive({"release": "", "affected": "", "symptom": "AWS refuses"})) == {finding("AWS refuses", "example.com/1")}
}

test_right if {
	of_object(alive({"right": {"verb": "patch", "resource": "persistentvolumes"}})) == {finding(
		"kueue:v0.16.2 runs, which must patch persistentvolumes, and no role lets it",
		told,
	)}
}

test_nothing_known if of_object({"state": "alive", "certainty": "will", "owner": "Kueue"}) == nothing

test_only_with_its_namespace if of_object(alive({"withNamespace": true})) == nothing

test_lacks_nothing if of_object(alive({"lacks": "secrets"})) == nothing

test_lacks if {
	missing := [{"resource": "secrets", "namespace": "demo", "name": "key", "without": "completes"}]
	got := of_object(object.union(alive({"lacks": "secrets"}), {"missing": missing}))
	count(got) == 1
}

# What is in a namespace.

holding(ownership) := {"finalized": {"demo": {"example.com/cleanup": {"widgets.example.com": {"": bucket}}}}} if {
	bucket := {"count": 2, "names": ["a", "b"], "ownership": ownership}
}

in_namespace(facts) := got if {
	got := found with data.cluster as facts with input as {"request": {
		"operation": "DELETE",
		"resource": {"group": "", "resource": "namespaces"},
		"name": "demo",
	}}
}

test_content if {
	in_namespace(holding(alive({"withNamespace": true}))) == {{
		"msg": concat(" ", [
			"2 widgets.example.com have finalizer example.com/cleanup, which may stay:",
			"kueue:v0.16.2 runs, which may forget a ClusterQueue",
		]),
		"objects": [
			{"resource": "widgets.example.com", "namespace": "demo", "name": "a"},
			{"resource": "widgets.example.com", "namespace": "demo", "name": "b"},
		],
		"evidence": [told],
		"steps": [{"kind": "mend", "do": "Upgrade Kueue to 0.16.7 or later, then delete"}],
		"manifest": {"remedy": "Upgrade Kueue to 0.16.7 or later."},
	}}
}

needs := {"needs": {"demo": {"example.com/cleanup": {"widgets.example.com": {"secrets": {"spared": spared}}}}}}

spared := {"count": 2, "names": ["a", "b"], "needed": {"count": 1, "names": ["key"]}}

test_content_lacks_nothing if {
	every facts in [holding(alive({"lacks": "configmaps"})), object.union(holding(alive({"lacks": "configmaps"})), needs)] {
		in_namespace(facts) == nothing
	}
}

test_content_lacks if count(in_namespace(object.union(holding(alive({"lacks": "secrets"})), needs))) == 1
