package lab

import (
	"os"
	"testing"
)

// Long skips a test in make test, which is -short and has time for one control plane.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
}

// Nightly reports whether this is make nightly.
func Nightly() bool { return os.Getenv("TIER") == "nightly" }
