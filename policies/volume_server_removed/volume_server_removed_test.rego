package termguard.volume_server_removed_test

import data.termguard.volume_server_removed as policy

delete_of(resource, name, ns) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": resource},
	"name": name,
	"namespace": ns,
}}

served := {"files": {
	"nfs": {"files": {"count": 1, "names": ["own"]}, "demo": {"count": 3, "names": ["a", "b"]}},
	"other": {"demo": {"count": 1, "names": ["c"]}},
}}

test_namespace if {
	found := policy.warn with input as delete_of("namespaces", "files", "files") with data.cluster as {"served": served}
	{finding.msg | some finding in found} == {
		concat("", [
			"1 pod in namespace files has a volume mounted from Service files/nfs, which goes with the namespace: ",
			"once that is gone, it may stay Terminating",
		]),
		concat("", [
			"3 pods in namespace demo have a volume mounted from Service files/nfs, which goes with the namespace: ",
			"once that is gone, they may stay Terminating, whenever they are deleted",
		]),
		concat("", [
			"1 pod in namespace demo has a volume mounted from Service files/other, which goes with the namespace: ",
			"once that is gone, it may stay Terminating, whenever it is deleted",
		]),
	}
}

test_service if {
	found := policy.warn with input as delete_of("services", "other", "files") with data.cluster as {"served": served}
	found == {{
		"msg": concat("", [
			"1 pod in namespace demo has a volume mounted from Service files/other: ",
			"once that is gone, it may stay Terminating, whenever it is deleted",
		]),
		"objects": [
			{"resource": "services", "namespace": "files", "name": "other"},
			{"resource": "pods", "namespace": "demo", "name": "c"},
		],
		"evidence": ["Service files/other is the server of a volume, and a kubelet waits for it to unmount that"],
		"steps": [{
			"kind": "mend",
			"do": "Stop what runs the pods that mount from it, in namespace demo, and wait until they are gone",
		}],
	}}
}

test_of_pods_that_are_stopped if {
	terminating := object.union(
		delete_of("namespaces", "files", "files"),
		{"request": {"oldObject": {"metadata": {"deletionTimestamp": "2026-11-21T08:00:00Z"}}}},
	)
	found := policy.warn with input as terminating with data.cluster as {"served": served}
	{[finding.objects[1].namespace, step.do] | some finding in found; some step in finding.steps} == {
		["files", concat(" ", [
			"Unmount the volumes of Service files/nfs on the nodes of the pods that are left, with umount -f -l:",
			"the kubelet does the rest",
		])],
		["demo", "Stop what runs the pods that mount from it, in namespace demo, and wait until they are gone"],
	}
}

served_by_pods := {"files": {"nfs-0": {"demo": {"count": 1, "names": ["a"]}}}}

test_namespace_of_a_pod if {
	said := concat("", [
		"1 pod in namespace demo has a volume mounted from pod files/nfs-0, which goes with the namespace: ",
		"once that is gone, it may stay Terminating, whenever it is deleted",
	])
	found := policy.warn with input as delete_of("namespaces", "files", "") with data.cluster as {"servedByPods": served_by_pods}
	{[finding.msg, finding.objects[0].resource] | some finding in found} == {[said, "pods"]}
	policy.warn with input as delete_of("services", "nfs-0", "files")
		with data.cluster as {"servedByPods": served_by_pods} == set()
}

test_service_of_the_same_name_elsewhere if {
	found := policy.warn with input as delete_of("services", "nfs", "demo") with data.cluster as {"served": served}
	found == set()
}
