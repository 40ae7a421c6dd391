package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// software is what other projects publish, by the name of its folder in
// test/components: a module that pins the version, and a kustomization of the
// project's own manifests as it is installed with.
var software = map[string]module{
	"metrics-server": {
		version:  "v0.9.0",
		programs: []program{{"metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server"}},
		files:    []published{{"sigs.k8s.io/metrics-server", []string{"manifests/base/*.yaml"}}},
	},
	"snapshot-controller": {
		version:  "v8.7.0",
		programs: []program{{"snapshot-controller", "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"}},
		files: []published{
			{"github.com/kubernetes-csi/external-snapshotter/v8", []string{"deploy/kubernetes/snapshot-controller/*.yaml"}},
			{"github.com/kubernetes-csi/external-snapshotter/client/v8", []string{"config/crd/*.yaml"}},
		},
	},
	"cert-manager": {
		version:  "v1.21.2",
		programs: []program{{"cert-manager", "."}},
		sources:  []string{"main.go"},
		files:    []published{{"github.com/cert-manager/cert-manager", []string{"deploy/crds/*.yaml"}}},
	},
	"external-attacher": {
		version: "v4.13.0",
		programs: []program{
			{"csi-attacher", "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher"},
			{"mock-driver", "./mock-driver"},
		},
		sources: []string{filepath.Join("mock-driver", "main.go")},
		files:   []published{{"github.com/kubernetes-csi/external-attacher/v4", []string{"deploy/kubernetes/*.yaml"}}},
	},
	"cluster-api": {
		version:  "v1.13.3",
		programs: []program{{"cluster-api", "sigs.k8s.io/cluster-api"}},
		files: []published{{"sigs.k8s.io/cluster-api", []string{
			"config/crd/bases/*.yaml", "config/default/*.yaml", "config/manager/*.yaml", "config/rbac/*.yaml", "config/webhook/*.yaml"}}},
	},
}

// publishedFlags are those that published programs are built with.
var publishedFlags = []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w"}

// Software are the names of the published components.
func Software() []string { return slices.Sorted(maps.Keys(software)) }

// BuildSoftware does as Build for a component that another project publishes.
// Its folder holds the programs, and the project's manifests.
func BuildSoftware(ctx context.Context, component string, options Options) (string, error) {
	m, ok := software[component]
	if !ok {
		return "", fmt.Errorf("no published component is called %q: see test/components", component)
	}
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	m.name, m.flags = component, publishedFlags
	m.about = component + " " + m.version + " from its Go module: once, 1 to 4 minutes on two cores"
	return m.make(ctx, options.Progress)
}

// Install applies what a published component is installed with: its project's
// manifests, by the kustomization in test/components.
func (l *Lab) Install(ctx context.Context, component string) error {
	built, err := BuildSoftware(ctx, component, l.options)
	if err != nil {
		return err
	}
	source, err := module{name: component}.source()
	if err != nil {
		return err
	}
	// A kustomization sees only what is below it.
	dir, err := os.MkdirTemp(l.dir, component+"-")
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(built, "manifests"))); err != nil {
		return err
	}
	ours, err := filepath.Glob(filepath.Join(source, "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range ours {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600); err != nil {
			return err
		}
	}
	// A custom resource is not known before its definition is established.
	var said string
	err = l.Await(ctx, 30*time.Second, "the manifests of "+component+" to be accepted", func(ctx context.Context) (bool, error) {
		r, err := l.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", dir)
		said = cmp.Or(r.Stderr, said)
		return r.Code == 0, err
	})
	if err != nil {
		return fmt.Errorf("kubectl apply -k: %s: %w", strings.TrimSpace(said), err)
	}
	return nil
}

// A Program is what a pod of a Deployment would run, as a process of this
// machine: a published binary, with the rights of the pod's service account. It
// starts when a pod of the Deployment is ready and stops when none is, as often
// as that happens, until its context ends.
type Program struct {
	Namespace, Deployment string
	lab                   *Lab
	name, binary          string
	args                  []string

	mu      sync.Mutex
	process *Process
	cancel  context.CancelFunc
	done    chan struct{} // closed once it runs no more
}

// Run runs a program of a published component for a Deployment, and returns once
// it has started. The arguments are those of the pod's container of the binary's
// name, or of the first where none has it, then args. There, $IP is the ClusterIP
// of a Service of the namespace, $CERT and $KEY are files with a certificate for
// it, $KUBECONFIG is a kubeconfig for the service account, $DIR is a folder for
// the Deployment, and $PORT is a free port for a program that listens on all
// addresses. One that ran for the same Deployment before must end first.
func (l *Lab) Run(ctx context.Context, component, binary, namespace, deployment, service string, args ...string) (*Program, error) {
	dir, err := BuildSoftware(ctx, component, l.options)
	if err != nil {
		return nil, err
	}
	p := &Program{Namespace: namespace, Deployment: deployment, lab: l, name: namespace + "-" + deployment + "-" + binary, binary: filepath.Join(dir, binary), done: make(chan struct{})}
	if service != "" {
		address, err := l.ClusterIP(ctx, namespace, service)
		if err != nil {
			return nil, err
		}
		if err := l.writePair(l.clients, p.name, service, nil, serviceNames(namespace, service), address); err != nil {
			return nil, err
		}
		file := filepath.Join(l.dir, p.name)
		args = replace(args, "$IP", address, "$CERT", file+".crt", "$KEY", file+".key")
	}
	scratch := filepath.Join(l.dir, namespace+"-"+deployment)
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p.args = replace(args, "$DIR", scratch, "$PORT", strconv.Itoa(port))
	l.mu.Lock()
	before := l.programs[p.name]
	l.mu.Unlock()
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	err = l.Await(ctx, 3*time.Minute, "a pod of Deployment "+namespace+"/"+deployment+" to run", func(ctx context.Context) (bool, error) {
		err := p.sync(ctx)
		return p.process != nil, err
	})
	if err != nil {
		return nil, err
	}
	ctx, p.cancel = context.WithCancel(ctx)
	l.mu.Lock()
	if l.programs == nil {
		l.programs = map[string]*Program{}
	}
	l.programs[p.name] = p
	l.mu.Unlock()
	go func() {
		defer close(p.done)
		defer p.cancel()
		every(ctx, 100*time.Millisecond, func() {
			_ = p.sync(ctx) // the next round tries again
		})
		p.stop()
	}()
	return p, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func replace(args []string, pairs ...string) []string {
	replacer := strings.NewReplacer(pairs...)
	args = slices.Clone(args)
	for i := range args {
		args[i] = replacer.Replace(args[i])
	}
	return args
}

// Settled says whether the program runs, once that is as the Deployment's pods
// have it.
func (p *Program) Settled(ctx context.Context) (running bool, err error) {
	if err := p.sync(ctx); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil, nil
}

func (p *Program) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.end()
	}
}

// end stops the process; mu is held.
func (p *Program) end() {
	_ = p.process.Stop() // it is gone either way
	fmt.Fprintf(p.lab.options.Progress, "lab: %s of Deployment %s/%s stopped, process %d\n", filepath.Base(p.binary), p.Namespace, p.Deployment, p.process.PID())
	p.process = nil
}

// sync starts or stops the process, as the Deployment's pods have it.
func (p *Program) sync(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod, err := p.pod(ctx)
	if err != nil {
		return err
	}
	if p.process != nil {
		select {
		case <-p.process.Exited(): // as a kubelet would, it is started again: who loses a lease ends
			p.end()
		default:
		}
	}
	switch {
	case pod == nil && p.process != nil:
		p.end()
	case pod != nil && p.process == nil:
		config, err := p.lab.ServiceAccountConfig(ctx, p.Namespace, pod.Spec.ServiceAccountName)
		if err != nil {
			return err
		}
		kubeconfig, err := p.lab.WriteKubeconfig(p.name, config)
		if err != nil {
			return err
		}
		container := max(0, slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == filepath.Base(p.binary) }))
		args := slices.Concat(pod.Spec.Containers[container].Args, replace(p.args, "$KUBECONFIG", kubeconfig))
		if p.process, err = p.lab.start(p.name, p.binary, args...); err != nil {
			return err
		}
		p.process.mayEnd = true
		p.lab.keep(p.process)
		fmt.Fprintf(p.lab.options.Progress, "lab: %s of Deployment %s/%s runs, process %d, with the rights of service account %s\n",
			filepath.Base(p.binary), p.Namespace, p.Deployment, p.process.PID(), pod.Spec.ServiceAccountName)
	}
	return nil
}

// pod is a ready pod of the Deployment, nil where there is none.
func (p *Program) pod(ctx context.Context) (*corev1.Pod, error) {
	client, err := p.lab.Client()
	if err != nil {
		return nil, err
	}
	deployment, err := client.AppsV1().Deployments(p.Namespace).Get(ctx, p.Deployment, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector)})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if ready && pod.DeletionTimestamp == nil {
			return &pod, nil
		}
	}
	return nil, nil
}
