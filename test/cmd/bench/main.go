// Command bench measures termguard on a real control plane: deletes beside a no-op webhook of
// controller-runtime, unrelated requests, and reading and keeping a cluster of a given size.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

func main() {
	rounds := flag.Int("rounds", 500, "requests of each kind")
	objects := flag.Int("objects", 10000, "ConfigMaps in the cluster that is read; 1 % of them carry a finalizer")
	growing := flag.Bool("scale", false, "measure clusters of several sizes instead, which takes some 10 minutes")
	profiles := flag.String("profiles", "", "write profiles of termguard's processor time into this `FOLDER`, which takes longer")
	serving := flag.String("no-op", "", "serve the webhook that does nothing on port 443 of this `ADDRESS`, and nothing else")
	certificate := flag.String("certificate", "", "`PATH` of the certificate of -no-op, without .crt and .key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *serving != "":
		err = doNothing(ctx, *serving, *certificate)
	case *growing:
		err = scale(ctx, sizes)
	default:
		err = run(ctx, *rounds, *objects, *profiles)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	*scenario.Guarded
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	noop     *lab.Process // the no-op webhook
	profiles string       // folder
	table    *tabwriter.Writer
}

func start(ctx context.Context, options lab.Options) (*bench, error) {
	g, err := scenario.Guard(ctx, options)
	if err != nil {
		return nil, err
	}
	b := &bench{Guarded: g, table: tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)}
	if b.client, err = kubernetes.NewForConfig(g.Config()); err == nil {
		b.dynamic, err = dynamic.NewForConfig(g.Config())
	}
	if err != nil {
		g.Stop()
		return nil, err
	}
	return b, nil
}

func run(ctx context.Context, rounds, objects int, profiles string) error {
	b, err := start(ctx, lab.Options{})
	if err != nil {
		return err
	}
	defer b.Stop()
	b.profiles = profiles
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	for _, measure := range []func(context.Context, int) error{b.reviews, b.deletes, b.updates, b.absence} {
		if err := measure(ctx, rounds); err != nil {
			return err
		}
	}
	return b.size(ctx, objects)
}

func (b *bench) prepare(ctx context.Context) error {
	if err := b.Apply(ctx, software+`
---
{apiVersion: v1, kind: Namespace, metadata: {name: ours}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: noop, labels: {bench: noop}}}
---
{apiVersion: v1, kind: Service, metadata: {name: noop, namespace: default}, spec: {ports: [{port: 443}]}}`); err != nil {
		return err
	}
	if b.profiles != "" { // the Deployment does not enable profiles
		if _, err := b.restart(ctx, "--pprof"); err != nil {
			return err
		}
	}
	if err := b.serveNothing(ctx); err != nil {
		return err
	}
	hooks := b.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	ours, err := hooks.Get(ctx, "termguard", metav1.GetOptions{})
	if err != nil {
		return err
	}
	noop := ours.DeepCopy()
	noop.ObjectMeta = metav1.ObjectMeta{Name: "noop"}
	noop.Webhooks = noop.Webhooks[:1] // the entry for deletes
	noop.Webhooks[0].Name = noopWebhook
	noop.Webhooks[0].ClientConfig.CABundle = b.CABundle()
	noop.Webhooks[0].ClientConfig.Service.Namespace, noop.Webhooks[0].ClientConfig.Service.Name = "default", "noop"
	noop.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"bench": "noop"}}
	if _, err := hooks.Create(ctx, noop, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range ours.Webhooks {
		ours.Webhooks[i].NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "bench", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	if _, err = hooks.Update(ctx, ours, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for _, wait := range [][]string{
		{"wait", "deployment/kiali-operator", "-n", "kiali-operator", "--for=condition=Available", "--timeout=60s"},
		{"wait", "crd/kialis.kiali.io", "--for=condition=Established", "--timeout=60s"},
	} {
		if r, err := b.Kubectl(ctx, wait...); err != nil || r.Code != 0 {
			return errors.Join(err, fmt.Errorf("kubectl %v: %s", wait, r.Stderr))
		}
	}
	if err := b.awaitIdle(ctx); err != nil {
		return err
	}
	rss, err := memoryMiB(b.Termguard.PID(), "VmRSS")
	if err != nil {
		return err
	}
	own, err := memoryMiB(b.Termguard.PID(), "RssAnon")
	fmt.Printf("\ntermguard at rest: %.0f MiB resident, of which %.0f MiB are its own, and the rest pages of its binary\n", rss, own)
	return err
}

func (b *bench) restart(ctx context.Context, extra ...string) (ready time.Duration, err error) {
	if err := b.Termguard.Stop(); err != nil {
		return 0, err
	}
	binary, err := scenario.Binary()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = b.StartTermguard(ctx, binary, extra...)
	return time.Since(began), err
}

func (b *bench) uninstall(ctx context.Context) (back func() error, err error) {
	hooks := b.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	configuration, err := hooks.Get(ctx, "termguard", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	configuration.ResourceVersion, configuration.UID = "", ""
	binary, err := scenario.Binary()
	if err != nil {
		return nil, err
	}
	if err := b.Termguard.Stop(); err != nil {
		return nil, err
	}
	return func() error {
		if _, err := hooks.Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
			return err
		}
		return b.StartTermguard(ctx, binary)
	}, hooks.Delete(ctx, "termguard", metav1.DeleteOptions{})
}

func (b *bench) awaitIdle(ctx context.Context) error {
	const tick = 10 * time.Millisecond // the resolution of processorTime
	last := time.Duration(-time.Hour)
	return b.Await(ctx, time.Minute, "termguard to have nothing to do", func(context.Context) (bool, error) {
		now, err := processorTime(b.Termguard.PID())
		idle := now-last <= tick
		last = now
		time.Sleep(200 * time.Millisecond)
		return idle, err
	})
}

type timings []time.Duration

func (t timings) at(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (t timings) perSecond() float64 {
	total := time.Duration(0)
	for _, d := range t {
		total += d
	}
	return float64(len(t)) / total.Seconds()
}

func (b *bench) pair(nameA string, a timings, nameB string, z timings) {
	fmt.Fprintln(b.table, "\tp50 ms\tp99 ms\trequests/s\t")
	for _, row := range []struct {
		name string
		t    timings
	}{{nameA, a}, {nameB, z}} {
		fmt.Fprintf(b.table, "%s\t%.2f\t%.2f\t%.0f\t\n", row.name, ms(row.t.at(0.5)), ms(row.t.at(0.99)), row.t.perSecond())
	}
	fmt.Fprintf(b.table, "ratio\t%.2f\t%.2f\t%.2f\t\n", ms(a.at(0.5))/ms(z.at(0.5)), ms(a.at(0.99))/ms(z.at(0.99)), a.perSecond()/z.perSecond())
	b.table.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const (
	ourWebhook  = "delete.termguard.dev"
	noopWebhook = "noop.example.com"
)

// utime and stime of proc(5), stat, in hundredths of a second.
func processorTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	total := time.Duration(0)
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("stat of process %d: %w", pid, err)
		}
		total += time.Duration(ticks) * 10 * time.Millisecond
	}
	return total, nil
}

// updates leave finalizers alone: match conditions are evaluated, or excluded by the namespace selector.
func (b *bench) updates(ctx context.Context, rounds int) error {
	for _, size := range []int{1 << 10, 10 << 10, 1000 << 10} {
		fmt.Printf("\nUpdate of a ConfigMap of %d KiB, %d of each in turn\n", size>>10, rounds/2)
		taken := map[string]timings{}
		for _, ns := range []string{"ours", "noop"} {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c" + strconv.Itoa(size)}, Data: map[string]string{"x": strings.Repeat("x", size)}}
			if _, err := b.client.CoreV1().ConfigMaps(ns).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		for i := range rounds / 2 {
			for _, ns := range []string{"ours", "noop"} {
				cm, err := b.client.CoreV1().ConfigMaps(ns).Get(ctx, "c"+strconv.Itoa(size), metav1.GetOptions{})
				if err != nil {
					return err
				}
				cm.Annotations = map[string]string{"round": strconv.Itoa(i)}
				began := time.Now()
				if _, err := b.client.CoreV1().ConfigMaps(ns).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
					return err
				}
				taken[ns] = append(taken[ns], time.Since(began))
			}
		}
		b.pair("termguard installed", taken["ours"], "left out", taken["noop"])
	}
	return nil
}

// absence compares unrelated requests with and without termguard, in turns.
func (b *bench) absence(ctx context.Context, rounds int) error {
	const blocks = 3 // of each
	fmt.Printf("\nCreate, update and delete of a ConfigMap of 1 KiB, %d of each; and the API server's processor time for the three\n", blocks*(rounds/4))
	maps := b.client.CoreV1().ConfigMaps(sides[0])
	data := map[string]string{"x": strings.Repeat("x", 1<<10)}
	block := func() (taken [3]timings, busy time.Duration, err error) {
		before := time.Duration(0)
		for i := range rounds/4 + warmUp {
			if i == warmUp {
				if before, err = processorTime(b.APIServer().PID()); err != nil {
					return taken, 0, err
				}
			}
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "absence"}, Data: data}
			for kind, request := range []func() error{
				func() (err error) { cm, err = maps.Create(ctx, cm, metav1.CreateOptions{}); return err },
				func() (err error) {
					cm.Annotations = map[string]string{"a": "b"}
					_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
					return err
				},
				func() error { return maps.Delete(ctx, cm.Name, metav1.DeleteOptions{}) },
			} {
				began := time.Now()
				if err := request(); err != nil {
					return taken, 0, err
				}
				if i >= warmUp {
					taken[kind] = append(taken[kind], time.Since(began))
				}
			}
		}
		after, err := processorTime(b.APIServer().PID())
		return taken, after - before, err
	}
	var taken [2][3]timings
	var busy [2]time.Duration
	for i := range 2 * blocks {
		side, back := i%2, func() error { return nil }
		if side == 1 {
			var err error
			if back, err = b.uninstall(ctx); err != nil {
				return err
			}
		}
		took, used, err := block()
		if err != nil {
			return err
		}
		busy[side] += used
		for kind := range took {
			taken[side][kind] = append(taken[side][kind], took[kind]...)
		}
		if err := back(); err != nil {
			return err
		}
	}
	fmt.Fprintln(b.table, "\tcreate: p50 ms\tp99 ms\tupdate: p50 ms\tp99 ms\tdelete: p50 ms\tp99 ms\tCPU µs\t")
	for side, name := range []string{"with termguard", "without"} {
		fmt.Fprint(b.table, name)
		for _, t := range taken[side] {
			fmt.Fprintf(b.table, "\t%.2f\t%.2f", ms(t.at(0.5)), ms(t.at(0.99)))
		}
		fmt.Fprintf(b.table, "\t%d\t\n", busy[side].Microseconds()/int64(len(taken[side][0])))
	}
	b.table.Flush()
	return nil
}

func (b *bench) size(ctx context.Context, objects int) error {
	fmt.Printf("\nCluster with %d ConfigMaps in 100 namespaces, 1 %% with a finalizer\n", objects)
	if err := b.fill(ctx, objects); err != nil {
		return fmt.Errorf("fill the cluster: %w", err)
	}
	mc, err := metadata.NewForConfig(b.Config())
	if err != nil {
		return err
	}
	began := time.Now()
	options := metav1.ListOptions{Limit: 500}
	for listed := false; !listed; {
		list, err := mc.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).List(ctx, options)
		if err != nil {
			return err
		}
		options.Continue = list.Continue
		listed = list.Continue == ""
	}
	floor := time.Since(began)
	ready, err := b.restart(ctx)
	if err != nil {
		return err
	}
	rss, err := memoryMiB(b.Termguard.PID(), "VmRSS")
	if err != nil {
		return err
	}
	fmt.Fprintln(b.table, "listing alone s\tready after s\tbeyond s\tRSS MiB\t")
	fmt.Fprintf(b.table, "%.2f\t%.2f\t%.2f\t%.0f\t\n", floor.Seconds(), ready.Seconds(), (ready - floor).Seconds(), rss)
	b.table.Flush()
	return nil
}

func (b *bench) fill(ctx context.Context, objects int) error {
	const namespaces = 100
	for i := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fill-" + strconv.Itoa(i)}}
		if _, err := b.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return each(ctx, objects, func(ctx context.Context, i int) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c" + strconv.Itoa(i)}}
		if i%100 == 0 {
			cm.Finalizers = []string{"bench.example.com/f"}
		}
		_, err := b.client.CoreV1().ConfigMaps("fill-"+strconv.Itoa(i%namespaces)).Create(ctx, cm, metav1.CreateOptions{})
		return err
	})
}

// VmRSS is resident memory, RssAnon without files (proc(5), status).
func memoryMiB(pid int, field string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s for process %d", field, pid)
}
