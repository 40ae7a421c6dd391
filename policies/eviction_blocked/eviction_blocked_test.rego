package termguard.eviction_blocked_test

import data.termguard.eviction_blocked as policy
import data.termguard.lib.steps

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

budget := {"allowed": 0, "healthy": 2, "needed": 2, "expected": 2}

facts(why, names) := {
	"budgets": {"shop": {name: budget | some name in names}},
	"unevictable": {"shop": {"web-0": {"why": why, "budgets": names}}},
	"unevictableOn": {"n1": {"shop": {why: {"why": why, "budgets": names, "count": 1, "names": ["web-0"]}}}},
}

drain(node) := {"request": {
	"operation": "CONNECT",
	"subResource": "drain",
	"resource": {"group": "", "resource": "nodes"},
	"name": node,
	"oldObject": {"metadata": {"name": node}},
}}

claim(spec) := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "karpenter.sh", "resource": "nodeclaims"},
		"name": "claim-1",
		"oldObject": {
			"metadata": {"name": "claim-1", "finalizers": ["karpenter.sh/termination"]},
			"spec": spec,
			"status": {"nodeName": "n1"},
		},
	},
	"ownership": {"karpenter.sh/termination": karpenter(false)},
}

karpenter(elsewhere) := {
	"state": "alive", "certainty": "will", "owner": "Karpenter",
	"drains": {
		"node": ["status", "nodeName"], "elsewhere": elsewhere,
		"bounded": [["spec", "terminationGracePeriod"], ["spec", "seconds"]],
	},
}

ask(question, cluster) := got if {
	got := found with input as question with data.cluster as cluster
}

evidence(name) := sprintf("PodDisruptionBudget %s: 2 of 2 pods healthy, 2 must stay so, 0 disruptions allowed", [name])

removal := {
	"kind": "remove",
	"do": "Or delete the pods, which ignores budgets: the application runs without them until others are ready",
	"action": {"verb": "delete", "objects": ["pods/web-0"], "namespace": "shop", "noWait": true},
}

pod := "1 pod of namespace shop on node n1 cannot be evicted"

never(who, waits) := {
	"msg": sprintf("%s: PodDisruptionBudget web never allows a disruption, so %s %s", [pod, who, waits]),
	"objects": [
		{"resource": "poddisruptionbudgets.policy", "namespace": "shop", "name": "web"},
		{"resource": "pods", "namespace": "shop", "name": "web-0"},
	],
	"evidence": [evidence("web")],
	"steps": [
		steps.mend("Let PodDisruptionBudget web allow a disruption, or let its workload run more replicas", []),
		removal,
	],
}

test_drain if {
	ask(drain("n1"), facts("never", ["web"])) == {"deny": {never("the drain", "does not end")}, "warn": set()}
	ask(drain("n2"), facts("never", ["web"])) == nothing
}

test_claim if {
	ask(claim({}), facts("never", ["web"])) == {"deny": {never("Karpenter", "does not end")}, "warn": set()}
}

# Another policy tells what is bounded.
test_bounded_claim if {
	ask(claim({"terminationGracePeriod": "48h0m0s"}), facts("never", ["web"])) == nothing
}

test_bounded_elsewhere if {
	machine := object.union(claim({"terminationGracePeriod": "48h"}), {"ownership": {"karpenter.sh/termination": karpenter(true)}})
	got := ask(machine, facts("never", ["web"]))
	got == {"deny": set(), "warn": {object.union(never("Karpenter", "waits for up to 48 hours"), {"estimate_seconds": 172800})}}
}

# Cluster API takes 0 for no limit.
test_unlimited if {
	machine := object.union(claim({"terminationGracePeriod": "0s"}), {"ownership": {"karpenter.sh/termination": karpenter(true)}})
	ask(machine, facts("never", ["web"])) == {"deny": set(), "warn": {never("Karpenter", "may not end")}}
}

# Its NodeClaim may bound it.
test_node_with_a_draining_finalizer if {
	node := {
		"request": {
			"operation": "DELETE",
			"resource": {"group": "", "resource": "nodes"},
			"name": "n1",
			"oldObject": {"metadata": {"name": "n1", "finalizers": ["karpenter.sh/termination"]}},
		},
		"ownership": {"karpenter.sh/termination": karpenter(false)},
	}
	ask(node, facts("never", ["web"])) == {"deny": set(), "warn": {never("Karpenter", "may not end")}}
}

test_node_of_another_cluster if {
	elsewhere := object.union(claim({}), {"ownership": {"karpenter.sh/termination": karpenter(true)}})
	ask(elsewhere, facts("never", ["web"])) == {"deny": set(), "warn": {never("Karpenter", "may not end")}}
}

test_now if {
	got := ask(drain("n1"), facts("now", ["web"]))
	got.deny == set()
	some finding in got.warn
	finding.msg == concat("", [pod, ": PodDisruptionBudget web allows no disruption now (2 healthy, 2 needed), so the drain may not end"])
	finding.steps[0].do == "Wait until the other pods of PodDisruptionBudget web are healthy, or mend them"
}

test_several if {
	got := ask(drain("n1"), facts("several", ["a", "b"]))
	some finding in got.deny
	finding.msg == concat("", [pod, ": PodDisruptionBudgets a and b both cover it, which evictions do not support, so the drain does not end"])
	finding.evidence == [evidence("a"), evidence("b")]
	finding.steps[0].action == {"verb": "delete", "objects": ["poddisruptionbudgets.policy/b"], "namespace": "shop", "noWait": true}
}

test_unsynced if {
	got := ask(drain("n1"), facts("unsynced", ["web"]))
	some finding in got.deny
	finding.msg == concat("", [
		pod,
		": PodDisruptionBudget web fails to sync, and allows no disruption until it does, so the drain does not end",
	])
	finding.steps[0].command == ["kubectl", "describe", "poddisruptionbudgets.policy/web", "-n", "shop"]
}

test_eviction if {
	evict := {"request": {
		"operation": "CREATE",
		"resource": {"group": "", "resource": "pods"},
		"subResource": "eviction",
		"name": "web-0",
		"namespace": "shop",
	}}
	got := ask(evict, facts("never", ["web"]))
	got.deny == set()
	some finding in got.warn
	finding.msg == "the API server refuses to evict this pod: PodDisruptionBudget web never allows a disruption"
	finding.steps[1] == removal
	software := {"request": object.union(evict.request, {"userInfo": {"username": "system:serviceaccount:ops:drainer"}})}
	ask(software, facts("never", ["web"])) == nothing
}

# A delete asks no budget, and neither does the delete of a Node.
test_deletes if {
	pod := {"request": {
		"operation": "DELETE",
		"resource": {"group": "", "resource": "pods"},
		"name": "web-0",
		"namespace": "shop",
		"oldObject": {"metadata": {"name": "web-0"}},
	}}
	ask(pod, facts("never", ["web"])) == nothing
	node := {"request": object.union(object.remove(drain("n1").request, ["subResource"]), {"operation": "DELETE"})}
	ask(node, facts("never", ["web"])) == nothing
}
