package termguard.lib.steps_test

import data.termguard.lib.steps

test_objects_in_batches if {
	steps.batches("pods", []) == []
	names := [sprintf("p%d", [i]) | some i in numbers.range(1, 21)]
	[count(batch) | some batch in steps.batches("pods", names)] == [10, 10, 1]
	steps.batches("pods", names)[2] == ["pods/p21"]
}

test_step_says_how if {
	steps.mend("x", []) == {"kind": "mend", "do": "x"}
	steps.remove("x", ["kubectl", "describe", "pods/it's"]) == {"kind": "remove", "do": "x", "command": ["kubectl", "describe", "pods/it's"]}
	steps.forced("demo", ["a"])[0].action == {
		"verb": "delete",
		"objects": ["pods/a"],
		"namespace": "demo",
		"noWait": true,
		"force": true,
		"graceSeconds": 0,
	}
}
