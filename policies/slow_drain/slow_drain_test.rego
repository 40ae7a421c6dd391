package termguard.slow_drain_test

import data.termguard.lib.steps
import data.termguard.slow_drain as policy

cluster := {
	"budgets": {"shop": {"web": {"allowed": 0, "healthy": 2, "needed": 2, "expected": 2}}},
	"unevictableOn": {"n1": {"shop": {"never": {"why": "never", "budgets": ["web"], "count": 1, "names": ["web-0"]}}}},
}

claim(spec, elsewhere) := {
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
	"ownership": {"karpenter.sh/termination": {
		"state": "alive", "certainty": "will", "owner": "Karpenter",
		"drains": {
			"node": ["status", "nodeName"], "elsewhere": elsewhere,
			"bounded": [["spec", "terminationGracePeriod"], ["spec", "seconds"]],
		},
	}},
}

slow := {
	"msg": concat("", [
		"1 pod of namespace shop on node n1 cannot be evicted: ",
		"PodDisruptionBudget web never allows a disruption, and Karpenter waits for up to 48 hours",
	]),
	"objects": [
		{"resource": "poddisruptionbudgets.policy", "namespace": "shop", "name": "web"},
		{"resource": "pods", "namespace": "shop", "name": "web-0"},
	],
	"evidence": ["PodDisruptionBudget web: 2 of 2 pods healthy, 2 must stay so, 0 disruptions allowed"],
	"estimate_seconds": 172800,
	"steps": [
		steps.mend("Let PodDisruptionBudget web allow a disruption, or let its workload run more replicas", []),
		{
			"kind": "remove",
			"do": "Or delete the pods, which ignores budgets: the application runs without them until others are ready",
			"action": {"verb": "delete", "objects": ["pods/web-0"], "namespace": "shop", "noWait": true},
		},
	],
}

test_bounded if {
	every spec in [{"terminationGracePeriod": "48h0m0s"}, {"terminationGracePeriod": "50h", "seconds": 172800}] {
		got := policy.warn with input as claim(spec, false) with data.cluster as cluster
		got == {slow}
	}
}

test_unbounded if {
	every question in [claim({}, false), claim({"terminationGracePeriod": "48h0m0s"}, true)] {
		got := policy.warn with input as question with data.cluster as cluster
		got == set()
	}
}
