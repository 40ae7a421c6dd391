// Command prune is what Argo CD does with objects of an Application that are in Git no more,
// by Argo CD's own sync engine. It reads objects with their sync waves from standard input.
// As the controller of Argo CD does, it makes a new sync of what there is each time, until
// the sync says that it is done. One that is deleted while another of a higher wave is there
// is an error: each wave is to wait for the one above it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/syncwaves"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// interval is between two syncs. Argo CD syncs when what it watches changes.
const interval = 300 * time.Millisecond

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *kubeconfig, os.Stdin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prune:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, in io.Reader) error {
	objects, err := read(in)
	if err != nil {
		return fmt.Errorf("read the objects: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 200
	kubectl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	var results []common.ResourceSyncResult
	phase, said, began := common.OperationPhase(""), "", metav1.Now()
	for {
		live, err := there(ctx, kubectl, config, objects)
		if err != nil {
			return err
		}
		if err := inOrder(live); err != nil {
			return err
		}
		before := said
		if phase, said, results, err = step(kubectl, config, live, sync.WithInitialState(phase, said, results, began)); err != nil {
			return err
		}
		if said != before {
			fmt.Printf("%d left: %s: %s\n", len(live), phase, said)
		}
		if phase.Completed() {
			if !phase.Successful() {
				return fmt.Errorf("%s: %s", phase, said)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(interval):
		}
	}
}

// read reads objects: their kind, their name and their wave.
func read(in io.Reader) (objects []*unstructured.Unstructured, err error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(in, 4096); ; {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// there are those of the objects that the cluster has. A kind without definition has none.
func there(ctx context.Context, kubectl kube.Kubectl, config *rest.Config, objects []*unstructured.Unstructured) (live []*unstructured.Unstructured, err error) {
	for _, o := range objects {
		found, err := kubectl.GetResource(ctx, config, o.GroupVersionKind(), o.GetName(), o.GetNamespace())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		found.SetAnnotations(o.GetAnnotations()) // as Argo CD would have applied it
		live = append(live, found)
	}
	return live, nil
}

// inOrder wants only objects of the highest wave that is left to be deleted.
func inOrder(live []*unstructured.Unstructured) error {
	highest := 0
	for _, o := range live {
		highest = max(highest, syncwaves.Wave(o))
	}
	for _, o := range live {
		if wave := syncwaves.Wave(o); wave < highest && o.GetDeletionTimestamp() != nil {
			return fmt.Errorf("%s %s of wave %d is being deleted, while wave %d is there", o.GetKind(), o.GetName(), wave, highest)
		}
	}
	return nil
}

// step is one sync of an Application that has nothing any more.
func step(kubectl kube.Kubectl, config *rest.Config, live []*unstructured.Unstructured, state sync.SyncOpt) (phase common.OperationPhase, said string, results []common.ResourceSyncResult, err error) {
	all := sync.ReconciliationResult{Live: live, Target: make([]*unstructured.Unstructured, len(live))}
	s, clean, err := sync.NewSyncContext("", all, config, config, kubectl, "", sync.WithPrune(true), sync.WithLogr(logr.Discard()), state)
	if err != nil {
		return "", "", nil, err
	}
	defer clean()
	s.Sync()
	phase, said, results = s.GetState()
	return phase, said, results, nil
}
