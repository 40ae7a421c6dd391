package termguard.volume_server_down_test

import data.termguard.lib.steps
import data.termguard.volume_server_down as policy

delete_pod := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "web-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}},
}}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

facts := {
	"pods": {"demo": {"web-0": {"missingServers": ["files/nfs"]}}},
	"unserved": {"demo": {"n1": {"files/nfs": {"count": 2, "names": ["web-0", "web-1"]}}}},
	"nodes": {"n1": {"outOfService": false}},
}

finding(who, they, names) := {
	"msg": sprintf(
		"%s on node n1 with a volume mounted from Service files/nfs, which has no ready endpoint, so %s may stay Terminating",
		[who, they],
	),
	"objects": array.concat(
		[{"resource": "services", "namespace": "files", "name": "nfs"}],
		[{"resource": "pods", "namespace": "demo", "name": name} | some name in names],
	),
	"evidence": [
		"no EndpointSlice of Service files/nfs has a ready endpoint",
		"a kubelet waits for the server of a volume to unmount that",
	],
	"steps": array.concat(
		[
			{"kind": "mend", "do": "Bring back what serves Service files/nfs, and the deletion finishes by itself"},
			{"kind": "mend", "do": "Or unmount its volumes on node n1, with umount -f -l: the kubelet does the rest"},
		],
		steps.forced("demo", names),
	),
}

test_pod if {
	found := policy.warn with input as delete_pod with data.cluster as facts
	found == {finding("this pod is", "it", ["web-0"])}
}

test_namespace if {
	found := policy.warn with input as delete_namespace with data.cluster as facts
	found == {finding("2 pods are", "they", ["web-0", "web-1"])}
}

test_namespace_of_the_server if {
	own := object.union(object.remove(facts, ["unserved"]), {"unserved": {"demo": {"n1": {"demo/nfs": {"count": 1, "names": ["web-0"]}}}}})
	found := policy.warn with input as delete_namespace with data.cluster as own
	found == set()
}

test_another_pod if {
	without := object.union(facts, {"pods": {"demo": {"web-0": {"missingServers": []}}}})
	found := policy.warn with input as delete_pod with data.cluster as without
	found == set()
}

test_node_out_of_service if {
	every request in [delete_pod, delete_namespace] {
		found := policy.warn with input as request with data.cluster as object.union(facts, {"nodes": {"n1": {"outOfService": true}}})
		found == set()
	}
}
