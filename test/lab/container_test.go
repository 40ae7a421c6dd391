package lab

import "testing"

// TestExpand: references to the environment are as the kubelet has them.
func TestExpand(t *testing.T) {
	environment := []string{"A=one", "B=$(A)", "A=two", "EMPTY="}
	for text, want := range map[string]string{
		"--a=$(A)":           "--a=two", // the last wins
		"--b=$(B)":           "--b=$(A)",
		"--c=$(C),$(EMPTY).": "--c=$(C),.",
		"$A":                 "$A",
	} {
		if got := expand(text, environment); got != want {
			t.Errorf("expand(%q) = %q, want %q", text, got, want)
		}
	}
}
