package shell

import (
	"os/exec"
	"testing"
)

// TestQuote checks that a shell reads quoted words unchanged.
func TestQuote(t *testing.T) {
	for _, word := range []string{"system:node:n1", "it's", "$(reboot)", "a b", "", "`x`;y", "''", "a\nb", `\'`, "*", "~", "#x", "-n"} {
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s. "+Quote(word)).Output()
		if err != nil || string(got) != word+"." {
			t.Errorf("%q: a shell takes it for %q: %v", word, got, err)
		}
	}
}
