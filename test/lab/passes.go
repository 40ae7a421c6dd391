package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditPolicy has the API server note each pass of the namespace controller over a namespace,
// which begins with reading it (pkg/controller/namespace/deletion, Delete). Nothing else tells:
// its conditions stay as they are where a pass finds what the last one found.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:kube-system:namespace-controller"]
  verbs: [get]
  resources: [{group: "", resources: [namespaces]}]
- level: None
`

// auditFlags have the API server write down what auditPolicy says.
func (l *Lab) auditFlags() ([]string, error) {
	policy, err := l.write("audit-policy.yaml", []byte(auditPolicy))
	return []string{"--audit-policy-file", policy, "--audit-log-path", l.auditLog()}, err
}

func (l *Lab) auditLog() string { return filepath.Join(l.dir, "audit.log") }

// passes is how many passes over a namespace the namespace controller has begun since a time, and
// when it began the last.
// What begins within a second of the last is none of its own: a conflict has it read again, and
// after errors it tries again within milliseconds.
func (l *Lab) passes(namespace string, since time.Time) (n int, last time.Time, err error) {
	file, err := os.Open(l.auditLog())
	if errors.Is(err, os.ErrNotExist) { // no namespace was ever deleted
		return 0, since, nil
	}
	if err != nil {
		return 0, since, err
	}
	defer file.Close()
	last = since
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), `"requestURI":"/api/v1/namespaces/`+namespace+`"`) {
			continue
		}
		var event struct{ RequestReceivedTimestamp metav1.MicroTime }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			break // it is being written
		}
		if at := event.RequestReceivedTimestamp.Time; at.Sub(last) > time.Second {
			n, last = n+1, at
		}
	}
	return n, last, lines.Err()
}

// slowPass is how long the next pass may be in coming: where the API server cannot convert what
// it lists, one takes minutes.
const slowPass = 30 * time.Second

// NamespaceGone waits until a namespace that is being deleted is gone, and reports whether it
// is: it hangs once the namespace controller has made a second pass that left its conditions
// unchanged. One that the controller is done with waits for somebody else, for a limit.
func (l *Lab) NamespaceGone(ctx context.Context, limit time.Duration, name string) (gone bool, err error) {
	client, err := l.Client()
	if err != nil {
		return false, err
	}
	before, seen, finalized := "", 0, false
	err = l.Await(ctx, 10*time.Minute, "the namespace controller to make two passes over "+name, func(ctx context.Context) (bool, error) {
		namespace, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			gone = true
			return true, nil
		case err != nil:
			return false, err
		case !slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes):
			finalized = true
			return true, nil
		case namespace.DeletionTimestamp == nil:
			return false, nil
		}
		n, last, err := l.passes(name, namespace.DeletionTimestamp.Time)
		if n > 0 && time.Since(last) > slowPass {
			return true, err
		}
		if n -= 1; err != nil || n <= seen { // the last that began may still be under way
			return false, err
		}
		now := left(namespace.Status.Conditions)
		unchanged := seen > 0 && now == before
		seen, before = n, now
		return unchanged, nil
	})
	if err == nil && finalized {
		return l.Gone(ctx, limit, "namespace", name)
	}
	return gone, err
}

// left is what the conditions of a namespace say is left in it, and what fails. The errors
// themselves are of whichever resource came first, which each pass takes in another order.
func left(conditions []corev1.NamespaceCondition) string {
	var text strings.Builder
	for _, c := range conditions {
		fmt.Fprintln(&text, c.Type, c.Status, c.Reason)
		if c.Type == corev1.NamespaceContentRemaining || c.Type == corev1.NamespaceFinalizersRemaining {
			fmt.Fprintln(&text, c.Message)
		}
	}
	return text.String()
}
