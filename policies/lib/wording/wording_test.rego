package termguard.lib.wording_test

import data.termguard.lib.wording

test_plural if {
	wording.plural(1, "pod", "pods") == "pod"
	wording.plural(0, "pod", "pods") == "pods"
}
