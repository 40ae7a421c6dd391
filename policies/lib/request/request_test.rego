package termguard.lib.request_test

import data.termguard.lib.request

review(operation, group, resource, extra) := {"request": object.union(
	{"operation": operation, "resource": {"group": group, "version": "v1", "resource": resource}},
	extra,
)}

test_target_of_a_namespaced_object if {
	found := request.target with input as review("DELETE", "apps", "deployments", {"name": "web", "namespace": "demo"})
	found == {"resource": "deployments.apps", "namespace": "demo", "name": "web"}
}

test_a_namespace_is_not_in_itself if {
	found := request.target with input as review("DELETE", "", "namespaces", {"name": "demo", "namespace": "demo"})
	found == {"resource": "namespaces", "namespace": "", "name": "demo"}
}

test_items_of_a_deletecollection_are_named_by_the_old_object if {
	old := {"metadata": {"name": "web-0"}}
	found := request.target with input as review("DELETE", "", "pods", {"name": "", "namespace": "demo", "oldObject": old})
	found == {"resource": "pods", "namespace": "demo", "name": "web-0"}
}

test_what_is_missing_is_empty if {
	found := request.target with input as {"request": {"operation": "DELETE"}}
	found == {"resource": "", "namespace": "", "name": ""}
}

test_deleting_a_part_is_not_deleting if {
	request.deleting with input as review("DELETE", "", "pods", {})
	not request.deleting with input as review("DELETE", "", "pods", {"subResource": "status"})
	not request.deleting with input as review("UPDATE", "", "pods", {})
}

test_deletes_namespace if {
	request.deletes_namespace with input as review("DELETE", "", "namespaces", {})
	not request.deletes_namespace with input as review("DELETE", "", "pods", {})
	not request.deletes_namespace with input as review("DELETE", "example.com", "namespaces", {})
}

test_evicting if {
	request.evicting with input as review("CREATE", "", "pods", {"subResource": "eviction"})
	not request.evicting with input as review("CREATE", "", "pods", {})
}

test_draining if {
	request.draining with input as review("CONNECT", "", "nodes", {"subResource": "drain"})
	not request.draining with input as review("CONNECT", "", "nodes", {"subResource": "proxy"})
	not request.draining with input as review("CONNECT", "", "pods", {"subResource": "drain"})
	not request.draining with input as review("DELETE", "", "nodes", {})
}

test_person if {
	request.person with input as {"request": {}}
	every name in ["", "ada", "system:admin"] {
		request.person with input as {"request": {"userInfo": {"username": name}}}
	}
	every name in ["system:serviceaccount:ops:op", "system:kube-controller-manager", "system:node:n1"] {
		not request.person with input as {"request": {"userInfo": {"username": name}}}
	}
}

test_orphaning if {
	request.orphaning with input as review("DELETE", "apps", "deployments", {"options": {"propagationPolicy": "Orphan"}})
	not request.orphaning with input as review("DELETE", "apps", "deployments", {"options": {"propagationPolicy": "Background"}})
	not request.orphaning with input as review("DELETE", "apps", "deployments", {})
}

test_foreground if {
	again := {"oldObject": {"metadata": {"finalizers": ["foregroundDeletion"]}}}
	request.foreground with input as review("DELETE", "apps", "deployments", {"options": {"propagationPolicy": "Foreground"}})
	request.foreground with input as review("DELETE", "apps", "deployments", again)
	not request.foreground with input as review("DELETE", "apps", "deployments", {})
}
