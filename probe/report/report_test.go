package report

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBounds checks that a report with too many findings stays readable.
func TestBounds(t *testing.T) {
	r := New("n1")
	for range MaxFindings + 5 {
		r.Add(Finding{Cause: Immutable, Certainty: Will, Evidence: strings.Repeat("ä", MaxText), Remedy: strings.Repeat("x", MaxText+1)})
	}
	if len(r.Findings) != MaxFindings || r.Omitted != 5 {
		t.Errorf("%d findings and %d omitted", len(r.Findings), r.Omitted)
	}
	f := r.Findings[0]
	if len(f.Evidence) > MaxText || !utf8.ValidString(f.Evidence) || f.Remedy != "" {
		t.Errorf("evidence of %d bytes, remedy %q: half a command is none", len(f.Evidence), f.Remedy)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Prefix + "n1"}, Data: map[string]string{Key: string(text)}})
	if diff := cmp.Diff(r, got); err != nil || diff != "" {
		t.Errorf("%v: -want +got\n%s", err, diff)
	}
}

// TestNotesLeaveRoom checks that notes do not crowd out findings that block a pod.
func TestNotesLeaveRoom(t *testing.T) {
	r := New("n1")
	for range MaxFindings {
		r.Add(Finding{Cause: Stuck, Certainty: Note})
	}
	r.Add(Finding{Cause: Immutable, Certainty: Will})
	if len(r.Blocking()) != 1 || len(r.Findings)+r.Omitted != MaxFindings+1 {
		t.Errorf("%d of %d findings hold, and %d are omitted", len(r.Blocking()), len(r.Findings), r.Omitted)
	}
}

// TestRefused checks that Read rejects anything but a report of this node.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                  "read the report",
		`{"kind": "Probe"}`: `want Probe of termguard.dev/v1`,
		`{"apiVersion": "termguard.dev/v1", "kind": "Probe", "node": "n2"}`: `about node "n2"`,
	} {
		if _, err := Read(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Prefix + "n1"}, Data: map[string]string{Key: text}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion": "termguard.dev/v1", "kind": "Probe", "node": "n", "findings": [{"pod": null}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := Decode(text, "n"); err == nil && len(r.Findings) > MaxFindings {
			t.Errorf("%d findings", len(r.Findings))
		}
	})
}
