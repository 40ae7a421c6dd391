package termguard.lib.template_test

import data.termguard.lib.template

create(plural, group, manifest) := {"request": {
	"operation": "CREATE",
	"resource": {"group": group, "version": "v1", "resource": plural},
	"name": "demo",
	"namespace": "demo",
	"object": manifest,
}}

test_containers_of_a_pod if {
	got := template.containers with input as create("pods", "", {"spec": {"initContainers": [{"name": "a"}], "containers": [{"name": "b"}]}})
	got == {"spec.initContainers[0]": {"name": "a"}, "spec.containers[0]": {"name": "b"}}
}

test_containers_of_a_cron_job if {
	pods := {"spec": {"containers": [{"name": "a"}]}}
	got := template.containers with input as create("cronjobs", "batch", {"spec": {"jobTemplate": {"spec": {"template": pods}}}})
	got == {"spec.jobTemplate.spec.template.spec.containers[0]": {"name": "a"}}
}

test_pods if {
	template.pods == "pods/demo" with input as create("pods", "", {})
	template.pods == "the pods of deployments.apps/demo" with input as create("deployments", "apps", {})
}

test_no_containers if {
	every input_ in [
		create("pods", "", {"spec": null}),
		create("configmaps", "", {}),
		object.union(create("pods", "", {"spec": {"containers": [{"name": "a"}]}}), {"request": {"operation": "DELETE"}}),
	] {
		got := template.containers with input as input_
		got == {}
	}
}

test_starts if {
	template.starts({"command": ["sh", "-c"], "args": ["sleep 1", 2]}) == ["sh", "-c", "sleep 1"]
	template.starts({}) == []
}
