package termguard.lib.events_test

import data.termguard.lib.events

test_current if {
	event := {"kind": "Pod", "namespace": "demo", "name": "web-0", "last": "2026-11-21T07:30:00Z"}
	got := [case |
		some case, changes in {
			"current": {},
			"old": {"last": "2026-11-21T06:59:00Z"},
			"of a pod that is gone": {"name": "web-9"},
			"of the node": {"kind": "Node", "name": "n1"},
			"of the node, old": {"kind": "Node", "name": "n1", "last": "2026-11-14T07:00:00Z"},
		}
		events.current(object.union(event, changes), "n1") with data.cluster.now as "2026-11-21T08:00:00Z"
			with data.cluster.pods as {"demo": {"web-0": {"node": "n1"}}}
	]
	got == ["current", "of the node"]
	not events.current(event, "n2") with data.cluster.now as "2026-11-21T08:00:00Z"
		with data.cluster.pods as {"demo": {"web-0": {"node": "n1"}}}
}

test_cause if {
	every want, symptoms in {
		"full": [["FailedCreatePodSandBox", "mkdir x: no space left on device"], ["FailedKillPod", "no space left on device"]],
		"busy": [["FailedUnmount", "umount: device or resource busy"]],
		"immutable": [["FailedSync", "unlinkat f: operation not permitted"]],
		"network": [
			["FailedKillPod", concat("", [
				`error killing pod: failed to "KillPodSandbox" for "1" with KillPodSandboxError: "failed to destroy network `,
				`for sandbox \"2\": plugin type=\"calico\" failed (delete): Unauthorized"`,
			])],
			["FailedKillPod", `failed to "KillPodSandbox": networkPlugin cni failed to teardown pod "a" network: connection refused`],
			["FailedKillPod", `failed to "KillPodSandbox": error removing pod from CNI network: timed out`],
		],
		"stuck": [
			["FailedKillPod", "error killing pod"], ["Killing", "Stopping container web"],
			["FailedSync", "error determining status: rpc error: code = DeadlineExceeded"],
			["FailedSync", "context deadline exceeded"],
		],
	} {
		every symptom in symptoms {
			events.cause({"reason": symptom[0], "message": symptom[1]}) == want
		}
	}
	every symptom in [
		["ImageGCFailed", "operation not permitted"], ["FailedMount", "device or resource busy"],
		["FailedSync", "secret not found"], ["ContainerGCFailed", "context deadline exceeded"],
	] {
		not events.cause({"reason": symptom[0], "message": symptom[1]})
	}
}
