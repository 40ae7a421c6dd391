package termguard.forced_namespace_finalize_test

import data.termguard.forced_namespace_finalize as policy

finalize(user, left) := {"request": {
	"operation": "UPDATE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"subResource": "finalize",
	"name": "demo",
	"namespace": "demo",
	"userInfo": {"username": user},
	"oldObject": {"metadata": {"name": "demo"}, "spec": {"finalizers": ["x.io/f", "kubernetes"]}},
	"object": {"metadata": {"name": "demo"}, "spec": left},
}}

forced := finalize("ada", {"finalizers": ["x.io/f"]})

finding(left, evidence) := {
	"msg": sprintf("ending namespace demo by force orphans %s", [left]),
	"objects": [{"resource": "namespaces", "namespace": "", "name": "demo"}],
	"evidence": evidence,
	"field": "spec.finalizers[1]",
	"steps": [
		{
			"kind": "mend",
			"do": "Fix what the namespace waits for (kubectl termguard check namespaces/demo), and it finishes by itself",
		},
		{
			"kind": "force",
			"do": concat(" ", [
				"End it by force, having saved the list of what is in it:",
				"those objects stay in etcd without a namespace, and what they stand for stays in existence",
			]),
		},
	],
}

empty := {"configmaps": 1, "serviceaccounts": 1}

test_content_remains if {
	got := policy.warn with input as forced
		with data.cluster.counts as {"demo": {"configmaps": 3, "serviceaccounts": 1, "kialis.kiali.io": 1}}
	got == {finding("3 objects: 2 configmaps, 1 kialis.kiali.io", ["2 configmaps", "1 kialis.kiali.io"])}
}

test_one_object if {
	every left in [{}, {"finalizers": []}] {
		got := policy.warn with input as finalize("ada", left)
			with data.cluster.counts as {"demo": object.union(empty, {"secrets": 1})}
		got == {finding("1 object: 1 secret", ["1 secret"])}
	}
}

test_last_configmap_of_a_namespace_that_is_being_deleted if {
	got := policy.warn with input as forced with data.cluster.counts as {"demo": {"configmaps": 1}}
	got == {finding("1 object: 1 configmap", ["1 configmap"])}
}

test_many_kinds if {
	got := policy.warn with input as forced
		with data.cluster.counts as {"demo": {"a": 1, "b": 12, "c": 3, "d": 1}}
	got == {finding("17 objects: 12 b, 3 c and 2 more kinds", ["12 b", "3 c", "1 a", "1 d"])}
}

test_nothing_but_what_is_always_there if {
	got := policy.warn with input as forced with data.cluster.counts as {"demo": empty}
	got == set()
}

test_another_namespace if {
	got := policy.warn with input as forced with data.cluster.counts as {"other": {"secrets": 1}}
	got == set()
}

test_another_finalizer if {
	got := policy.warn with input as finalize("ada", {"finalizers": ["kubernetes"]})
		with data.cluster.counts as {"demo": {"secrets": 1}}
	got == set()
}

test_the_namespace_controller if {
	every user in ["system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager"] {
		got := policy.warn with input as finalize(user, {}) with data.cluster.counts as {"demo": {"secrets": 1}}
		got == set()
	}
}
