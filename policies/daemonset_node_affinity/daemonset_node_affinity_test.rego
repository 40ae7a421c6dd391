package termguard.daemonset_node_affinity_test

import data.termguard.daemonset_node_affinity as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

affected := {
	"git": "v1.11.2",
	"bugs": {"daemonset-node-affinity": {"affected": ">=1.11.0 <1.11.3", "fixedIn": "1.11.3", "symptom": "", "source": ""}},
}

fixed := {"git": "v1.11.3", "bugs": {}}

expression(operator, values) := {"key": "zone", "operator": operator, "values": values}

daemonset(strategy, expressions) := {
	"metadata": {"name": "agent"},
	"spec": {
		"updateStrategy": {"type": strategy},
		"template": {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
			{"matchExpressions": [expression("Exists", [])]},
			{"matchExpressions": expressions},
		]}}}}},
	},
}

request(operation, new, old) := {"request": {
	"operation": operation,
	"resource": {"group": "apps", "version": "v1", "resource": "daemonsets"},
	"name": "agent",
	"namespace": "demo",
	"object": new,
	"oldObject": old,
}}

field := concat("", [
	"spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.",
	"nodeSelectorTerms[1].matchExpressions[0].values",
])

finding(operator) := {
	"msg": "the values of zone (b, a) are out of order: Kubernetes v1.11.2 deletes and creates the pods without end",
	"objects": [{"resource": "daemonsets.apps", "namespace": "demo", "name": "agent"}],
	"evidence": [
		"affected: >=1.11.0 <1.11.3; fixed in: 1.11.3",
		sprintf("required node affinity, zone %s [b, a]", [operator]),
	],
	"field": field,
}

looping := daemonset("RollingUpdate", [expression("In", ["b", "a"])])

test_applied if {
	every operation in ["CREATE", "UPDATE"] {
		every operator in ["In", "NotIn"] {
			got := found with input as request(operation, daemonset("RollingUpdate", [expression(operator, ["b", "a"])]), null)
				with data.cluster.version as affected
			got == {"deny": {finding(operator)}, "warn": set()}
		}
	}
}

test_deleted if {
	got := found with input as request("DELETE", null, looping) with data.cluster.version as affected
	got == {"deny": set(), "warn": {finding("In")}}
}

test_deleted_with_its_namespace if {
	got := found with input as {"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "demo",
		"namespace": "demo",
	}}
		with data.cluster.version as affected
		with data.cluster.daemonsets as {"demo": {"agent": {"nodeAffinity": [
			object.union(expression("In", ["b", "a"]), {"field": field}),
			object.union(expression("In", ["a", "b"]), {"field": "sorted"}),
		]}}}
	got == {"deny": set(), "warn": {finding("In")}}
}

test_harmless if {
	every harmless in [
		daemonset("RollingUpdate", [expression("In", ["a", "b"])]),
		daemonset("RollingUpdate", [expression("In", ["b"])]),
		daemonset("RollingUpdate", [expression("Gt", ["b", "a"])]),
		daemonset("OnDelete", [expression("In", ["b", "a"])]),
		{"metadata": {"name": "agent"}, "spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}},
	] {
		got := found with input as request("CREATE", harmless, null) with data.cluster.version as affected
		got == nothing
	}
}

test_fixed_version if {
	got := found with input as request("CREATE", looping, null) with data.cluster.version as fixed
	got == nothing
}

test_other_kinds if {
	got := found with input as json.patch(
		request("CREATE", looping, null),
		[{"op": "replace", "path": "/request/resource/resource", "value": "deployments"}],
	)
		with data.cluster.version as affected
	got == nothing
}
