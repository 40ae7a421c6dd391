package termguard.unowned_finalizer_test

import data.termguard.unowned_finalizer as policy

found(operation, ownership) := warn if {
	warn := policy.warn with input as {
		"request": {
			"operation": operation,
			"resource": {"group": "", "version": "v1", "resource": "configmaps"},
			"name": "settings",
			"namespace": "demo",
			"object": {"metadata": {"finalizers": ["example.com/guard"]}},
		},
		"ownership": {"example.com/guard": ownership},
	}
}

finding(manifest) := {
	"msg": "no controller is known to remove finalizer example.com/guard: once deleted, configmaps/settings may stay Terminating",
	"objects": [{"resource": "configmaps", "namespace": "demo", "name": "settings"}],
	"evidence": ["nobody"],
	"field": "metadata.finalizers[0]",
	"manifest": manifest,
}

test_nobody if {
	every state, manifest in {"unasked": {"severity": "low"}, "absent": {}} {
		found("CREATE", {"state": state, "owner": "", "evidence": ["nobody"]}) == {finding(manifest)}
	}
}

test_spec_of_a_namespace if {
	got := policy.warn with input as {
		"request": {
			"operation": "CREATE",
			"resource": {"group": "", "version": "v1", "resource": "namespaces"},
			"name": "demo",
			"object": {"spec": {"finalizers": ["kubernetes", "example.com/guard"]}},
		},
		"ownership": {"example.com/guard": {"state": "unasked", "owner": "", "evidence": ["nobody"]}},
	}
	[f.field | some f in got] == ["spec.finalizers[1]"]
}

test_somebody if {
	every ownership in [
		{"state": "alive", "owner": "", "evidence": []},
		{"state": "unasked", "owner": "Kiali operator", "evidence": []},
		{"state": "unknown", "owner": "", "evidence": []},
	] {
		found("CREATE", ownership) == set()
	}
}

test_deleted if {
	found("DELETE", {"state": "absent", "owner": "", "evidence": []}) == set()
}
