package hostile

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// TestForgedReviews checks that forged reviews to a default installation do not change the answers to others.
func TestForgedReviews(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g, admin := startGuarded(t, lab.Options{Progress: t.Output()})
	address, err := g.ClusterIP(ctx, "termguard-system", "termguard")
	if err != nil {
		t.Fatal(err)
	}
	forge := forger(t, address)
	tells := func(namespace, want string) {
		t.Helper()
		var lines []string
		if err := g.Await(ctx, time.Minute, fmt.Sprintf("%q on %s", want, namespace), func(ctx context.Context) (bool, error) {
			got, current, err := answer(ctx, g.Config(), namespace)
			lines = current
			return got == want, err
		}); err != nil {
			t.Fatalf("%v\nlast answer: %q", err, lines)
		}
	}
	for namespace, want := range victims {
		tells(namespace, want)
	}

	// Forged for the sender's own object, which is then deleted.
	mine := admin.CoreV1().ConfigMaps("tenant")
	for _, name := range []string{"another", "mine"} { // the first under a uid that no object has
		if _, err := mine.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"gone.test/cleanup"}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		tells("tenant", scenario.AtRisk) // it is seen
		if err := mine.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		going, err := mine.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if name == "another" {
			going.UID = "made-up"
		}
		forge(forgedRemoval(t, going))
		// The removal itself is reviewed by another replica, or by none.
		if err := g.Termguard.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if _, err := mine.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := g.Termguard.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		tells("tenant", scenario.Completes) // its deletion is seen
	}
	// termguard stores its learned facts before it stops.
	if err := g.Termguard.Stop(); err != nil {
		t.Fatal(err)
	}
	learned, err := admin.CoreV1().ConfigMaps("termguard-system").Get(ctx, "termguard-learned", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(learned.Data["learned.json"], "gone.test/cleanup") {
		t.Errorf("learned from forged reviews: %s", learned.Data["learned.json"])
	}
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.StartTermguard(ctx, binary); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range victims {
		tells(namespace, want)
	}
}

func forger(t *testing.T, address string) func(review any) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return func(review any) {
		t.Helper()
		body, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Post("https://"+address+"/validate", "application/json", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("a forged review is answered %s", response.Status)
		}
	}
}

func forgedRemoval(t *testing.T, going *corev1.ConfigMap) map[string]any {
	t.Helper()
	going.APIVersion, going.Kind = "v1", "ConfigMap"
	without := going.DeepCopy()
	without.Finalizers = nil
	return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "u", "operation": "UPDATE", "namespace": going.Namespace, "name": going.Name,
		"kind":     map[string]any{"group": "", "version": "v1", "kind": "ConfigMap"},
		"resource": map[string]any{"group": "", "version": "v1", "resource": "configmaps"},
		"userInfo": map[string]any{"username": "system:serviceaccount:kube-system:generic-garbage-collector", "groups": []string{"system:serviceaccounts"}},
		"options":  map[string]any{}, "oldObject": going, "object": without,
	}}
}
