package scenario

import (
	"context"
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Evict evicts NAMESPACE/NAME as kubectl drain does, and returns termguard's warnings. The error has status
// 429 if a PodDisruptionBudget forbids it.
func (g *Guarded) Evict(ctx context.Context, pod string, dry bool) ([]string, error) {
	var said warnings
	config := g.Config()
	config.WarningHandler = &said
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(pod, "/")
	options := &metav1.DeleteOptions{}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, DeleteOptions: options}
	if err := client.PolicyV1().Evictions(namespace).Evict(ctx, eviction); err != nil {
		return said, fmt.Errorf("evict pod %s: %w", pod, err)
	}
	return said, nil
}

type warnings []string

var _ rest.WarningHandler = &warnings{}

// HandleWarningHeader keeps only termguard's.
func (h *warnings) HandleWarningHeader(_ int, _ string, text string) {
	if text, ok := strings.CutPrefix(text, "termguard: "); ok {
		*h = append(*h, text)
	}
}
