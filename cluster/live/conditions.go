package live

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
)

const (
	// conditionsWithin bounds all reads for one question.
	conditionsWithin = 10 * time.Second
	// maxWarnings bounds the Events that are read: users may create thousands.
	maxWarnings = 5000
)

// ReadConditions reads the status conditions of the objects of World.Conditioned, and warning Events.
func ReadConditions(ctx context.Context, config *rest.Config, world *cluster.World, namespace string, log *slog.Logger) error {
	objects := world.Conditioned(namespace)
	if len(objects) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, conditionsWithin)
	defer cancel()
	client, err := dynamic.NewForConfig(unhurried(config))
	if err != nil {
		return fmt.Errorf("connect to read objects: %w", err)
	}
	if err := ReadWarnings(ctx, config, world, namespace, log); err != nil {
		return err
	}
	var mu sync.Mutex
	read := map[cluster.Conditioned]*unstructured.Unstructured{}
	var reading errgroup.Group
	reading.SetLimit(askedAtOnce)
	for _, o := range objects {
		reading.Go(func() error {
			object, err := client.Resource(o.GroupVersionResource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
			if err != nil {
				log.Debug("the conditions of an object are unseen", "resource", o.GroupResource(), "namespace", o.Namespace, "name", o.Name, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			read[o] = object
			return nil
		})
	}
	_ = reading.Wait() // never fails
	world.TakeConditions(namespace, func(o cluster.Conditioned) *unstructured.Unstructured { return read[o] })
	return nil
}

// ReadWarnings reads the warning Events of a namespace, "" for all; none if unreadable.
func ReadWarnings(ctx context.Context, config *rest.Config, world *cluster.World, namespace string, log *slog.Logger) error {
	return readWarnings(ctx, config, world, namespace, log, "")
}

// ReadWarningsOf reads the warning Events about one object; all Events if it is Terminating.
func ReadWarningsOf(ctx context.Context, config *rest.Config, world *cluster.World, resource schema.GroupResource, object metav1.Object, log *slog.Logger) error {
	of := ",involvedObject.uid=" + string(object.GetUID())
	var others []string
	if object.GetDeletionTimestamp() != nil {
		others = []string{"type=" + corev1.EventTypeNormal + of}
	}
	if err := readWarnings(ctx, config, world, cluster.EventsOf(object.GetNamespace()), log, of, others...); err != nil {
		return err
	}
	world.KeepWarnings(resource, object)
	return nil
}

// readWarnings reads the warnings that a selector narrows, and then what others select.
func readWarnings(ctx context.Context, config *rest.Config, world *cluster.World, namespace string, log *slog.Logger, selector string, others ...string) error {
	ctx, cancel := context.WithTimeout(ctx, conditionsWithin)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to read events: %w", err)
	}
	var events []corev1.Event
	for _, selector := range append([]string{"type=" + corev1.EventTypeWarning + selector}, others...) {
		list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: maxWarnings})
		if err != nil {
			log.Debug("Events are unseen", "namespace", namespace, "selector", selector, "error", err)
			break
		}
		events = append(events, list.Items...)
	}
	world.TakeWarnings(events)
	return nil
}

// unhurried returns a configuration whose rate limit does not matter.
func unhurried(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.QPS >= 0 {
		config.QPS, config.Burst = 100, 200 // the API server's priority and fairness is the effective limit
	}
	return config
}
