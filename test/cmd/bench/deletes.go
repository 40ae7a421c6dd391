package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/termguard/termguard/test/scenario"
)

type subject struct {
	name      string
	resource  schema.GroupVersionResource
	finalizer string // on the object, "" for none
	object    string // without name and namespace
}

var (
	kialis = schema.GroupVersionResource{Group: "kiali.io", Version: "v1alpha1", Resource: "kialis"}
	pods   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

var subjects = []subject{
	{"a namespace", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", `{"apiVersion":"v1","kind":"Namespace"}`},
	{"a pod on a node", pods, "", `{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"steady","containers":[{"name":"c","image":"i"}]}}`},
	{"a pod on no node", pods, "", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i"}]}}`},
	{"a custom resource, its owner alive", kialis, "kiali.io/finalizer", `{"apiVersion":"kiali.io/v1alpha1","kind":"Kiali"}`},
	{"one whose finalizer nobody owns", kialis, "bench.example.com/left-behind", `{"apiVersion":"kiali.io/v1alpha1","kind":"Kiali"}`},
}

const software = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kialis.kiali.io}
spec:
  group: kiali.io
  scope: Namespaced
  names: {kind: Kiali, plural: kialis, singular: kiali}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: kiali-operator}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kiali-operator, namespace: kiali-operator}
spec:
  selector: {matchLabels: {app: kiali}}
  template:
    metadata: {labels: {app: kiali}}
    spec: {nodeName: steady, containers: [{name: operator, image: quay.io/kiali/kiali-operator:v2}]}`

// sides are the namespaces of termguard and of the no-op webhook; Namespaces are selected by label.
var sides = [2]string{"ours", "noop"}

func (s subject) of(client dynamic.Interface, side string) dynamic.ResourceInterface {
	if s.resource.Resource == "namespaces" {
		return client.Resource(s.resource)
	}
	return client.Resource(s.resource).Namespace(side)
}

func (s subject) named(side string, i int) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(s.name) + "-" + side + "-" + strconv.Itoa(i)
}

func (s subject) create(ctx context.Context, client dynamic.Interface, side string, i int) error {
	var obj unstructured.Unstructured
	if err := obj.UnmarshalJSON([]byte(s.object)); err != nil {
		return err
	}
	obj.SetName(s.named(side, i))
	if s.finalizer != "" {
		obj.SetFinalizers([]string{s.finalizer})
	}
	if side == sides[1] {
		obj.SetLabels(map[string]string{"bench": side})
	}
	_, err := s.of(client, side).Create(ctx, &obj, metav1.CreateOptions{})
	return err
}

func (s subject) letGo(ctx context.Context, client dynamic.Interface, side string, i int) error {
	if s.finalizer == "" {
		return nil
	}
	_, err := s.of(client, side).Patch(ctx, s.named(side, i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}

// Dry runs of deletes cause no watch events.
func (b *bench) reviews(ctx context.Context, rounds int) error {
	fmt.Printf("\nThe call of a delete as the API server counts it, and the processor time of a review; dry runs, %d of each in turn\n", rounds)
	fmt.Fprintln(b.table, "\ttermguard: ms\tCPU µs\tno-op: ms\tCPU µs\tratio of calls\tresident: MiB\tits own\t")
	for _, s := range subjects {
		const number = 1 << 20
		for _, side := range sides {
			if err := s.create(ctx, b.dynamic, side, number); err != nil {
				return err
			}
		}
		if err := b.awaitIdle(ctx); err != nil {
			return err
		}
		var before, after [2]usage
		for i := range rounds + warmUp {
			if i == warmUp {
				var err error
				if before, err = b.usages(ctx); err != nil {
					return err
				}
			}
			for _, side := range sides {
				if err := s.of(b.dynamic, side).Delete(ctx, s.named(side, number), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
					return err
				}
			}
		}
		after, err := b.usages(ctx)
		if err != nil {
			return err
		}
		var call, busy [2]float64
		for i := range sides {
			calls := after[i].calls.Since(before[i].calls)
			if calls.N != rounds || calls.FailedOpen > 0 {
				return fmt.Errorf("%s, %s: %d calls of %d, %d of them failed", s.name, sides[i], calls.N, rounds, calls.FailedOpen)
			}
			call[i], busy[i] = ms(calls.Mean()), float64((after[i].busy-before[i].busy).Microseconds())/float64(rounds)
		}
		rss, err := memoryMiB(b.Termguard.PID(), "VmRSS")
		if err != nil {
			return err
		}
		own, err := memoryMiB(b.Termguard.PID(), "RssAnon")
		if err != nil {
			return err
		}
		fmt.Fprintf(b.table, "%s\t%.2f\t%.0f\t%.2f\t%.0f\t%.2f\t%.0f\t%.0f\t\n", s.name, call[0], busy[0], call[1], busy[1], call[0]/call[1], rss, own)
		if err := b.profile(ctx, "review "+s.name, func() error {
			for range 4 * rounds {
				if err := s.of(b.dynamic, sides[0]).Delete(ctx, s.named(sides[0], number), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		for _, side := range sides {
			if err := s.letGo(ctx, b.dynamic, side, number); err != nil {
				return err
			}
			if err := s.of(b.dynamic, side).Delete(ctx, s.named(side, number), metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	b.table.Flush()
	return nil
}

const warmUp = 20

// Processor time includes watch events.
func (b *bench) deletes(ctx context.Context, rounds int) error {
	fmt.Printf("\nDelete as the client sees it, %d of each in turn; and the processor time of termguard for one of each side made and deleted, its watches included\n", rounds)
	fmt.Fprintln(b.table, "\ttermguard: p50 ms\tp99 ms\tno-op: p50 ms\tp99 ms\tratio p50\tp99\tCPU µs\t")
	for _, s := range subjects[:len(subjects)-1] {
		taken := map[string]timings{}
		one := func(i int) error {
			for _, side := range sides {
				if err := s.create(ctx, b.dynamic, side, i); err != nil {
					return err
				}
				began := time.Now()
				if err := s.of(b.dynamic, side).Delete(ctx, s.named(side, i), metav1.DeleteOptions{}); err != nil {
					return err
				}
				if i >= warmUp {
					taken[side] = append(taken[side], time.Since(began))
				}
				if err := s.letGo(ctx, b.dynamic, side, i); err != nil {
					return err
				}
			}
			return nil
		}
		var before time.Duration
		for i := range rounds + warmUp {
			if i == warmUp {
				var err error
				if before, err = processorTime(b.Termguard.PID()); err != nil {
					return err
				}
			}
			if err := one(i); err != nil {
				return err
			}
		}
		if err := b.awaitIdle(ctx); err != nil {
			return err
		}
		after, err := processorTime(b.Termguard.PID())
		if err != nil {
			return err
		}
		ours, noop := taken[sides[0]], taken[sides[1]]
		fmt.Fprintf(b.table, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t\n", s.name, ms(ours.at(0.5)), ms(ours.at(0.99)), ms(noop.at(0.5)), ms(noop.at(0.99)),
			ms(ours.at(0.5))/ms(noop.at(0.5)), ms(ours.at(0.99))/ms(noop.at(0.99)), (after-before).Microseconds()/int64(rounds))
		if err := b.profile(ctx, "delete "+s.name, func() error {
			for i := range 2 * rounds {
				if err := one(rounds + warmUp + i); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	b.table.Flush()
	return nil
}

type usage struct {
	calls scenario.Calls
	busy  time.Duration
}

func (b *bench) usages(ctx context.Context) (of [2]usage, err error) {
	for i, side := range []struct {
		webhook string
		pid     int
	}{{ourWebhook, b.Termguard.PID()}, {noopWebhook, b.noop.PID()}} {
		if of[i].calls, err = scenario.CallsOf(ctx, b.client, side.webhook); err != nil {
			return of, err
		}
		if of[i].busy, err = processorTime(side.pid); err != nil {
			return of, err
		}
	}
	return of, nil
}

func (b *bench) profile(ctx context.Context, name string, f func() error) error {
	if b.profiles == "" {
		return nil
	}
	address, err := b.ClusterIP(ctx, "termguard-system", "termguard")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			response, err := http.Get("http://" + address + ":8081/debug/pprof/profile?seconds=5")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			data, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(b.profiles, strings.ReplaceAll(name, " ", "-")+".pprof"), data, 0o666)
		}()
	}()
	if err := f(); err != nil {
		return err
	}
	return <-ended
}
