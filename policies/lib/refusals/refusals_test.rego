package termguard.lib.refusals_test

import data.termguard.lib.refusals

call(operation, resource) := {"operation": operation, "resource": resource, "subresource": ""}

test_first if {
	refusals.first({call("UPDATE", "pods"), call("DELETE", "pods")}, "is refused") == "DELETE pods (and 1 more) is refused"
}

# If the objects that a request is refused for were read, the others are not refused.
test_about_target if {
	every case in [[{}, true], [{"names": ["web-0"]}, true], [{"names": ["web-1"]}, false]] {
		about := {case[0] | refusals.about_target(case[0])} with input as {"request": {"name": "web-0"}}
		about == {case[0] | case[1]}
	}
}
