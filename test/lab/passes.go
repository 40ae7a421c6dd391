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

// auditPolicy records each pass of the namespace controller, which begins by reading the namespace
// (pkg/controller/namespace/deletion, Delete). Conditions hide a pass that finds the same content as the
// last.
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

func (l *Lab) auditFlags() ([]string, error) {
	policy, err := l.write("audit-policy.yaml", []byte(auditPolicy))
	return []string{"--audit-policy-file", policy, "--audit-log-path", l.auditLog()}, err
}

func (l *Lab) auditLog() string { return filepath.Join(l.dir, "audit.log") }

// passes counts the namespace controller's passes, and returns the start of the last. Reads within a second
// are one pass: the controller reads again after a conflict, and retries within milliseconds.
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

// If the API server cannot convert the listed objects, a pass takes minutes.
const slowPass = 30 * time.Second

// NamespaceGone reports whether a Terminating namespace is deleted, rather than hangs: a second pass with the
// same conditions. Once the controller has finalized it, limit bounds the wait for other finalizers.
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

// Error messages in conditions are about a pass's first resource, in varying order.
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
