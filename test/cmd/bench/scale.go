package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// pods are among the objects. One in a hundred others has a finalizer, and one in four is a custom resource.
type size struct{ nodes, pods, namespaces, definitions, objects int }

var sizes = []size{
	{20, 500, 100, 50, 5_000},
	{60, 1_500, 300, 150, 15_000},
	{200, 5_000, 1_000, 500, 50_000},
}

const (
	// changesPerSecond is the target.
	changesPerSecond = 500
	// One measurement's length, and the number per side.
	measured, turns = 10 * time.Second, 2
	// Numbers of concurrent requests.
	fillers, changers = 32, 16
)

func scale(ctx context.Context, sizes []size) error {
	rest := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	changing := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(rest, "nodes\tpods\tnamespaces\tdefinitions\tobjects\tready: s\tCPU s\tmemory: MiB\tits own\tconnections\twatches\tAPI server, watched: MiB\tnot watched\t")
	fmt.Fprintln(changing, "objects\tchanges/s\tnot watched\twatches read: KiB/s\tCPU ms/s\tAPI server, watched: CPU ms/s\tnot watched\tdeletes: p50 ms\tp99 ms\tof it the call: ms\tunanswered\tnot reviewed: p50 ms\tp99 ms\t")
	for _, s := range sizes {
		if err := s.measure(ctx, rest, changing); err != nil {
			return fmt.Errorf("%d objects: %w", s.objects, err)
		}
	}
	fmt.Println("\nA cluster with termguard, which has nothing to do")
	rest.Flush()
	fmt.Println("\nWhile objects change")
	return changing.Flush()
}

func (s size) measure(ctx context.Context, rest, changing *tabwriter.Writer) error {
	// The nodes have no kubelets, and must stay ready.
	b, err := start(ctx, lab.Options{NodeGrace: 24 * time.Hour, APIServer: []string{"--profiling=true"}})
	if err != nil {
		return err
	}
	defer b.Stop()
	back, err := b.uninstall(ctx)
	if err != nil {
		return err
	}
	if err := s.fill(ctx, b); err != nil {
		return fmt.Errorf("fill the cluster: %w", err)
	}
	idle, err := b.watched(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := back(); err != nil {
		return err
	}
	ready := time.Since(began)
	reading, err := processorTime(b.Termguard.PID())
	if err != nil {
		return err
	}
	if err := b.awaitIdle(ctx); err != nil {
		return err
	}
	busy, err := b.watched(ctx)
	if err != nil {
		return err
	}
	connections, err := connectionsTo(b.Termguard.PID(), b.Config().Host)
	if err != nil {
		return err
	}
	rss, err := memoryMiB(b.Termguard.PID(), "VmRSS")
	if err != nil {
		return err
	}
	own, err := memoryMiB(b.Termguard.PID(), "RssAnon")
	if err != nil {
		return err
	}
	fmt.Fprintf(rest, "%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%.0f\t%.0f\t%d\t%d\t%.0f\t%.0f\t\n", s.nodes, s.pods, s.namespaces, s.definitions, s.objects,
		ready.Seconds(), reading.Seconds(), rss, own, connections, busy.watches-idle.watches, busy.heapMiB, idle.heapMiB)

	var with, without span
	var calls scenario.Calls
	for range turns {
		before, err := scenario.CallsOf(ctx, b.client, ourWebhook)
		if err != nil {
			return err
		}
		if err := s.change(ctx, b, &with, true); err != nil {
			return err
		}
		after, err := scenario.CallsOf(ctx, b.client, ourWebhook)
		if err != nil {
			return err
		}
		turn := after.Since(before)
		calls = scenario.Calls{N: calls.N + turn.N, FailedOpen: calls.FailedOpen + turn.FailedOpen, Took: calls.Took + turn.Took}
		back, err := b.uninstall(ctx)
		if err != nil {
			return err
		}
		if err := s.change(ctx, b, &without, false); err != nil {
			return err
		}
		if err := back(); err != nil {
			return err
		}
		if err := b.awaitIdle(ctx); err != nil {
			return err
		}
	}
	if calls.N != len(with.deletes) {
		return fmt.Errorf("%d calls of %d deletes", calls.N, len(with.deletes))
	}
	fmt.Fprintf(changing, "%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%d\t%.2f\t%.2f\t\n", s.objects, with.perSecond(float64(with.changes)), without.perSecond(float64(without.changes)),
		with.perSecond(float64(with.read)/1024), with.perSecond(ms(with.termguard)), with.perSecond(ms(with.server)), without.perSecond(ms(without.server)),
		ms(with.deletes.at(0.5)), ms(with.deletes.at(0.99)), ms(calls.Mean()), calls.FailedOpen, ms(without.deletes.at(0.5)), ms(without.deletes.at(0.99)))
	return nil
}

type span struct {
	took              time.Duration
	changes           int
	read              int64 // bytes, by termguard
	termguard, server time.Duration
	deletes           timings // measured during changes, not included in the other figures
}

func (s span) perSecond(n float64) float64 { return n / s.took.Seconds() }

func (s size) change(ctx context.Context, b *bench, to *span, watched bool) error {
	used := func() (termguard, server time.Duration, read int64, err error) {
		if server, err = processorTime(b.APIServer().PID()); err != nil || !watched {
			return 0, server, 0, err
		}
		if termguard, err = processorTime(b.Termguard.PID()); err != nil {
			return 0, 0, 0, err
		}
		read, err = bytesRead(b.Termguard.PID())
		return termguard, server, read, err
	}
	termguard, server, read, err := used()
	if err != nil {
		return err
	}
	began := time.Now()
	changes, err := s.changeUntil(ctx, b, began.Add(measured))
	if err != nil {
		return err
	}
	to.took += time.Since(began)
	to.changes += changes
	termguardAfter, serverAfter, readAfter, err := used()
	if err != nil {
		return err
	}
	to.termguard += termguardAfter - termguard
	to.server += serverAfter - server
	to.read += readAfter - read

	end := time.Now().Add(measured)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := s.changeUntil(ctx, b, end)
		return err
	})
	for i := 0; time.Now().Before(end) && ctx.Err() == nil; i++ {
		began := time.Now()
		if err := b.client.CoreV1().Namespaces().Delete(ctx, s.namespace(i*7919), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return errors.Join(err, group.Wait())
		}
		to.deletes = append(to.deletes, time.Since(began))
		time.Sleep(20 * time.Millisecond)
	}
	return group.Wait()
}

func (s size) namespace(i int) string { return "n" + strconv.Itoa(i%s.namespaces) }

func definition(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: fmt.Sprintf("g%d.example.com", i), Version: "v1", Resource: "things"}
}

func (s size) object(i int) (schema.GroupVersionResource, string) {
	if i%4 == 0 {
		return definition(i / 4 % s.definitions), "o" + strconv.Itoa(i)
	}
	return corev1.SchemeGroupVersion.WithResource("configmaps"), "o" + strconv.Itoa(i)
}

// Half flip the readiness of a pod, the others write an object.
func (s size) changeUntil(ctx context.Context, b *bench, end time.Time) (changes int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(changers)
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	for n := 0; time.Now().Before(end) && ctx.Err() == nil; n++ {
		<-tick.C
		changes++
		group.Go(func() error {
			i, stamp := n*7919, strconv.FormatInt(time.Now().UnixNano(), 10)
			if n%4 < 2 {
				return b.setReady(ctx, s.namespace(i%s.pods), "p"+strconv.Itoa(i%s.pods), n%4 == 0, stamp)
			}
			i %= s.objects - s.pods
			if n%4 == 2 {
				i -= i % 4
			}
			resource, name := s.object(i)
			_, err := b.dynamic.Resource(resource).Namespace(s.namespace(i)).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"changed":"`+stamp+`"}}}`), metav1.PatchOptions{})
			return err
		})
	}
	return changes, group.Wait()
}

func (b *bench) setReady(ctx context.Context, namespace, name string, ready bool, message string) error {
	status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: message}}}
	if ready {
		status.Conditions[0].Status = corev1.ConditionTrue
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = b.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (s size) fill(ctx context.Context, b *bench) error {
	create := func(resource schema.GroupVersionResource, namespace string, o *unstructured.Unstructured) error {
		_, err := b.dynamic.Resource(resource).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
		return err
	}
	definitions := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	for _, step := range []struct {
		n  int
		do func(ctx context.Context, i int) error
	}{
		{s.namespaces, func(ctx context.Context, i int) error {
			_, err := b.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace(i)}}, metav1.CreateOptions{})
			return err
		}},
		{s.nodes, func(ctx context.Context, i int) error {
			_, err := b.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + strconv.Itoa(i)}, Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
			}}, metav1.CreateOptions{})
			return err
		}},
		{s.definitions, func(_ context.Context, i int) error {
			group := definition(i).Group
			return create(definitions, "", &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things." + group},
				"spec": map[string]any{
					"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"},
					"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
				},
			}})
		}},
		{s.definitions, func(ctx context.Context, i int) error { // wait until definitions are served and namespaces have their service accounts
			return b.Await(ctx, 5*time.Minute, "the definitions to be served", func(ctx context.Context) (bool, error) {
				_, err := b.dynamic.Resource(definition(i)).List(ctx, metav1.ListOptions{})
				return err == nil, nil
			})
		}},
		{s.namespaces, func(ctx context.Context, i int) error {
			return b.Await(ctx, 5*time.Minute, "the service accounts", func(ctx context.Context) (bool, error) {
				_, err := b.client.CoreV1().ServiceAccounts(s.namespace(i)).Get(ctx, "default", metav1.GetOptions{})
				return err == nil, nil
			})
		}},
		{s.pods, func(ctx context.Context, i int) error {
			name := "p" + strconv.Itoa(i)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "app"}}, Spec: corev1.PodSpec{
				NodeName: "node-" + strconv.Itoa(i%s.nodes), Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/app:1"}},
			}}
			if _, err := b.client.CoreV1().Pods(s.namespace(i)).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return err
			}
			return b.setReady(ctx, s.namespace(i), name, true, "")
		}},
		{s.objects - s.pods, func(_ context.Context, i int) error {
			resource, name := s.object(i)
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": "ConfigMap", "data": map[string]any{"key": "value"}}}
			if i%4 == 0 {
				o.Object = map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": "Thing"}
			}
			o.SetName(name)
			if i%100 == i/100%2 { // of both kinds
				o.SetFinalizers([]string{"g" + strconv.Itoa(i/4%s.definitions) + ".example.com/finalizer"})
			}
			return create(resource, s.namespace(i), o)
		}},
	} {
		if err := each(ctx, step.n, step.do); err != nil {
			return err
		}
	}
	return nil
}

type watchedServer struct {
	watches int
	heapMiB float64 // in use after a garbage collection
}

func (b *bench) watched(ctx context.Context) (w watchedServer, err error) {
	if err := b.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error(); err != nil {
		return w, fmt.Errorf("have the API server collect its garbage: %w", err)
	}
	metrics, err := scenario.Metrics(ctx, b.client)
	if err != nil {
		return w, err
	}
	for _, m := range metrics["apiserver_longrunning_requests"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "verb" && label.GetValue() == "WATCH" {
				w.watches += int(m.GetGauge().GetValue())
			}
		}
	}
	for _, m := range metrics["go_memstats_heap_alloc_bytes"].GetMetric() {
		w.heapMiB = m.GetGauge().GetValue() / (1 << 20)
	}
	return w, nil
}

// Files and connections count (proc(5), io).
func bytesRead(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "rchar:"); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("no rchar for process %d", pid)
}

// Source: proc(5), fd and net/tcp.
func connectionsTo(pid int, host string) (n int, err error) {
	var address [4]byte
	var port int
	if _, err := fmt.Sscanf(host, "https://%d.%d.%d.%d:%d", &address[0], &address[1], &address[2], &address[3], &port); err != nil {
		return 0, fmt.Errorf("read the address %q: %w", host, err)
	}
	remote := fmt.Sprintf("%02X%02X%02X%02X:%04X", address[3], address[2], address[1], address[0], port)
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(folder)
	if err != nil {
		return 0, err
	}
	own := map[string]bool{} // inodes of its sockets
	for _, file := range files {
		target, _ := os.Readlink(filepath.Join(folder, file.Name())) // it may be closed by now
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		return 0, err
	}
	const established = "01"
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[2] == remote && fields[3] == established && own[fields[9]] {
			n++
		}
	}
	return n, nil
}
