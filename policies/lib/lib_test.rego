package termguard.lib_test

import data.termguard.lib

request(operation, group, resource, extra) := {"request": object.union(
	{"operation": operation, "resource": {"group": group, "version": "v1", "resource": resource}},
	extra,
)}

test_target_of_a_namespaced_object if {
	found := lib.target with input as request("DELETE", "apps", "deployments", {"name": "web", "namespace": "demo"})
	found == {"resource": "deployments.apps", "namespace": "demo", "name": "web"}
}

test_a_namespace_is_not_in_itself if {
	found := lib.target with input as request("DELETE", "", "namespaces", {"name": "demo", "namespace": "demo"})
	found == {"resource": "namespaces", "namespace": "", "name": "demo"}
}

test_items_of_a_deletecollection_are_named_by_the_old_object if {
	old := {"metadata": {"name": "web-0"}}
	found := lib.target with input as request("DELETE", "", "pods", {"name": "", "namespace": "demo", "oldObject": old})
	found == {"resource": "pods", "namespace": "demo", "name": "web-0"}
}

test_what_is_missing_is_empty if {
	found := lib.target with input as {"request": {"operation": "DELETE"}}
	found == {"resource": "", "namespace": "", "name": ""}
}

test_deleting_a_part_is_not_deleting if {
	lib.deleting with input as request("DELETE", "", "pods", {})
	not lib.deleting with input as request("DELETE", "", "pods", {"subResource": "status"})
	not lib.deleting with input as request("UPDATE", "", "pods", {})
}

test_deletes_namespace if {
	lib.deletes_namespace with input as request("DELETE", "", "namespaces", {})
	not lib.deletes_namespace with input as request("DELETE", "", "pods", {})
	not lib.deletes_namespace with input as request("DELETE", "example.com", "namespaces", {})
}

test_evicting if {
	lib.evicting with input as request("CREATE", "", "pods", {"subResource": "eviction"})
	not lib.evicting with input as request("CREATE", "", "pods", {})
}

test_plural if {
	lib.plural(1, "pod", "pods") == "pod"
	lib.plural(0, "pod", "pods") == "pods"
}

test_person if {
	lib.person with input as {"request": {}}
	every name in ["", "ada", "system:admin"] {
		lib.person with input as {"request": {"userInfo": {"username": name}}}
	}
	every name in ["system:serviceaccount:ops:op", "system:kube-controller-manager", "system:node:n1"] {
		not lib.person with input as {"request": {"userInfo": {"username": name}}}
	}
}

# Steps.

test_names_cannot_break_out_of_a_command if {
	every word, quoted in {
		"system:node:n1": "system:node:n1",
		"it's": `'it'\''s'`,
		"$(reboot)": "'$(reboot)'",
		"a b": "'a b'",
		"": "''",
		"`x`;y": "'`x`;y'",
	} {
		lib.quoted(word) == quoted
	}
}

test_objects_in_batches if {
	lib.batches("pods", []) == []
	names := [sprintf("p%d", [i]) | some i in numbers.range(1, 21)]
	[count(batch) | some batch in lib.batches("pods", names)] == [10, 10, 1]
	lib.batches("pods", names)[2] == ["pods/p21"]
}
