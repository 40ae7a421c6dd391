package termguard.operator_in_same_set_test

import data.termguard.operator_in_same_set as policy

operator := {"resource": "deployments.apps", "namespace": "kiali", "name": "kiali-operator"}

target := {"resource": "kialis.kiali.io", "namespace": "demo", "name": "kiali"}

bundle := {"deployments.apps": {"kiali": {"kiali-operator": 0}}, "kialis.kiali.io": {"demo": {"kiali": 0}}}

# ordered is the same, the operator at the first place and the object at another.
ordered(place) := {
	"deployments.apps": {"kiali": {"kiali-operator": 1}},
	"kialis.kiali.io": {"demo": {"kiali": place}},
}

steps := [{
	"kind": "mend",
	"do": "Delete kialis.kiali.io/kiali first; go on when it is gone",
	"action": {"verb": "delete", "objects": ["kialis.kiali.io/kiali"], "namespace": "demo"},
}]

answers(operation, finalizers, ownership, together) := found if {
	found := {"deny": policy.deny, "warn": policy.warn} with input as {
		"request": {
			"operation": operation,
			"resource": {"group": "kiali.io", "version": "v1alpha1", "resource": "kialis"},
			"name": "kiali",
			"namespace": "demo",
			"oldObject": {"metadata": {"finalizers": finalizers}},
		},
		"ownership": {finalizer: ownership | some finalizer in finalizers},
	}
		with data.cluster.set as together
}

found(operation, finalizers, ownership, together) := answers(operation, finalizers, ownership, together).warn

alive := {"state": "alive", "evidence": ["it runs"], "workloads": [operator]}

test_together if {
	found("DELETE", ["kiali.io/finalizer"], alive, bundle) == {{
		"msg": "kubectl delete -f deletes kialis.kiali.io/kiali together with deployment kiali/kiali-operator, which removes kiali.io/finalizer",
		"objects": [target, operator],
		"evidence": ["it runs"],
		"manifest": {},
		"steps": steps,
	}}
}

test_several_finalizers if {
	found("DELETE", ["kiali.io/a", "kiali.io/b"], alive, bundle) == {{
		"msg": "kubectl delete -f deletes kialis.kiali.io/kiali together with deployment kiali/kiali-operator, which removes 2 finalizers of it",
		"objects": [target, operator],
		"evidence": ["it runs"],
		"manifest": {},
		"steps": steps,
	}}
}

test_flux if {
	controller := {"resource": "deployments.apps", "namespace": "flux-system", "name": "source-controller"}
	got := policy.warn with input as {
		"request": {
			"operation": "DELETE",
			"resource": {"group": "source.toolkit.fluxcd.io", "version": "v1", "resource": "gitrepositories"},
			"name": "flux-system",
			"namespace": "flux-system",
			"oldObject": {"metadata": {"finalizers": ["finalizers.fluxcd.io"]}},
		},
		"ownership": {"finalizers.fluxcd.io": {"state": "alive", "evidence": [], "workloads": [controller]}},
	}
		with data.cluster.set as {
			"deployments.apps": {"flux-system": {"source-controller": 0}},
			"gitrepositories.source.toolkit.fluxcd.io": {"flux-system": {"flux-system": 0}},
		}
	[finding.manifest.severity | some finding in got] == ["low"]
}

test_apart if {
	found("DELETE", ["kiali.io/finalizer"], alive, object.remove(bundle, ["deployments.apps"])) == set()
	found("DELETE", ["kiali.io/finalizer"], {"state": "alive", "evidence": []}, bundle) == set()
	found("DELETE", ["kiali.io/finalizer"], object.union(alive, {"state": "down"}), bundle) == set()
	found("CREATE", ["kiali.io/finalizer"], alive, bundle) == set()
}

# helm uninstall does not wait: what it deletes first may still be there, or not.
helm := {"by": "helm uninstall", "waits": false}

first := "helm uninstall deletes deployment kiali/kiali-operator, which removes kiali.io/finalizer, before kialis.kiali.io/kiali"

last := concat(" ", [
	"helm uninstall deletes kialis.kiali.io/kiali together with deployment kiali/kiali-operator,",
	"which removes kiali.io/finalizer",
])

test_in_order if {
	every case in [[2, first], [1, last], [0, last]] {
		got := answers("DELETE", ["kiali.io/finalizer"], alive, ordered(case[0])) with data.cluster.setOrder as helm
		got == {"deny": set(), "warn": {{
			"msg": case[1],
			"objects": [target, operator],
			"evidence": ["it runs"],
			"manifest": {},
			"steps": steps,
		}}}
	}
}

sure := object.union(alive, {"certainty": "will"})

waiting := {"by": "Argo CD", "waits": true}

test_waiting_between if {
	before := answers("DELETE", ["kiali.io/finalizer"], sure, ordered(2)) with data.cluster.setOrder as waiting
	before.warn == set()
	[finding.msg | some finding in before.deny] == [replace(first, "helm uninstall", "Argo CD")]
	after := answers("DELETE", ["kiali.io/finalizer"], sure, ordered(0)) with data.cluster.setOrder as waiting
	after == {"deny": set(), "warn": set()}
}

# Another that can remove it stays, or it is not sure who does.
test_waiting_and_unsure if {
	two := object.union(sure, {"workloads": [operator, {"resource": "deployments.apps", "namespace": "kiali", "name": "other"}]})
	every ownership in [two, alive] {
		unsure := answers("DELETE", ["kiali.io/finalizer"], ownership, ordered(2)) with data.cluster.setOrder as waiting
		unsure.deny == set()
		count(unsure.warn) == 1
	}
}

definitions := "customresourcedefinitions.apiextensions.k8s.io"

delete_definition := {"request": {
	"operation": "DELETE",
	"resource": {"group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions"},
	"name": "kialis.kiali.io",
}}

of_definition(facts) := got if {
	got := policy.warn with input as delete_definition with data.cluster as facts
}

instances(state, signatures, together) := {
	"spread": {"kialis.kiali.io": {"kiali.io/a": signatures, "kiali.io/b": signatures}},
	"finalizers": {finalizer: {"kialis.kiali.io": {"s": object.union(alive, {"state": state})}} |
		some finalizer in ["kiali.io/a", "kiali.io/b"]
	},
	"set": together,
}

release := {"deployments.apps": {"kiali": {"kiali-operator": 0}}, definitions: {"": {"kialis.kiali.io": 1}}}

test_definition if {
	of_definition(instances("alive", {"s": {"demo": 1}}, release)) == {{
		"msg": concat("", [
			"kubectl delete -f deletes deployment kiali/kiali-operator, which removes 2 finalizers of its instances, ",
			"before customresourcedefinitions.apiextensions.k8s.io/kialis.kiali.io",
		]),
		"objects": [{"resource": definitions, "namespace": "", "name": "kialis.kiali.io"}, operator],
		"evidence": ["it runs"],
		"manifest": {},
		"steps": [{"kind": "mend", "do": "Delete the kialis.kiali.io first; go on when they are gone"}],
	}}
}

test_definition_of_nothing_that_waits if {
	of_definition(instances("down", {"s": {"demo": 1}}, release)) == set()
	of_definition(instances("alive", {}, release)) == set()
	of_definition(instances("alive", {"s": {"demo": 1}}, object.remove(release, ["deployments.apps"]))) == set()
	of_definition(instances("alive", {"s": {"demo": 1}}, object.union(release, bundle))) == set()
}
