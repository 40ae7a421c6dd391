package policies

import "testing"

func TestPolicyOf(t *testing.T) {
	for name, tc := range map[string]struct{ reason, warning, want string }{
		"Hangs":    {"what hangs is a finding", "termguard: will hang: nobody removes it [orphaned-finalizer]", "orphaned-finalizer"},
		"Refused":  {"so is what is refused", "termguard: may be refused: it [x] says no: [a] [refused-request]", "refused-request"},
		"Info":     {"what informs predicts nothing", "termguard: it takes 30 s [slow-termination]", ""},
		"Edit":     {"an edit of finalizers does not hang", "termguard: unsafe: its owner runs [finalizer-stripped-while-controller-alive]", ""},
		"Notice":   {"a notice has no policy", "termguard: not checked in full: a policy failed (see termguard's log)", ""},
		"Other":    {"another webhook's warning", "will hang: x [y]", ""},
		"Quoting":  {"one that quotes a verdict later", "termguard: x: will hang: y [z]", ""},
		"NoPolicy": {"an id is a word", "termguard: will hang: y [not an id]", ""},
		"Cut":      {"half of an id", "termguard: will hang: y [id", ""},
	} {
		if got := PolicyOf(tc.warning); got != tc.want {
			t.Errorf("%s: %s: got %q, want %q", name, tc.reason, got, tc.want)
		}
	}
}

func TestNamesVolume(t *testing.T) {
	for command, want := range map[string]bool{
		"kubectl delete pvc data -n shop":                         true,
		"kubectl delete pods,PVC/data":                            true,
		"kubectl delete persistentvolumes/a":                      true,
		"kubectl delete PersistentVolumeClaim.v1 data":            true,
		"kubectl get pods -o name | xargs kubectl delete pv":      true,
		"kubectl delete pods/data-pvc -n shop":                    false,
		"kubectl delete volumesnapshots.snapshot.storage.k8s.io/": false,
	} {
		if got := namesVolume(command); got != want {
			t.Errorf("%s: got %t, want %t", command, got, want)
		}
	}
	for object, want := range map[string]bool{"persistentvolumes/a": true, "pods/pvc": false, "persistentvolumeclaims/a": true} {
		if got := IsVolume(object); got != want {
			t.Errorf("%s: got %t, want %t", object, got, want)
		}
	}
}
