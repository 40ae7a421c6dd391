package cluster

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestDeclared checks the effects of an annotation by the user, in the facts and on the object
// under review.
func TestDeclared(t *testing.T) {
	const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: it, namespace: a, uid: u, finalizers: [FINALIZER], annotations: {termguard.dev/finalizer-owner: DECLARED}}
`
	cases := map[string]struct {
		reason, finalizer, declared string
		trusts                      func(string) bool
		want                        string
	}{
		"declared":          {"It is an object of one's own.", "x.io/f", "external", nil, Alive},
		"not trusted":       {"The annotation is ignored.", "x.io/f", "external", func(namespace string) bool { return namespace != "a" }, Absent},
		"Kubernetes' own":   {"Otherwise an object that completes at once would be said to hang.", "kubernetes.io/pvc-protection", "Deployment/no/no", nil, Alive},
		"trusted elsewhere": {"", "x.io/f", "external", func(namespace string) bool { return namespace == "a" }, Alive},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claims := objects(t, strings.NewReplacer("FINALIZER", tc.finalizer, "DECLARED", tc.declared).Replace(claim))
			w, err := FromObjects(Options{Trusts: tc.trusts}, claims)
			if err != nil {
				t.Fatal(err)
			}
			verdicts := w.Ownership(claims[0], schema.GroupResource{Resource: "persistentvolumeclaims"}, nil)
			if got := verdicts[tc.finalizer].(map[string]any)["state"]; got != tc.want {
				t.Errorf("%s Under review it is %v, want %s", tc.reason, got, tc.want)
			}
			buckets, _ := at(w, "finalized", "a", tc.finalizer, "persistentvolumeclaims").(map[string]any)
			for _, b := range buckets {
				if got := b.(map[string]any)["ownership"].(map[string]any)["state"]; got != tc.want {
					t.Errorf("%s In the facts it is %v, want %s", tc.reason, got, tc.want)
				}
			}
			if len(buckets) != 1 {
				t.Errorf("want one bucket, got %s", fmt.Sprint(buckets))
			}
		})
	}
}
