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
