package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

//go:embed world.yaml
var world string

type stage struct {
	*scenario.Guarded
	client   kubernetes.Interface
	binary   string
	address  string
	service  *lab.Replicas
	replicas [2]*lab.Process
}

var pods = [2]string{"termguard-6d9c7b5f84-2xk7p", "termguard-6d9c7b5f84-w9tqz"}

func open(ctx context.Context) (*stage, error) {
	g, err := scenario.Guard(ctx, lab.Options{})
	if err != nil {
		return nil, err
	}
	s := &stage{Guarded: g}
	if err := s.prepare(ctx); err != nil {
		g.Stop()
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return s, nil
}

func (s *stage) prepare(ctx context.Context) (err error) {
	if s.client, err = s.Client(); err != nil {
		return err
	}
	if s.binary, err = scenario.Binary(); err != nil {
		return err
	}
	if s.address, err = s.ClusterIP(ctx, home, "termguard"); err != nil {
		return err
	}
	if err := s.Termguard.Stop(); err != nil {
		return err
	}
	if s.service, err = lab.Balance(ctx, s.address+":443"); err != nil {
		return err
	}
	for n := range s.replicas {
		s.service.Add(lab.Replica{Address: s.at(10000, n), Readiness: "http://" + s.at(11000, n) + "/readyz"})
		if err := s.replica(ctx, n); err != nil {
			return err
		}
	}
	node, err := s.StartNode(ctx, "worker-7")
	if err != nil {
		return err
	}
	if err := s.AwaitApplied(ctx, 30*time.Second, world); err != nil {
		return err
	}
	if r, err := s.Kubectl(ctx, "wait", "pod/cache-0", "-n", "shop", "--for=condition=Ready", "--timeout=60s"); err != nil || r.Code != 0 {
		return errors.Join(err, fmt.Errorf("wait for pod/cache-0: %s", r.Stderr))
	}
	node.Kill()
	return node.AwaitReady(ctx, corev1.ConditionUnknown)
}

// at returns the address of a replica: all of the Service's address is loopback.
func (s *stage) at(base, n int) string {
	return net.JoinHostPort(s.address, strconv.Itoa(base+n))
}

func (s *stage) replica(ctx context.Context, n int) error {
	config, err := s.MountConfig(ctx)
	if err != nil {
		return err
	}
	s.replicas[n], err = s.RunDeployment(ctx, home, "termguard", "termguard", s.binary, "--config", config, "--listen", s.at(10000, n), "--health-listen", s.at(11000, n))
	if err != nil {
		return err
	}
	ready := lab.Replica{Readiness: "http://" + s.at(11000, n) + "/readyz"}
	return s.Await(ctx, time.Minute, "a replica to be ready", func(ctx context.Context) (bool, error) { return ready.Ready(ctx), nil })
}

func (s *stage) targets() []any {
	var static []any
	for n, pod := range pods {
		static = append(static, map[string]any{"targets": []string{s.at(11000, n)}, "labels": map[string]string{"namespace": home, "pod": pod}})
	}
	config := s.Config()
	return []any{
		map[string]any{"job_name": "termguard", "static_configs": static},
		map[string]any{
			"job_name": "apiserver", "scheme": "https",
			"tls_config":             map[string]string{"ca": string(config.CAData)},
			"authorization":          map[string]string{"credentials": config.BearerToken},
			"static_configs":         []any{map[string]any{"targets": []string{strings.TrimPrefix(config.Host, "https://")}}},
			"metric_relabel_configs": []any{map[string]any{"source_labels": []string{"__name__"}, "regex": "apiserver_admission_webhook_.*", "action": "keep"}},
		},
	}
}

// play has two accidents: one replica dies, early because it loses records of deletions that hang for ten
// minutes, and both freeze.
func (s *stage) play(ctx context.Context, length time.Duration) error {
	began := time.Now()
	accidents := []struct {
		at time.Duration
		do func(context.Context) error
	}{
		{length / 10, func(context.Context) error { s.replicas[1].Kill(); return nil }},
		{length/10 + 30*time.Second, func(ctx context.Context) error { return s.replica(ctx, 1) }},
		{length * 8 / 10, func(context.Context) error { return s.signal(syscall.SIGSTOP) }},
		{length*8/10 + 8*time.Second, func(context.Context) error { return s.signal(syscall.SIGCONT) }},
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for turn := 0; time.Since(began) < length; turn++ {
		if len(accidents) > 0 && time.Since(began) > accidents[0].at {
			if err := accidents[0].do(ctx); err != nil {
				return err
			}
			accidents = accidents[1:]
		}
		for _, h := range habits {
			if turn%h.every != h.every-1 {
				continue
			}
			if err := h.do(ctx, s, turn/h.every); err != nil {
				return fmt.Errorf("turn %d: %w", turn, err)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *stage) signal(what os.Signal) error {
	return errors.Join(s.replicas[0].Signal(what), s.replicas[1].Signal(what))
}

// habits are users' actions, each every so many turns. An object exists a turn before its deletion: termguard
// must have seen it.
var habits = []struct {
	every int
	do    func(ctx context.Context, s *stage, n int) error
}{
	{1, func(ctx context.Context, s *stage, n int) error { // jobs end, in waves
		for i := range 2 + int(1.9*math.Sin(float64(n)/40)) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%d-%d", n, i)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			if _, err := s.client.CoreV1().Pods("jobs").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return err
			}
			if err := s.client.CoreV1().Pods("jobs").Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	}},
	{5, func(ctx context.Context, s *stage, n int) error { // previews come and go
		return s.replace(ctx, "namespace preview-%d", n, "{apiVersion: v1, kind: Namespace, metadata: {name: preview-%d}}")
	}},
	{11, func(ctx context.Context, s *stage, n int) error { // a mesh without its operator, cleaned up by hand now and then
		if n%3 == 0 && n > 12 {
			if r, err := s.Kubectl(ctx, "patch", "kiali", "kiali", "-n", fmt.Sprintf("mesh-%d", n-12), "--type=merge", `-p={"metadata":{"finalizers":null}}`); err != nil || r.Code != 0 {
				return errors.Join(err, fmt.Errorf("help: %s", r.Stderr))
			}
		}
		return s.replace(ctx, "namespace mesh-%d", n, "{apiVersion: v1, kind: Namespace, metadata: {name: mesh-%d}}\n---\n{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: kiali, namespace: mesh-%d, finalizers: [kiali.io/finalizer]}}")
	}},
	{17, func(ctx context.Context, s *stage, n int) error { // pods of a dead node
		return s.replace(ctx, "pod cart-%d -n shop", n, "{apiVersion: v1, kind: Pod, metadata: {name: cart-%d, namespace: shop}, spec: {nodeName: worker-7, containers: [{name: c, image: i}]}}")
	}},
	{23, func(ctx context.Context, s *stage, n int) error { // a denied attempt
		_, err := s.Kubectl(ctx, "delete", "namespace", "guarded", "--wait=false")
		return err
	}},
	{29, func(ctx context.Context, s *stage, n int) error { // only recorded
		return s.replace(ctx, "namespace recorded-%d", n, "{apiVersion: v1, kind: Namespace, metadata: {name: recorded-%d, labels: {termguard.dev/enforce: dryrun}, finalizers: [finalizers.kubesphere.io/namespaces]}}")
	}},
	{31, func(ctx context.Context, s *stage, n int) error { // a drain that a budget refuses
		_, err := s.Kubectl(ctx, "drain", "steady", "--pod-selector=app=cache", "--force", "--ignore-daemonsets", "--timeout=1s")
		return err
	}},
	{97, func(ctx context.Context, s *stage, n int) error { // an override by annotation
		return s.replace(ctx, "namespace given-up-%d", n, "{apiVersion: v1, kind: Namespace, metadata: {name: given-up-%d, labels: {termguard.dev/enforce: deny}, annotations: {termguard.dev/allow-hang: the cluster goes on Friday}, finalizers: [finalizers.kubesphere.io/namespaces]}}")
	}},
}

func (s *stage) replace(ctx context.Context, target string, n int, manifest string) error {
	if err := s.Apply(ctx, strings.ReplaceAll(manifest, "%d", strconv.Itoa(n))); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	words := strings.Fields(strings.ReplaceAll(target, "%d", strconv.Itoa(n-1)))
	if r, err := s.Kubectl(ctx, append([]string{"delete", "--wait=false"}, words...)...); err != nil || r.Code != 0 {
		return errors.Join(err, fmt.Errorf("delete %s: %s", words, r.Stderr))
	}
	return nil
}
