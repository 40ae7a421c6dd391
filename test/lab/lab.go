// Package lab runs a real Kubernetes control plane on this machine, and nodes with the kubelet's code over a
// fake runtime. There is no scheduler: pods must name their node.
//
// A lab's Service network is 127.N.0.0/16, so that a process here can listen on a ClusterIP, and the API
// server really calls webhooks and extension API servers, without kube-proxy.
//
// It needs Linux: all of 127.0.0.0/8 is loopback, and the kernel kills the children of a dead process.
package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

type Options struct {
	// Progress defaults to os.Stderr.
	Progress io.Writer
	// NodeGrace is --node-monitor-grace-period; kubelets renew their lease six times within it. Defaults to
	// 12 s, at least 4 s; Kubernetes takes 50 s.
	NodeGrace time.Duration
	APIServer []string
	// Authorization defaults to Node,RBAC: Node reads ResourceSlices in v1, else the API server is not ready.
	Authorization string
	// Prepare writes into the lab's folder and returns kube-apiserver flags.
	Prepare func(dir string) ([]string, error)
	// Thrifty collects garbage a quarter as often, for up to a GB; benchmarks leave it off.
	Thrifty bool
}

type Lab struct {
	options  Options
	dir, bin string
	network  string // "127.N"
	claim    net.Listener
	clients  *Authority
	front    *Authority
	watchdog io.Closer

	mu                    sync.Mutex
	etcd, server, manager *Process
	processes             []*Process // all others, in starting order
	programs              map[string]*Program
	kernels               atomic.Int64 // number of nodes with their own kernel
	ending                atomic.Bool

	config     *rest.Config
	kubeconfig string
}

// Start takes about 4 s once the components are built. ctx bounds only the start: call Stop, unless this
// process dies.
func Start(ctx context.Context, options Options) (l *Lab, err error) {
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	if options.NodeGrace == 0 {
		options.NodeGrace = 12 * time.Second
	}
	if options.NodeGrace < 4*time.Second {
		return nil, fmt.Errorf("a node grace of %s: a lease lasts whole seconds, so at least 4s", options.NodeGrace)
	}
	bin, err := Build(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	l = &Lab{options: options, bin: bin}
	defer func() {
		if err != nil {
			l.Stop()
			l = nil
		}
	}()
	if l.network, l.claim, err = claimNetwork(); err != nil {
		return l, err
	}
	if l.dir, err = os.MkdirTemp("", "termguard-lab-"); err != nil {
		return l, err
	}
	if l.watchdog, err = watchdog(l.dir); err != nil {
		return l, err
	}
	if err := l.prepare(); err != nil {
		return l, fmt.Errorf("prepare the lab: %w", err)
	}
	if options.Prepare != nil {
		flags, err := options.Prepare(l.dir)
		if err != nil {
			return l, err
		}
		l.options.APIServer = slices.Concat(options.APIServer, flags)
	}
	if err := l.startControlPlane(ctx); err != nil {
		return l, err
	}
	fmt.Fprintf(options.Progress, "lab: control plane %s up after %.1fs, logs in %s\n", Version, time.Since(began).Seconds(), l.dir)
	return l, nil
}

func claimNetwork() (string, net.Listener, error) {
	for n := 96; n < 250; n++ {
		network := fmt.Sprintf("127.%d", n)
		claim, err := net.Listen("tcp", network+".255.254:61443")
		if err != nil {
			continue
		}
		// The API server and webhooks need port 443.
		probe, err := net.Listen("tcp", network+".0.1:443")
		if err == nil {
			probe.Close()
			return network, claim, nil
		}
		claim.Close()
		if errors.Is(err, os.ErrPermission) {
			return "", nil, errors.New("the lab listens on port 443 of loopback addresses, which this user may not: run as root, or first: sudo sysctl -w net.ipv4.ip_unprivileged_port_start=443")
		}
	}
	return "", nil, errors.New("all of 127.96.0.0/16 to 127.249.0.0/16 are in use: stop other labs first")
}

// watchdog removes folder, cgroups and network cards once this process closes the pipe or dies. Processes may
// still write then, and frozen ones must thaw to die.
func watchdog(dir string) (io.Closer, error) {
	const script = `cat >/dev/null
cgroups() { find /sys/fs/cgroup -maxdepth 2 -type d -name "${1##*/}" 2>/dev/null; }
for i in 1 2 3 4 5 6 7 8 9 10; do
	left=
	for c in $(cgroups "$1"); do
		left=1
		find "$c" -name freezer.state -exec sh -c 'echo THAWED >"$0"' {} \;
		find "$c" -name cgroup.freeze -exec sh -c 'echo 0 >"$0"' {} \;
		find "$c" -depth -type d -exec rmdir {} +
	done 2>/dev/null
	for card in "$1"/*.card; do card=${card##*/}; ip link del "${card%.card}"; done 2>/dev/null
	rm -rf -- "$1" 2>/dev/null && [ -z "$left" ] && exit
	sleep 0.5
done`
	cmd := exec.Command("sh", "-c", script, "watchdog", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not to be interrupted by Ctrl-C
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return closer(func() error { in.Close(); return cmd.Wait() }), nil
}

type closer func() error

func (c closer) Close() error { return c() }

// The user's kubeconfig is never in it.
func (l *Lab) environment() []string {
	return []string{
		"KUBECONFIG=" + filepath.Join(l.dir, "admin.kubeconfig"), "KUBECTL_KUBERC=false",
		"HOME=" + l.dir, "TMPDIR=" + l.dir, "PATH=" + l.bin + ":" + os.Getenv("PATH"),
	}
}

func (l *Lab) apiserver() string { return l.network + ".0.1" }

func (l *Lab) prepare() error {
	var err error
	if l.clients, err = NewAuthority("termguard-lab"); err != nil {
		return err
	}
	if l.front, err = NewAuthority("termguard-lab-front-proxy"); err != nil {
		return err
	}
	if _, err := l.write("ca.crt", l.clients.PEM()); err != nil {
		return err
	}
	if _, err := l.write("front-ca.crt", l.front.PEM()); err != nil {
		return err
	}
	hosts := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if err := l.writePair(l.clients, "apiserver", "kube-apiserver", nil, hosts, l.apiserver(), "127.0.0.1"); err != nil {
		return err
	}
	if err := l.writePair(l.front, "front-proxy", "front-proxy", nil, nil); err != nil {
		return err
	}
	if err := l.writePair(l.clients, "service-account", "service-account", nil, nil); err != nil {
		return err
	}
	token := rand.Text()
	if _, err := l.write("tokens.csv", fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token)); err != nil {
		return err
	}
	l.config = &rest.Config{
		Host: "https://" + l.apiserver() + ":443", QPS: -1, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: l.clients.PEM()},
		WarningHandler: rest.NoWarnings{}, // retries of controllers would fill the log
	}
	if l.kubeconfig, err = l.WriteKubeconfig("admin", l.config); err != nil {
		return err
	}
	manager, err := l.ConfigFor("system:kube-controller-manager")
	if err != nil {
		return err
	}
	_, err = l.WriteKubeconfig("controller-manager", manager)
	return err
}

// A Service seldom gets it: ClusterIPs are random in the whole network.
func (l *Lab) etcdURL() string { return "http://" + l.network + ".255.1:2379" }

func (l *Lab) startControlPlane(ctx context.Context) (err error) {
	file := func(name string) string { return filepath.Join(l.dir, name) }
	peer := "http://" + l.network + ".255.1:2380"
	if l.etcd, err = l.startControl("etcd", "--data-dir", file("etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", l.etcdURL(), "--advertise-client-urls", l.etcdURL(), "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer); err != nil {
		return err
	}
	if err := l.startAPIServer(ctx); err != nil {
		return err
	}
	if l.manager, err = l.startControl("kube-controller-manager",
		"--kubeconfig", file("controller-manager.kubeconfig"),
		"--use-service-account-credentials=true", "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file", file("service-account.key"), "--root-ca-file", file("ca.crt"),
		"--service-cluster-ip-range", l.network+".0.0/16",
		"--node-monitor-period=1s", "--node-monitor-grace-period", l.options.NodeGrace.String(),
		"--concurrent-namespace-syncs=50", "--kube-api-qps=200", "--kube-api-burst=400",
	); err != nil {
		return err
	}
	client, err := l.Client()
	if err != nil {
		return err
	}
	return l.Await(ctx, 60*time.Second, "the controller-manager to make the default service account", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

func (l *Lab) startControl(name string, args ...string) (*Process, error) {
	cmd := exec.Command(filepath.Join(l.bin, name), args...)
	if l.options.Thrifty {
		cmd.Env = []string{"GOGC=400", "GOMEMLIMIT=1GiB"}
	}
	return l.startOn(spawn, name, cmd, 0)
}

func (l *Lab) startAPIServer(ctx context.Context) error {
	file := func(name string) string { return filepath.Join(l.dir, name) }
	audit, err := l.auditFlags()
	if err != nil {
		return err
	}
	server, err := l.startControl("kube-apiserver", slices.Concat([]string{
		"--etcd-servers", l.etcdURL(),
		"--bind-address", l.apiserver(), "--secure-port", "443",
		// The kubernetes Service's ClusterIP is the API server itself.
		"--advertise-address", "192.0.2.1", "--endpoint-reconciler-type", "none",
		"--tls-cert-file", file("apiserver.crt"), "--tls-private-key-file", file("apiserver.key"),
		"--client-ca-file", file("ca.crt"), "--token-auth-file", file("tokens.csv"),
		"--authorization-mode", cmp.Or(l.options.Authorization, "Node,RBAC"),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", file("service-account.key"), "--service-account-signing-key-file", file("service-account.key"),
		"--service-cluster-ip-range", l.network + ".0.0/16",
		"--enable-aggregator-routing=false",
		"--requestheader-client-ca-file", file("front-ca.crt"), "--requestheader-allowed-names", "front-proxy",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", file("front-proxy.crt"), "--proxy-client-key-file", file("front-proxy.key"),
		"--allow-privileged", "--profiling=false",
	}, audit, l.options.APIServer)...)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	return l.waitReady(ctx)
}

// RestartAPIServer keeps the address.
func (l *Lab) RestartAPIServer(ctx context.Context) error {
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	if server != nil {
		server.Kill()
	}
	return l.startAPIServer(ctx)
}

func (l *Lab) Etcd() *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.etcd
}

func (l *Lab) APIServer() *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.server
}

func (l *Lab) waitReady(ctx context.Context) error {
	transport, err := rest.TransportFor(l.config)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, Timeout: 2 * time.Second}
	return l.Await(ctx, 3*time.Minute, "the API server to be ready", func(context.Context) (bool, error) {
		response, err := client.Get(l.config.Host + "/readyz")
		if err != nil {
			return false, nil
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
}

// Await polls a condition. The last output of the lab's processes is in the error if they exit by themselves
// or the condition fails; it is a context.DeadlineExceeded only after the limit.
func (l *Lab) Await(ctx context.Context, limit time.Duration, what string, condition wait.ConditionWithContextFunc) error {
	// Many conditions run a command, up to half a second of CPU time, and dozens wait at once.
	var took time.Duration
	growing := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 100, Cap: time.Second}.DelayFunc()
	pause := wait.DelayFunc(func() time.Duration { return max(growing(), min(4*took, 5*time.Second)) })
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := pause.Until(limited, true, true, func(ctx context.Context) (bool, error) {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		for _, p := range l.running() {
			if err := p.failed(); err != nil {
				return false, err
			}
		}
		return condition(ctx)
	})
	if err == nil {
		return nil
	}
	var logs strings.Builder
	for _, p := range l.running() {
		fmt.Fprintf(&logs, "\n--- %s\n%s", p.name, tail(p.Log(), 15))
	}
	return fmt.Errorf("wait for %s: %w%s", what, err, logs.String())
}

func (l *Lab) running() []*Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*Process
	for _, p := range []*Process{l.etcd, l.server, l.manager} {
		if p != nil {
			all = append(all, p)
		}
	}
	return append(all, l.processes...)
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// StartProcess runs a program as the administrator, with its output in NAME.log. If it exits by itself, Await
// fails.
func (l *Lab) StartProcess(name, program string, args ...string) (*Process, error) {
	p, err := l.start(name, program, args...)
	if err != nil {
		return nil, err
	}
	return l.keep(p), nil
}

func (l *Lab) keep(p *Process) *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = append(l.processes, p)
	return p
}

// Forget makes a process's exit no failure; Stop leaves it alone.
func (l *Lab) Forget(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, part := range []**Process{&l.etcd, &l.server, &l.manager} {
		if *part == p {
			*part = nil
		}
	}
	l.processes = slices.DeleteFunc(l.processes, func(other *Process) bool { return other == p })
}

// Stop ends the lab in reverse order. Processes on a real node end by themselves, to release mounts; all
// others are killed.
func (l *Lab) Stop() {
	l.ending.Store(true)
	thaw(filepath.Base(l.dir))
	l.mu.Lock()
	programs := l.programs
	l.programs = nil
	l.mu.Unlock()
	for _, p := range programs {
		p.cancel()
		<-p.done
	}
	for _, p := range slices.Backward(l.running()) {
		if err := p.Stop(); err != nil {
			fmt.Fprintln(l.options.Progress, "lab:", err)
		}
	}
	if l.claim != nil {
		l.claim.Close()
	}
	if l.watchdog != nil {
		l.watchdog.Close() // removes the folder
	}
}

// Dir has each process's log.
func (l *Lab) Dir() string { return l.dir }

// Bin has the lab's kubectl.
func (l *Lab) Bin() string { return l.bin }

func (l *Lab) Config() *rest.Config { return rest.CopyConfig(l.config) }

func (l *Lab) Kubeconfig() string { return l.kubeconfig }

// ConfigFor takes any user and groups; RBAC decides.
func (l *Lab) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	certPEM, keyPEM, err := l.clients.Issue(user, groups, nil)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: "https://" + l.apiserver() + ":443", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: l.clients.PEM(), CertData: certPEM, KeyData: keyPEM},
	}, nil
}

func (l *Lab) WriteKubeconfig(name string, config *rest.Config) (string, error) {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["lab"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos["lab"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	kubeconfig.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lab"}
	kubeconfig.CurrentContext = "lab"
	data, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return "", err
	}
	return l.write(name+".kubeconfig", data)
}

type Result struct {
	Stdout, Stderr string
	Code           int
}

// Kubectl runs as an administrator. A non-zero exit code is an error only if kubectl could not run or
// outlived ctx.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (Result, error) {
	return l.KubectlWith(ctx, "", args...)
}

func (l *Lab) KubectlWith(ctx context.Context, stdin string, args ...string) (Result, error) {
	return l.command(ctx, stdin, filepath.Join(l.bin, "kubectl"), args...)
}

// Root returns the checkout of the current folder, "" if none. Binaries built with -trimpath do not know their
// source.
var Root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "components")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return ""
})

// HelmPath builds Helm.
var HelmPath = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-modfile=tools/helm/go.mod", "-n", "helm")
	cmd.Dir = filepath.Join(Root(), "test")
	cmd.Stderr = os.Stderr
	path, err := cmd.Output()
	return strings.TrimSpace(string(path)), err
})

func (l *Lab) Helm(ctx context.Context, args ...string) (Result, error) {
	path, err := HelmPath()
	if err != nil {
		return Result{}, fmt.Errorf("build helm: %w", err)
	}
	return l.command(ctx, "", path, args...)
}

func (l *Lab) Shell(ctx context.Context, line string) (Result, error) {
	return l.command(ctx, "", "/bin/sh", "-c", line)
}

// commandLimit ends a hanging command before the package times out.
const commandLimit = 10 * time.Minute

// More than a second on a busy machine.
const waitDelay = 10 * time.Second

func (l *Lab) command(ctx context.Context, stdin, program string, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandLimit, fmt.Errorf("it runs for %v", commandLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	what := filepath.Base(program)
	cmd.Env = append(l.environment(), "GOGC=400") // kubectl and termguard end before a collection pays
	cmd.Dir = l.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// A shell's children would keep the pipes open for Wait.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := startChild(cmd); err != nil {
		return Result{}, fmt.Errorf("run %s: %w", what, err)
	}
	err := cmd.Wait()
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	if ctx.Err() != nil {
		return result, fmt.Errorf("%s %s: %w", what, strings.Join(args, " "), context.Cause(ctx))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return result, fmt.Errorf("run %s: %w", what, err)
	}
	return result, nil
}

// AwaitApplied repeats Apply until a definition is established, or a namespace has its service account.
func (l *Lab) AwaitApplied(ctx context.Context, limit time.Duration, manifests string) error {
	var last error
	err := l.Await(ctx, limit, "the objects to be accepted", func(ctx context.Context) (bool, error) {
		err := l.Apply(ctx, manifests)
		if last == nil || ctx.Err() == nil { // an interrupted last try has no better error
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", last, err)
	}
	return nil
}

func (l *Lab) Client() (kubernetes.Interface, error) { return kubernetes.NewForConfig(l.config) }

// ClusterIP is an address on which this machine can listen.
func (l *Lab) ClusterIP(ctx context.Context, namespace, name string) (string, error) {
	client, err := l.Client()
	if err != nil {
		return "", err
	}
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return "", fmt.Errorf("service %s/%s has no ClusterIP", namespace, name)
	}
	return service.Spec.ClusterIP, nil
}
