package lab

import (
	"os"
	"testing"
)

// Long leaves a test out of make test, which is -short and has time for one control plane.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
}

// Nightly reports whether what is long and rare is played, as make nightly does.
func Nightly() bool { return os.Getenv("TIER") == "nightly" }
