package termguard.admission_policy_blocks_delete_test

import data.termguard.admission_policy_blocks_delete as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

policies := {"validating/frozen": {"failurePolicy": "Fail", "validations": ["nothing may go"]}}

refuses(operation, resource, subresource, certainty) := {
	"operation": operation,
	"resource": resource,
	"subresource": subresource,
	"count": 2,
	"certainty": certainty,
}

denied(requests) := {"demo": {"validating/frozen/here": requests}}

finding(outcome, seen) := {
	"msg": sprintf("ValidatingAdmissionPolicy frozen denies what the deletion needs: %s", [outcome]),
	"objects": [
		{"resource": "validatingadmissionpolicies.admissionregistration.k8s.io", "namespace": "", "name": "frozen"},
		{"resource": "validatingadmissionpolicybindings.admissionregistration.k8s.io", "namespace": "", "name": "here"},
	],
	"evidence": array.concat(
		["binding here denies, failurePolicy Fail", "it demands: nothing may go"],
		[sprintf("it denies %s (2 objects)", [request]) | some request in seen],
	),
	"steps": [
		{
			"kind": "mend",
			"do": "Let the control plane and the owners of finalizers pass the policy, or exclude the namespace in the binding",
		},
		{
			"kind": "force",
			"do": "Delete the binding: until it is back, what the policy forbids is allowed for everybody",
			"action": {"verb": "delete", "objects": ["validatingadmissionpolicybindings.admissionregistration.k8s.io/here"], "namespace": "", "noWait": true},
		},
	],
}

test_content if {
	got := found with input as delete_namespace
		with data.cluster.admissionpolicies as policies
		with data.cluster.denied as denied([
			refuses("DELETE", "configmaps", "", "will"),
			refuses("UPDATE", "namespaces", "status", "will"),
		])
	got == {"deny": {finding("DELETE configmaps is refused", ["DELETE configmaps"])}, "warn": set()}
}

test_perhaps if {
	got := found with input as delete_namespace
		with data.cluster.admissionpolicies as policies
		with data.cluster.denied as denied([
			refuses("DELETE", "configmaps", "", "may"),
			refuses("DELETE", "secrets", "", "may"),
		])
	got == {
		"deny": set(),
		"warn": {object.union(
			finding("DELETE configmaps (and 1 more) may be refused", ["DELETE configmaps", "DELETE secrets"]),
			{"manifest": {"severity": "low"}},
		)},
	}
}

test_evicted if {
	evict := {"request": {
		"operation": "CREATE",
		"resource": {"group": "", "version": "v1", "resource": "pods"},
		"subResource": "eviction",
		"name": "web-0",
		"namespace": "demo",
	}}
	got := found with input as evict
		with data.cluster.admissionpolicies as policies
		with data.cluster.pods as {"demo": {"web-0": {"node": "n1", "phase": "Running"}}}
		with data.cluster.denied as denied([refuses("DELETE", "pods", "", "will")])
	got == {"deny": {finding("DELETE pods is refused", ["DELETE pods"])}, "warn": set()}
}

test_not_needed if {
	got := found with input as delete_namespace
		with data.cluster.admissionpolicies as policies
		with data.cluster.denied as denied([refuses("UPDATE", "namespaces", "status", "will")])
	got == nothing
}

test_only_others if {
	delete := {"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "configmaps"},
		"name": "it",
		"namespace": "demo",
		"oldObject": {"metadata": {"finalizers": ["x.io/f"]}},
	}}
	every case in [["other", set()], ["it", {object.union(
		finding("UPDATE configmaps is refused", ["UPDATE configmaps"]),
		{"evidence": array.concat(finding("UPDATE configmaps is refused", ["UPDATE configmaps"]).evidence, ["of these, it"])},
	)}]] {
		got := found with input as delete
			with data.cluster.admissionpolicies as policies
			with data.cluster.denied as denied([object.union(refuses("UPDATE", "configmaps", "", "will"), {"names": [case[0]]})])
		got == {"deny": case[1], "warn": set()}
	}
}

test_mutating if {
	got := found with input as delete_namespace
		with data.cluster.admissionpolicies as {"mutating/stamp": {"failurePolicy": "Fail", "validations": null}}
		with data.cluster.denied as {"demo": {"mutating/stamp/here": [refuses("UPDATE", "namespaces", "finalize", "will")]}}
	got == {"warn": set(), "deny": {{
		"msg": "MutatingAdmissionPolicy stamp fails on what the deletion needs: UPDATE namespaces/finalize is refused",
		"objects": [
			{"resource": "mutatingadmissionpolicies.admissionregistration.k8s.io", "namespace": "", "name": "stamp"},
			{"resource": "mutatingadmissionpolicybindings.admissionregistration.k8s.io", "namespace": "", "name": "here"},
		],
		"evidence": ["binding here is in force, failurePolicy Fail", "it fails on UPDATE namespaces/finalize (2 objects)"],
		"steps": [
			finding("", []).steps[0],
			object.union(
				finding("", []).steps[1],
				{"action": {"verb": "delete", "objects": ["mutatingadmissionpolicybindings.admissionregistration.k8s.io/here"], "namespace": "", "noWait": true}},
			),
		],
	}}}
}
