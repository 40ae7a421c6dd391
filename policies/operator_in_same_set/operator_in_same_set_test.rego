package termguard.operator_in_same_set_test

import data.termguard.operator_in_same_set as policy

operator := {"resource": "deployments.apps", "namespace": "kiali", "name": "kiali-operator"}

target := {"resource": "kialis.kiali.io", "namespace": "demo", "name": "kiali"}

bundle := {"deployments.apps": {"kiali": {"kiali-operator": true}}}

found(operation, finalizers, ownership, together) := warn if {
	warn := policy.warn with input as {
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

alive := {"state": "alive", "evidence": ["it runs"], "workloads": [operator]}

test_together if {
	found("DELETE", ["kiali.io/finalizer"], alive, bundle) == {{
		"msg": "kubectl delete -f deletes kialis.kiali.io/kiali together with deployment kiali/kiali-operator, which removes kiali.io/finalizer",
		"objects": [target, operator],
		"evidence": ["it runs"],
		"manifest": {},
	}}
}

test_several_finalizers if {
	found("DELETE", ["kiali.io/a", "kiali.io/b"], alive, bundle) == {{
		"msg": "kubectl delete -f deletes kialis.kiali.io/kiali together with deployment kiali/kiali-operator, which removes 2 finalizers of it",
		"objects": [target, operator],
		"evidence": ["it runs"],
		"manifest": {},
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
		with data.cluster.set as {"deployments.apps": {"flux-system": {"source-controller": true}}}
	[finding.manifest.severity | some finding in got] == ["low"]
}

test_apart if {
	found("DELETE", ["kiali.io/finalizer"], alive, {"deployments.apps": {"kiali": {"other": true}}}) == set()
	found("DELETE", ["kiali.io/finalizer"], {"state": "alive", "evidence": []}, bundle) == set()
	found("DELETE", ["kiali.io/finalizer"], object.union(alive, {"state": "down"}), bundle) == set()
	found("CREATE", ["kiali.io/finalizer"], alive, bundle) == set()
}
