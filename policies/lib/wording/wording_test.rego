package termguard.lib.wording_test

import data.termguard.lib.wording

test_counted if {
	wording.counted(1, "configmaps") == "1 configmap"
	wording.counted(2, "configmaps") == "2 configmaps"
	wording.counted(1, "kialis.kiali.io") == "1 kialis.kiali.io"
}

test_plural if {
	wording.plural(1, "pod", "pods") == "pod"
	wording.plural(0, "pod", "pods") == "pods"
}
