package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func start(t *testing.T) *Lab {
	t.Helper()
	l, err := Start(t.Context(), Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	return l
}

func kubectl(t *testing.T, l *Lab, args ...string) string {
	t.Helper()
	r, err := l.Kubectl(t.Context(), args...)
	if err != nil || r.Code != 0 {
		t.Fatalf("kubectl %s: %v %s", strings.Join(args, " "), err, r.Stderr)
	}
	return r.Stdout
}

func apply(t *testing.T, l *Lab, manifests string) {
	t.Helper()
	if err := l.AwaitApplied(t.Context(), time.Minute, manifests); err != nil {
		t.Fatal(err)
	}
}

func TestNamespaceCompletes(t *testing.T) {
	t.Parallel()
	began := time.Now()
	l := start(t)
	t.Logf("control plane up after %s", time.Since(began).Round(100*time.Millisecond))
	kubectl(t, l, "create", "namespace", "demo")
	kubectl(t, l, "-n", "demo", "create", "configmap", "c")
	kubectl(t, l, "delete", "namespace", "demo", "--timeout=60s")
}

func TestNodesLiveAndDie(t *testing.T) {
	t.Parallel()
	l := start(t)
	node, err := l.StartNode(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: NAME, namespace: default}, spec: {nodeName: n1, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}`
	for _, name := range []string{"a", "b"} {
		apply(t, l, strings.Replace(pod, "NAME", name, 1))
	}
	kubectl(t, l, "wait", "pod", "a", "b", "--for=condition=Ready", "--timeout=60s")
	kubectl(t, l, "delete", "pod", "a", "--timeout=60s")

	node.Kill()
	if err := node.AwaitReady(t.Context(), corev1.ConditionUnknown); err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "delete", "pod", "b", "--wait=false")
	if r, err := l.Kubectl(t.Context(), "wait", "pod", "b", "--for=delete", "--timeout=5s"); err != nil || r.Code == 0 {
		t.Errorf("pod b on the dead node was deleted without its kubelet: %v", err)
	}

	node, err = l.StartNode(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "wait", "pod", "b", "--for=delete", "--timeout=60s")
	if err := node.Stop(); err != nil {
		t.Error(err)
	}
}

// The availability check of an APIService wants an EndpointSlice with an address, but does not dial it (RFC
// 5737).
const api = `{apiVersion: v1, kind: Service, metadata: {name: api, namespace: default}, spec: {ports: [{port: 443}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: api, namespace: default, labels: {kubernetes.io/service-name: api}}, addressType: IPv4, ports: [{port: 443}], endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}]}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: VERSION.GROUP}, spec: {group: GROUP, version: VERSION, groupPriorityMinimum: 100, versionPriority: 10, caBundle: CABUNDLE, service: {namespace: default, name: api}}}`

func TestAggregatedAPI(t *testing.T) {
	t.Parallel()
	l := start(t)
	manifests := func(group, version string) string {
		return strings.NewReplacer("GROUP", group, "VERSION", version, "CABUNDLE", base64.StdEncoding.EncodeToString(l.CABundle())).Replace(api)
	}
	apply(t, l, manifests("lab.test", "v1"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := l.Serve(ctx, "default", "api", ExtensionAPI("lab.test", "v1", "things", "Thing", "get", "list")); err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "wait", "apiservice", "v1.lab.test", "--for=condition=Available", "--timeout=60s")
	cancel()
	kubectl(t, l, "wait", "apiservice", "v1.lab.test", "--for=condition=Available=False", "--timeout=90s")
	kubectl(t, l, "delete", "apiservice", "v1.lab.test")

	apply(t, l, manifests("wardle.example.com", "v1alpha1"))
	server, err := l.SampleAPIServer(t.Context(), "default", "api")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "wait", "apiservice", "v1alpha1.wardle.example.com", "--for=condition=Available", "--timeout=60s")
	kubectl(t, l, "create", "namespace", "demo")
	apply(t, l, `{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: f, namespace: demo, finalizers: [lab.test/f]}, spec: {}}`)
	kubectl(t, l, "delete", "namespace", "demo", "--wait=false")
	kubectl(t, l, "wait", "namespace", "demo", "--for=condition=NamespaceFinalizersRemaining", "--timeout=60s")
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	kubectl(t, l, "wait", "apiservice", "v1alpha1.wardle.example.com", "--for=condition=Available=False", "--timeout=90s")
}

func TestWebhookByService(t *testing.T) {
	t.Parallel()
	l := start(t)
	apply(t, l, `{apiVersion: v1, kind: Service, metadata: {name: hook, namespace: default}, spec: {ports: [{port: 443}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hook}, webhooks: [{
  name: hook.lab.test, failurePolicy: Fail, timeoutSeconds: 1, sideEffects: None, admissionReviewVersions: [v1],
  rules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}],
  clientConfig: {caBundle: `+base64.StdEncoding.EncodeToString(l.CABundle())+`, service: {namespace: default, name: hook}}}]}`)
	kubectl(t, l, "create", "configmap", "c")
	cases := []struct {
		reason  string
		handler http.Handler // nil: no listener
		code    int
		stderr  string
	}{
		{"a Service without a backend refuses the connection at once", nil, 1, "connection refused"},
		{"the answer of the webhook is that of the API server", Deny("not today"), 1, "not today"},
		{"a webhook that hangs is given up on after its timeout", Hang(), 1, "deadline exceeded"},
		{"a webhook that allows does not disturb", Allow(), 0, ""},
	}
	for _, tc := range cases {
		ctx, cancel := context.WithCancel(t.Context())
		if tc.handler != nil {
			if _, err := l.Serve(ctx, "default", "hook", tc.handler); err != nil {
				t.Fatal(err)
			}
		}
		// A webhook takes effect a moment after it is configured.
		var r Result
		err := l.Await(t.Context(), 20*time.Second, "the answer", func(ctx context.Context) (done bool, err error) {
			r, err = l.Kubectl(ctx, "delete", "configmap", "c", "--dry-run=server")
			return r.Code == tc.code && strings.Contains(r.Stderr, tc.stderr), err
		})
		if err != nil {
			t.Errorf("%s: want exit code %d and %q, got %d and %q", tc.reason, tc.code, tc.stderr, r.Code, r.Stderr)
		}
		cancel()
	}
}

func TestController(t *testing.T) {
	t.Parallel()
	l := start(t)
	apply(t, l, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: operator, namespace: default}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: operator}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, update]}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default, finalizers: [lab.test/c, lab.test/other]}}`)
	configmaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := l.Controller(ctx, "default", "operator", "lab.test/c", configmaps); !apierrors.IsForbidden(err) {
		t.Errorf("a controller without rights: want forbidden, got %v", err)
	}
	kubectl(t, l, "create", "clusterrolebinding", "operator", "--clusterrole=operator", "--serviceaccount=default:operator")
	err := l.Await(ctx, 10*time.Second, "the rights", func(context.Context) (bool, error) {
		return l.Controller(ctx, "default", "operator", "lab.test/c", configmaps) == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "delete", "configmap", "c", "--wait=false")
	err = l.Await(ctx, 30*time.Second, "the controller", func(context.Context) (bool, error) {
		return kubectl(t, l, "get", "configmap", "c", "-o", "jsonpath={.metadata.finalizers[*]}") == "lab.test/other", nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTwoLabs(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	if a.Config().Host == b.Config().Host || a.Dir() == b.Dir() {
		t.Fatalf("two labs share %s or %s", a.Config().Host, a.Dir())
	}
	kubectl(t, a, "create", "namespace", "only-a")
	if r, err := b.Kubectl(t.Context(), "get", "namespace", "only-a"); err != nil || r.Code == 0 {
		t.Errorf("one lab shows the namespace of the other: %v", err)
	}
	pids := []int{a.etcd.PID(), a.server.PID(), a.manager.PID()}
	a.Stop()
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d outlives its lab", pid)
		}
	}
	if _, err := os.Stat(a.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder outlives its lab: %v", err)
	}
	kubectl(t, b, "create", "namespace", "still-there")
}

func TestAPIServerRestart(t *testing.T) {
	t.Parallel()
	l := start(t)
	kubectl(t, l, "create", "namespace", "demo")
	if err := l.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "delete", "namespace", "demo", "--timeout=60s")
}

func TestUsers(t *testing.T) {
	t.Parallel()
	l := start(t)
	user, err := l.ConfigFor("ann", "team-a")
	if err != nil {
		t.Fatal(err)
	}
	account, err := l.ServiceAccountConfig(t.Context(), "kube-system", "namespace-controller")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		config *rest.Config
		want   string
	}{
		"the administrator, by the token file":        {l.Config(), "admin"},
		"a user that the lab vouches for":             {user, "ann"},
		"a service account, by a token minted for it": {account, "system:serviceaccount:kube-system:namespace-controller"},
	}
	for reason, tc := range cases {
		client, err := kubernetes.NewForConfig(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		if diff := cmp.Diff(tc.want, r.Status.UserInfo.Username); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", reason, diff)
		}
	}
}

func TestRunDeployment(t *testing.T) {
	t.Parallel()
	l := start(t)
	apply(t, l, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: guard, namespace: default}}
---
{apiVersion: v1, kind: Service, metadata: {name: guard, namespace: default}, spec: {ports: [{port: 443}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: guard, namespace: default}, spec: {selector: {matchLabels: {app: guard}}, template: {metadata: {labels: {app: guard}}, spec: {hostNetwork: true, serviceAccountName: guard, containers: [{name: guard, image: guard, args: [webhook, --listen=:9443]}]}}}}`)
	script := filepath.Join(t.TempDir(), "guard")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho $@\nkubectl --kubeconfig $4 auth whoami\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	address, err := l.ClusterIP(t.Context(), "default", "guard")
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.RunDeployment(t.Context(), "default", "guard", "guard", script, "--extra")
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	l.Forget(p)
	for _, want := range []string{
		"webhook --listen=:9443 --kubeconfig " + l.Dir(), "--listen " + address + ":443 --health-listen " + address + ":8081 --extra\n",
		"system:serviceaccount:default:guard",
	} {
		if !strings.Contains(p.Log(), want) {
			t.Errorf("%q is missing from the program's output:\n%s", want, p.Log())
		}
	}
}

func TestInterruptedBuild(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("GOCACHE", filepath.Join(cache, "go"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) { //nolint:errcheck // ends with ctx
		if _, err := os.Stat(filepath.Join(cache, "go")); err == nil {
			cancel() // the compiler is running
		}
		return false, nil
	})
	if dir, err := Build(ctx, t.Output()); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted build: want canceled, got %q, %v", dir, err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "termguard", "components", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || filepath.Ext(left[0]) != ".lock" {
		t.Errorf("an interrupted build leaves %q: want no more than its lock file", left)
	}
}

func TestNothingIsLeft(t *testing.T) {
	if os.Getenv("LAB_PANIC") != "" {
		l, err := Start(t.Context(), Options{Progress: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.StartNode(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		fmt.Println("dir", l.Dir())
		for _, p := range l.running() {
			fmt.Println("pid", p.PID())
		}
		// A waiting kubectl is a child as well.
		go l.Kubectl(context.Background(), "wait", "node", "n1", "--for=delete", "--timeout=1h") //nolint:errcheck // dies with us
		panic("on purpose")
	}
	t.Parallel()
	if _, err := Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestNothingIsLeft$")
	child.Env = append(os.Environ(), "LAB_PANIC=1")
	out, _ := child.CombinedOutput()
	if !strings.Contains(string(out), "panic: on purpose") {
		t.Fatalf("the child did not get as far as its panic:\n%s", out)
	}
	var pids []int
	var dir string
	for _, line := range strings.Split(string(out), "\n") {
		if pid, ok := strings.CutPrefix(line, "pid "); ok {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
		}
		if path, ok := strings.CutPrefix(line, "dir "); ok {
			dir = path
		}
	}
	if len(pids) != 4 || dir == "" {
		t.Fatalf("want four processes and the lab's folder, got %v and %q:\n%s", pids, dir, out)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil {
				return false, nil
			}
		}
		_, err := os.Lstat(dir)
		return errors.Is(err, fs.ErrNotExist) && len(mentions(t, dir)) == 0, nil
	})
	if err != nil {
		t.Errorf("left behind: one of the processes %v %v, or files in %s", pids, mentions(t, dir), dir)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("left behind: mounts in %s (%v)", dir, err)
	}
}

// All processes of a lab have its path in their environment.
func mentions(t *testing.T, path string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		// Processes that are exiting, or of other users, cannot be read.
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), path) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

func TestUsersKubeconfig(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "config")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	l := start(t)
	kubectl(t, l, "get", "namespaces")
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("the user's kubeconfig is now %q (%v)", data, err)
	}
}
