package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// software is by folder in test/components, with its version and a kustomization of the project's manifests.
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
	"csi-snapshotter": {
		version: "v8.7.0",
		long:    true,
		programs: []program{
			{"csi-snapshotter", "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter"},
			{"mock-driver", "github.com/termguard/termguard/test/components/external-attacher/mock-driver"},
		},
		sources: []string{filepath.Join("..", "external-attacher", "mock-driver", "main.go")},
		files:   []published{{"github.com/kubernetes-csi/external-snapshotter/v8", []string{"deploy/kubernetes/csi-snapshotter/*.yaml"}}},
	},
	"external-provisioner": {
		version: "v6.4.0",
		long:    true,
		programs: []program{
			{"csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner"},
			{"mock-driver", "github.com/termguard/termguard/test/components/external-attacher/mock-driver"},
		},
		sources: []string{filepath.Join("..", "external-attacher", "mock-driver", "main.go")},
		files:   []published{{"github.com/kubernetes-csi/external-provisioner/v6", []string{"deploy/kubernetes/*.yaml"}}},
	},
	"kro": {
		version:  "v0.9.4",
		long:     true,
		programs: []program{{"kro", "github.com/kubernetes-sigs/kro/cmd/controller"}},
		files:    []published{{"github.com/kubernetes-sigs/kro", []string{"helm/*.yaml", "helm/crds/*.yaml", "helm/templates/*"}}},
		chart:    &chart{path: "helm", release: "kro", namespace: "kro-system", values: []string{"image.tag=v0.9.4"}},
	},
	"kuberay": {
		version:  "v1.5.0",
		long:     true,
		programs: []program{{"kuberay-operator", "github.com/ray-project/kuberay/ray-operator"}},
		files: []published{{"github.com/ray-project/kuberay/ray-operator", []string{
			"config/default/*.yaml", "config/crd/*.yaml", "config/crd/bases/*.yaml", "config/rbac/*.yaml", "config/manager/*.yaml"}}},
	},
	"flux-source-controller": {
		version:  "v1.8.5",
		long:     true,
		programs: []program{{"source-controller", "github.com/fluxcd/source-controller"}},
		files: []published{{"github.com/fluxcd/source-controller", []string{
			"config/default/*.yaml", "config/crd/*.yaml", "config/crd/bases/*.yaml", "config/rbac/*.yaml", "config/manager/*.yaml"}}},
	},
	"kueue": {
		version:  "v0.15.0",
		long:     true,
		programs: []program{{"kueue", "sigs.k8s.io/kueue/cmd/kueue"}},
		files: []published{{"sigs.k8s.io/kueue", []string{
			"config/default/*.yaml", "config/components/crd/*.yaml", "config/components/crd/bases/*.yaml", "config/components/crd/patches/*.yaml",
			"config/components/rbac/*.yaml", "config/components/manager/*.yaml", "config/components/internalcert/*.yaml",
			"config/components/visibility/*.yaml", "config/components/webhook/*.yaml"}}},
	},
	"flux-kustomize-controller": {
		version:  "v1.9.6",
		long:     true,
		programs: []program{{"kustomize-controller", "github.com/fluxcd/kustomize-controller"}},
		files: []published{{"github.com/fluxcd/kustomize-controller", []string{
			"config/default/namespace.yaml", "config/crd/*.yaml", "config/crd/bases/*.yaml", "config/rbac/*.yaml", "config/manager/*.yaml"}}},
	},
	"keda": {
		version:  "v2.18.1",
		long:     true,
		programs: []program{{"keda", "github.com/kedacore/keda/v2/cmd/operator"}},
		files: []published{{"github.com/kedacore/keda/v2", []string{
			"config/crd/*.yaml", "config/crd/bases/*.yaml", "config/crd/patches/*.yaml", "config/general/*.yaml",
			"config/rbac/*.yaml", "config/manager/*.yaml", "config/service_account/*.yaml"}}},
	},
	"cluster-api-control-plane": {
		version:  "v1.13.3",
		long:     true,
		programs: []program{{"kubeadm-control-plane", "sigs.k8s.io/cluster-api/controlplane/kubeadm"}},
		files: []published{{"sigs.k8s.io/cluster-api", []string{
			"controlplane/kubeadm/config/crd/bases/*.yaml", "controlplane/kubeadm/config/default/*.yaml", "controlplane/kubeadm/config/manager/*.yaml",
			"controlplane/kubeadm/config/rbac/*.yaml", "controlplane/kubeadm/config/webhook/*.yaml", "bootstrap/kubeadm/config/crd/bases/*.yaml"}}},
	},
	"karpenter": {
		version:  "v1.14.1",
		long:     true,
		programs: []program{{"karpenter", "sigs.k8s.io/karpenter/kwok"}},
		files: []published{{"sigs.k8s.io/karpenter", []string{
			"kwok/charts/*.yaml", "kwok/charts/crds/*.yaml", "kwok/charts/templates/*", "kwok/apis/crds/*.yaml"}}},
		chart: &chart{path: "kwok/charts", release: "karpenter", namespace: "karpenter", values: []string{
			"controller.image.repository=example.test/karpenter", "controller.image.tag=v1.14.1", "settings.featureGates.staticCapacity=false", "settings.featureGates.capacityBuffer=false"}},
	},
	"cloud-controller-manager": {
		version:  "v0.36.3",
		long:     true,
		programs: []program{{"cloud-controller-manager", "."}},
		sources:  []string{"main.go"},
	},
	"cluster-api": {
		version:  "v1.13.3",
		programs: []program{{"cluster-api", "sigs.k8s.io/cluster-api"}},
		files: []published{{"sigs.k8s.io/cluster-api", []string{
			"config/crd/bases/*.yaml", "config/default/*.yaml", "config/manager/*.yaml", "config/rbac/*.yaml", "config/webhook/*.yaml"}}},
	},
}

var publishedFlags = []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w"}

// Software leaves out the long suite's.
func Software() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(software)), func(name string) bool { return software[name].long })
}

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

// Install applies a component's kustomization.
func (l *Lab) Install(ctx context.Context, component string) error {
	built, err := BuildSoftware(ctx, component, l.options)
	if err != nil {
		return err
	}
	source, err := module{name: component}.source()
	if err != nil {
		return err
	}
	// A kustomization reads only files below it.
	dir, err := os.MkdirTemp(l.dir, component+"-")
	if err != nil {
		return err
	}
	if len(software[component].files) > 0 {
		if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(built, "manifests"))); err != nil {
			return err
		}
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
	if c := software[component].chart; c != nil {
		if err := l.render(ctx, *c, dir); err != nil {
			return err
		}
	}
	r, err := l.Kubectl(ctx, "kustomize", dir)
	if err != nil || r.Code != 0 {
		return fmt.Errorf("kubectl kustomize: %w: %s", err, strings.TrimSpace(r.Stderr))
	}
	if err := l.AwaitApplied(ctx, 3*time.Minute, r.Stdout); err != nil {
		return fmt.Errorf("install %s: %w", component, err)
	}
	return nil
}

type chart struct {
	path, release, namespace string
	values                   []string // as for helm --set
}

func (l *Lab) render(ctx context.Context, c chart, dir string) error {
	args := []string{"template", c.release, filepath.Join(dir, "manifests", c.path), "--namespace", c.namespace, "--include-crds", "--kube-version", Version}
	for _, value := range c.values {
		args = append(args, "--set", value)
	}
	r, err := l.Helm(ctx, args...)
	if err == nil && r.Code != 0 {
		err = errors.New(strings.TrimSpace(r.Stderr))
	}
	if err != nil {
		return fmt.Errorf("helm template %s: %w", c.release, err)
	}
	// As by helm install --create-namespace.
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + c.namespace + "}\n---\n"
	return os.WriteFile(filepath.Join(dir, "chart.yaml"), []byte(namespace+r.Stdout), 0o600)
}

// Program is a published binary on this machine, which runs while a Deployment's pod is ready.
type Program struct {
	Namespace, Deployment string
	lab                   *Lab
	name, binary, service string
	args                  []string
	contained             bool
	port                  int // in the arguments, 0 if none

	mu        sync.Mutex
	broken    bool
	process   *Process
	inside    thread // that started it, if contained
	mounted   contents
	unlink    context.CancelFunc // stops forwarding its Service
	shouldRun bool               // because a pod is ready
	changed   signal             // input of sync has changed, or the process has ended
	cancel    context.CancelFunc
	done      chan struct{} // closed once it is stopped for good
}

type Running struct {
	Component, Binary     string
	Namespace, Deployment string
	Service               string
	// Args follow the arguments of the container with the binary's name, or else of the first. $IP is the Service's
	// ClusterIP, $CERT and $KEY are files with a certificate for it, $KUBECONFIG is the service account's,
	// $DIR is the Deployment's folder, and $PORT is free, for programs that listen on all addresses.
	Args []string
	// Contained gives it its token, its pod's mounts, name and environment, and its Service's traffic: see
	// ContainersNeed.
	Contained bool
}

func (l *Lab) Run(ctx context.Context, r Running) (*Program, error) {
	dir, err := BuildSoftware(ctx, r.Component, l.options)
	if err != nil {
		return nil, err
	}
	if needs := ContainersNeed(); r.Contained && needs != "" {
		return nil, fmt.Errorf("a program in a container needs %s", needs)
	}
	p := &Program{
		Namespace: r.Namespace, Deployment: r.Deployment, lab: l, name: r.Namespace + "-" + r.Deployment + "-" + r.Binary,
		binary: filepath.Join(dir, r.Binary), service: r.Service, contained: r.Contained, changed: newSignal(), done: make(chan struct{}),
	}
	args := r.Args
	if r.Service != "" {
		address, err := l.ClusterIP(ctx, r.Namespace, r.Service)
		if err != nil {
			return nil, err
		}
		if err := l.writePair(l.clients, p.name, r.Service, nil, serviceNames(r.Namespace, r.Service), address); err != nil {
			return nil, err
		}
		file := filepath.Join(l.dir, p.name)
		args = replace(args, "$IP", address, "$CERT", file+".crt", "$KEY", file+".key")
	}
	scratch := filepath.Join(l.dir, r.Namespace+"-"+r.Deployment)
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "$PORT") }) {
		p.port = port
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
	err = l.Await(ctx, 3*time.Minute, "a pod of Deployment "+r.Namespace+"/"+r.Deployment+" to run", func(ctx context.Context) (bool, error) {
		err := p.sync(ctx)
		return p.process != nil, err
	})
	if err != nil {
		p.stop()
		return nil, err
	}
	ctx, p.cancel = context.WithCancel(ctx)
	if err := p.follow(ctx); err != nil {
		p.cancel()
		p.stop()
		return nil, err
	}
	l.mu.Lock()
	if l.programs == nil {
		l.programs = map[string]*Program{}
	}
	l.programs[p.name] = p
	l.mu.Unlock()
	go func() {
		defer close(p.done)
		defer p.cancel()
		p.changed.each(ctx, 100*time.Millisecond, func() (done bool) {
			return p.sync(ctx) == nil && !p.waiting()
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

// Settled also reports whether it runs.
func (p *Program) Settled(ctx context.Context) (running bool, err error) {
	if err := p.sync(ctx); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil, nil
}

func (p *Program) follow(ctx context.Context) error {
	if err := p.lab.follow(ctx, p.Namespace, p.Deployment, p.changed); err != nil || !p.contained {
		return err
	}
	for _, mounted := range []string{"configmaps", "secrets"} {
		if _, err := p.lab.informed(ctx, corev1.SchemeGroupVersion.WithResource(mounted), p.Namespace, metav1.ListOptions{}, p.changed.raise); err != nil {
			return err
		}
	}
	return nil
}

func (p *Program) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shouldRun && p.process == nil
}

func (p *Program) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.end()
	}
}

// mu is held.
func (p *Program) end() {
	_ = p.process.Stop() // it has ended either way
	fmt.Fprintf(p.lab.options.Progress, "lab: %s of Deployment %s/%s stopped, process %d\n", filepath.Base(p.binary), p.Namespace, p.Deployment, p.process.PID())
	p.process = nil
	if p.inside != nil {
		close(p.inside)
		p.inside = nil
	}
	if p.unlink != nil {
		p.unlink()
		p.unlink = nil
	}
}

// Break makes the program crash at start.
func (p *Program) Break(broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken = broken; broken && p.process != nil {
		p.end()
	}
	p.changed.raise()
}

func (p *Program) sync(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod, err := p.lab.PodOf(ctx, p.Namespace, p.Deployment)
	if err != nil {
		return err
	}
	if p.process != nil {
		select {
		case <-p.process.Exited(): // restarted as by a kubelet: programs that lose a lease exit
			p.end()
		default:
		}
	}
	p.shouldRun = pod != nil && !p.broken
	switch {
	case pod == nil && p.process != nil:
		p.end()
	case p.shouldRun && p.process == nil:
		if err := p.start(ctx, pod); !apierrors.IsNotFound(err) {
			return err
		}
		// A kubelet would retry without its service account or a volume, too.
	case pod != nil && p.process != nil && p.contained:
		return errors.Join(p.link(ctx), p.remount(ctx, pod, p.container(pod)))
	}
	return nil
}

func (p *Program) container(pod *corev1.Pod) corev1.Container {
	return pod.Spec.Containers[max(0, slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == filepath.Base(p.binary) }))]
}

// mu is held.
func (p *Program) start(ctx context.Context, pod *corev1.Pod) (err error) {
	container := p.container(pod)
	if p.contained {
		var cmd *exec.Cmd
		if cmd, p.inside, err = p.contain(ctx, pod, container); err != nil {
			return err
		}
		p.process, err = p.lab.startOn(p.inside, p.name, cmd, 0)
	} else {
		var config *rest.Config
		if config, err = p.lab.ServiceAccountConfig(ctx, p.Namespace, pod.Spec.ServiceAccountName); err != nil {
			return err
		}
		var kubeconfig string
		if kubeconfig, err = p.lab.WriteKubeconfig(p.name, config); err != nil {
			return err
		}
		cmd := exec.Command(p.binary, slices.Concat(container.Args, replace(p.args, "$KUBECONFIG", kubeconfig))...)
		// Some programs prefer KUBECONFIG, here the administrator's, over their arguments.
		cmd.Env = []string{"KUBECONFIG=" + kubeconfig}
		p.process, err = p.lab.startOn(spawn, p.name, cmd, 0)
	}
	if err != nil {
		return err
	}
	p.process.mayEnd = true
	p.lab.keep(p.process)
	go func(started *Process) {
		<-started.Exited()
		p.changed.raise()
	}(p.process)
	fmt.Fprintf(p.lab.options.Progress, "lab: %s of Deployment %s/%s runs, process %d, with the rights of service account %s\n",
		filepath.Base(p.binary), p.Namespace, p.Deployment, p.process.PID(), pod.Spec.ServiceAccountName)
	return p.link(ctx)
}

// A recreated Service has a new address; mu is held.
func (p *Program) link(ctx context.Context) error {
	if !p.contained || p.service == "" || p.unlink != nil {
		return nil
	}
	forwarding, end := context.WithCancel(context.WithoutCancel(ctx))
	if err := p.forward(forwarding); err != nil {
		end()
		return err
	}
	p.unlink = end
	return nil
}

func (l *Lab) follow(ctx context.Context, namespace, deployment string, changed signal) error {
	_, err := l.informed(ctx, deploymentResource, namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + deployment}, changed.raise)
	if err != nil {
		return err
	}
	_, err = l.informed(ctx, podResource, namespace, metav1.ListOptions{}, changed.raise)
	return err
}

// While waits for a pod; the context ends with it.
func (l *Lab) While(ctx context.Context, namespace, deployment string) (context.Context, error) {
	err := l.Await(ctx, 3*time.Minute, "Deployment "+namespace+"/"+deployment+" to run", func(ctx context.Context) (bool, error) {
		pod, err := l.PodOf(ctx, namespace, deployment)
		return pod != nil, err
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	changed := newSignal()
	if err := l.follow(running, namespace, deployment, changed); err != nil {
		stop()
		return nil, err
	}
	go changed.each(running, 100*time.Millisecond, func() (done bool) {
		pod, err := l.PodOf(running, namespace, deployment)
		if err == nil && pod == nil {
			stop()
		}
		return err == nil
	})
	return running, nil
}

// PodOf returns a ready pod, nil if there is none. Its containers must run: a hollow kubelet reports ready
// too early.
func (l *Lab) PodOf(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	client, err := l.Client()
	if err != nil {
		return nil, err
	}
	deployment, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector)})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		idle := slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running == nil })
		if ready && !idle && pod.DeletionTimestamp == nil {
			return &pod, nil
		}
	}
	return nil, nil
}
