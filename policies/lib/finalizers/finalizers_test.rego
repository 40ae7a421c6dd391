package termguard.lib.finalizers_test

import data.termguard.lib.finalizers

# The last goes first: each that goes changes where those behind it stand.
test_taking_out if {
	finalizers.taking_out(["pods/a", "pods/b"], "demo", {[0, "x.io/f"], [2, "y.io/g"]}) == {
		"verb": "patch",
		"objects": ["pods/a", "pods/b"],
		"namespace": "demo",
		"type": "json",
		"patch": [
			{"op": "test", "path": "/metadata/finalizers/2", "value": "y.io/g"},
			{"op": "remove", "path": "/metadata/finalizers/2"},
			{"op": "test", "path": "/metadata/finalizers/0", "value": "x.io/f"},
			{"op": "remove", "path": "/metadata/finalizers/0"},
		],
	}
}

test_as_told if {
	finalizers.as_told({"hearsay": "a Lease"}, [{"do": "x"}]) == [{"do": "x", "hearsay": "a Lease"}]
}

# Not all of many are named.
test_going_first if {
	finalizers.going_first("demo", "widgets.x.io", {"names": ["a"], "count": 2}) == [{
		"kind": "mend",
		"do": "Delete the widgets.x.io first; go on when they are gone",
	}]
}
