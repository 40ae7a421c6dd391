package termguard.refused_request_test

import data.termguard.refused_request as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

webhooks := {"validating/guard/deny.x.io": {
	"type": "validating",
	"configuration": "guard",
	"name": "deny.x.io",
	"failurePolicy": "Fail",
	"service": {"namespace": "ops", "name": "guard"},
}}

policies := {"validating/precious": {"failurePolicy": "Fail", "validations": ["precious things stay"]}}

target := {"resource": "configmaps", "namespace": "demo", "name": "settings"}

asked(refusals) := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "configmaps"},
		"name": "settings",
		"namespace": "demo",
		"oldObject": {"metadata": {"name": "settings"}},
	},
	"refusals": refusals,
}

refusal(by, certainty, cause, why) := {"by": by, "certainty": certainty, "cause": cause, "why": why}

by_webhook(problem, why, mending) := {
	"kind": "refused",
	"msg": sprintf("webhook guard/deny.x.io fails closed and %s: it sees DELETE configmaps/settings", [problem]),
	"objects": [target, {"resource": "validatingwebhookconfigurations.admissionregistration.k8s.io", "namespace": "", "name": "guard"}],
	"evidence": [sprintf("validating/guard/deny.x.io, failurePolicy Fail: %s", [why])],
	"steps": [
		{"kind": "mend", "do": mending},
		{
			"kind": "remove",
			"do": "If its software is gone for good, delete the webhook configuration",
			"action": {"verb": "delete", "objects": ["validatingwebhookconfigurations.admissionregistration.k8s.io/guard"], "namespace": "", "noWait": true},
		},
	],
}

causes := [
	{"cause": "down", "problem": "Service ops/guard is down", "mending": "Bring back Service ops/guard, then delete again"},
	{
		"cause": "untrusted",
		"problem": "its caBundle does not fit Service ops/guard",
		"mending": "Make the caBundle of webhook deny.x.io match the certificate of Service ops/guard, then delete again",
	},
	{
		"cause": "condition",
		"problem": "a matchCondition of it fails",
		"mending": "Correct the matchConditions of webhook deny.x.io, then delete again",
	},
]

test_webhook if {
	every case in causes {
		got := found with input as asked([refusal("webhook/validating/guard/deny.x.io", "will", case.cause, "x")])
			with data.cluster.webhooks as webhooks
		got == {"deny": {by_webhook(case.problem, "x", case.mending)}, "warn": set()}
	}
}

test_webhook_may if {
	every case in causes {
		got := found with input as asked([refusal("webhook/validating/guard/deny.x.io", "may", case.cause, "x")])
			with data.cluster.webhooks as webhooks
		got == {"deny": set(), "warn": {by_webhook(case.problem, "x", case.mending)}}
	}
}

test_policy if {
	got := found with input as asked([refusal("policy/validating/precious/here", "will", "denied", "the policy denies it")])
		with data.cluster.admissionpolicies as policies
	got == {
		"deny": {{
			"kind": "refused",
			"msg": "validating admission policy precious denies DELETE configmaps/settings",
			"objects": [
				target,
				{"resource": "validatingadmissionpolicies.admissionregistration.k8s.io", "namespace": "", "name": "precious"},
				{"resource": "validatingadmissionpolicybindings.admissionregistration.k8s.io", "namespace": "", "name": "here"},
			],
			"evidence": ["binding here denies, failurePolicy Fail", "it demands: precious things stay"],
			"steps": [{"kind": "mend", "do": "Do what the policy asks for, or talk to those who own it"}],
		}},
		"warn": set(),
	}
}

test_protected if {
	why := "the API server never deletes namespace default"
	got := found with input as asked([refusal("apiserver", "will", "protected", why)])
	got == {
		"deny": {{
			"kind": "refused",
			"msg": why,
			"objects": [target],
			"evidence": ["admission plugin NamespaceLifecycle"],
			"manifest": {"severity": "none"},
			"steps": [{"kind": "mend", "do": "Delete what is in the namespace instead: the namespace itself belongs to Kubernetes"}],
		}},
		"warn": set(),
	}
}

test_nothing if {
	got := found with input as object.remove(asked([]), ["refusals"])
	got == nothing
}
