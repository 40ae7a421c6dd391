package chart

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

const home = "termguard-system"

// TestChart installs, upgrades, rolls back and uninstalls the chart as in docs/install.md, during constant
// deletions: each completes, and nothing is left behind.
func TestChart(t *testing.T) {
	if !lab.Nightly() {
		t.Skip("upgrades take minutes: make nightly plays them")
	}
	t.Parallel()
	ctx := t.Context()
	l, err := lab.Start(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	s := newSite(t, l)
	if err := l.Apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: stuck, finalizers: [finalizers.kubesphere.io/namespaces]}}`); err != nil {
		t.Fatal(err)
	}
	stop := s.deletes()
	defer stop()

	s.helm("install", "termguard", chart(), "--namespace", home, "--create-namespace")
	s.start()
	warned := func(r lab.Result) bool {
		return r.Code == 0 && scenario.Verdict(scenario.Warnings(r.Stderr)) == scenario.Hangs
	}
	s.awaitAnswer("warns of a namespace that hangs", warned)
	trusted := s.caBundles()

	s.helm("upgrade", "termguard", chart(), "--namespace", home, "--set", "config.enforcement.default=deny")
	if got := s.caBundles(); got != trusted {
		t.Error("the upgrade took the certificate authority from the webhook configuration, or changed it")
	}
	s.restart()
	denied := func(r lab.Result) bool { return r.Code != 0 && strings.Contains(r.Stderr, "denied the request") }
	s.awaitAnswer("refuses it after the upgrade", denied)

	// An upgrade of the chart keeps the configuration.
	s.helm("upgrade", "termguard", chart(), "--namespace", home, "--reset-then-reuse-values", "--set", "replicas=3")
	if got := s.kubectl("get", "deployment", "termguard", "-n", home, "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("%s replicas, want 3", got)
	}
	s.restart()
	s.awaitAnswer("still refuses it", denied)

	// A user edits fields of the chart: the upgrade is rejected with their names, until it may take them over.
	// Fields that the chart does not set stay.
	s.kubectl("scale", "deployment", "termguard", "-n", home, "--replicas=5")
	s.kubectl("label", "validatingwebhookconfiguration", "termguard", "team=platform")
	s.kubectl("patch", "validatingwebhookconfiguration", "termguard", "--type=json", "-p", `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]`)
	s.kubectl("delete", "configmap", "termguard-config", "-n", home)
	upgrade := []string{"upgrade", "termguard", chart(), "--namespace", home, "--reset-then-reuse-values", "--set", "replicas=4"}
	_, refusal, err := helm(ctx, t, s.environment, upgrade...)
	if err == nil {
		t.Error("the upgrade overwrote a user's edits")
	}
	for _, field := range []string{".spec.replicas", `.webhooks[name="delete.termguard.dev"].failurePolicy`} {
		if !strings.Contains(strings.ReplaceAll(refusal, `\"`, `"`), field) {
			t.Errorf("the refusal does not name %s: %s", field, refusal)
		}
	}
	s.awaitAnswer("still refuses it after an upgrade that was refused", denied)
	s.helm(append(upgrade, "--force-conflicts")...)
	for what, want := range map[string]string{
		"deployment termguard -n " + home + " -o jsonpath={.spec.replicas}":                                          "4",
		"validatingwebhookconfiguration termguard -o jsonpath={.metadata.labels.team}":                               "platform",
		"validatingwebhookconfiguration termguard -o jsonpath={.webhooks[0].failurePolicy}":                          "Ignore",
		"configmap termguard-config -n " + home + " -o jsonpath={.metadata.labels.app\\.kubernetes\\.io/managed-by}": "Helm",
	} {
		if got := s.kubectl(append([]string{"get"}, strings.Fields(what)...)...); got != want {
			t.Errorf("edited by hand, then upgraded: kubectl get %s says %q, want %q", what, got, want)
		}
	}
	if got := s.caBundles(); got != trusted {
		t.Error("the upgrade over a user's edits removed or changed the webhook configuration's caBundle")
	}
	s.mount()
	s.awaitAnswer("refuses it, as the configuration says that is there again", denied)

	s.helm("rollback", "termguard", "1", "--namespace", home)
	s.restart()
	s.awaitAnswer("warns again after the rollback", warned)
	if got := s.caBundles(); got != trusted {
		t.Error("upgrades and rollback changed the certificate authority in the webhook configuration")
	}

	s.helm("uninstall", "termguard", "--namespace", home)
	s.stop()
	s.nothingLeft()
	s.kubectl("delete", "namespace", home, "--timeout=60s")

	// The webhook configuration first, running pods last.
	s.helm("install", "termguard", chart(), "--namespace", home, "--create-namespace")
	s.start()
	s.kubectl("delete", "validatingwebhookconfiguration", "termguard")
	s.kubectl("delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/name=termguard")
	s.helm("uninstall", "termguard", "--namespace", home)
	s.stop()
	s.nothingLeft()

	// The namespace first, including Helm's record of the release.
	s.helm("upgrade", "--install", "termguard", chart(), "--namespace", home)
	s.start()
	s.kubectl("delete", "namespace", home, "--timeout=60s")
	s.stop()
	s.kubectl("delete", everywhere, "-l", "app.kubernetes.io/name=termguard")
	s.nothingLeft()

	// With kubectl, without a configuration, and then with one, which survives upgrades.
	install := []string{"apply", "-f", filepath.Join(deploy, "install.yaml")}
	s.kubectl(install...)
	s.start()
	s.awaitAnswer("warns by default", warned)
	s.kubectl("create", "configmap", "termguard-config", "-n", home, "--from-literal=config.yaml=apiVersion: termguard.dev/v1\nkind: Config")
	s.kubectl("patch", "configmap", "termguard-config", "-n", home, "--type=merge", "-p",
		`{"data": {"config.yaml": "apiVersion: termguard.dev/v1\nkind: Config\nenforcement: {default: deny}\n"}}`)
	s.mount()
	s.awaitAnswer("refuses it by its ConfigMap, without a restart", denied)
	for _, again := range [][]string{install, {"apply", "-k", filepath.Join(deploy, "base")}} {
		s.kubectl(again...)
		s.restart()
		s.awaitAnswer("refuses it after kubectl "+strings.Join(again, " "), denied)
	}

	// Helm takes over an installation by kubectl.
	before := s.caBundles()
	s.helm("upgrade", "--install", "termguard", chart(), "--namespace", home, "--take-ownership", "--server-side=false")
	if got := s.caBundles(); got != before {
		t.Error("taking over changed the certificate authority in the webhook configuration")
	}
	s.helm("uninstall", "termguard", "--namespace", home)
	s.stop()
	s.nothingLeft()
	s.kubectl("delete", "namespace", home, "--timeout=60s")

	if done := stop(); done < 20 {
		t.Errorf("only %d namespaces were deleted meanwhile: that shows little", done)
	} else {
		t.Logf("%d namespaces were created and deleted meanwhile", done)
	}
	s.failClosed()
}

// failClosed tests failurePolicy=Fail with termguard dead: deletes are rejected except by the cluster's own
// controllers, finalizers can be removed, and Helm can uninstall.
func (s *site) failClosed() {
	s.t.Helper()
	for _, namespace := range []string{"default", "kube-system"} {
		s.kubectl("create", "deployment", "it", "--image=i", "-n", namespace)
	}
	if err := s.Apply(s.t.Context(), `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: default, finalizers: [lab.test/held]}}`); err != nil {
		s.t.Fatal(err)
	}
	s.helm("install", "termguard", chart(), "--namespace", home, "--create-namespace", "--set", "failurePolicy=Fail")
	s.start()
	s.kubectl("delete", "deployment", "it", "-n", "default", "--dry-run=server")
	s.stop()
	r, err := s.Kubectl(s.t.Context(), "delete", "deployment", "it", "-n", "default")
	if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, "failed calling webhook") {
		s.t.Errorf("an unreviewed delete is not refused: %v %d %s", err, r.Code, r.Stderr)
	}
	s.kubectl("delete", "deployment", "it", "-n", "kube-system", "--timeout=60s")
	s.kubectl("delete", "deployment", "termguard", "-n", home, "--timeout=60s")
	s.kubectl("patch", "configmap", "held", "-n", "default", "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	s.helm("uninstall", "termguard", "--namespace", home)
	s.nothingLeft()
	s.kubectl("delete", "deployment", "it", "-n", "default", "--timeout=60s")
	s.kubectl("delete", "namespace", home, "--timeout=60s")
}

const everywhere = "validatingwebhookconfigurations,clusterrolebindings,clusterroles,flowschemas,prioritylevelconfigurations"

type site struct {
	*scenario.Guarded
	t           *testing.T
	client      kubernetes.Interface
	binary      string
	args        []string
	environment []string
}

func newSite(t *testing.T, l *lab.Lab) *site {
	t.Helper()
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	client, err := l.Client()
	if err != nil {
		t.Fatal(err)
	}
	return &site{Guarded: &scenario.Guarded{Lab: l}, t: t, client: client, binary: binary, environment: []string{"KUBECONFIG=" + filepath.Join(l.Dir(), "admin.kubeconfig")}}
}

func (s *site) helm(args ...string) {
	s.t.Helper()
	stdout, stderr, err := helm(s.t.Context(), s.t, s.environment, args...)
	if err != nil {
		s.t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
}

func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	r, err := s.Kubectl(s.t.Context(), args...)
	if err != nil || r.Code != 0 {
		s.t.Fatalf("kubectl %s: %v %s", strings.Join(args, " "), err, r.Stderr)
	}
	return r.Stdout
}

// start runs termguard as the Deployment would: the lab has no scheduler.
func (s *site) start() {
	s.t.Helper()
	if err := s.StartTermguard(s.t.Context(), s.binary, s.args...); err != nil {
		s.t.Fatal(err)
	}
}

// mount mounts the configuration into the pods, like the kubelet.
func (s *site) mount() {
	s.t.Helper()
	if _, err := s.MountConfig(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) stop() {
	s.t.Helper()
	if err := s.Termguard.Stop(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) restart() { s.t.Helper(); s.stop(); s.start() }

func (s *site) caBundles() string {
	s.t.Helper()
	return s.kubectl("get", "validatingwebhookconfiguration", "termguard", "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}")
}

func (s *site) awaitAnswer(what string, right func(lab.Result) bool) {
	s.t.Helper()
	var last lab.Result
	err := s.Await(s.t.Context(), 60*time.Second, "termguard, which "+what, func(ctx context.Context) (_ bool, err error) {
		last, err = s.Kubectl(ctx, "delete", "--dry-run=server", "namespace", "stuck")
		return right(last), err
	})
	if err != nil {
		s.t.Fatalf("%v\nlast: %d %s", err, last.Code, last.Stderr)
	}
}

// nothingLeft checks that no object with termguard in its name is left in any kind.
func (s *site) nothingLeft() {
	s.t.Helper()
	kinds := strings.Fields(s.kubectl("api-resources", "--verbs=list,delete", "-o", "name"))
	var all []string
	for _, kind := range kinds {
		if kind != "events" && kind != "events.events.k8s.io" && kind != "namespaces" {
			all = append(all, kind)
		}
	}
	var left string
	if err := s.Await(s.t.Context(), 60*time.Second, "what is termguard's to be gone", func(ctx context.Context) (bool, error) {
		r, err := s.Kubectl(ctx, "get", strings.Join(all, ","), "--all-namespaces", "-o", "name")
		if err != nil {
			return false, err // keep the last list
		}
		left = ""
		for line := range strings.Lines(r.Stdout) {
			if strings.Contains(line, "termguard") {
				left += line
			}
		}
		return left == "", nil
	}); err != nil {
		s.t.Fatalf("left behind:\n%s", left)
	}
}

// deletes creates and deletes namespaces, four at a time, until stopped, and returns their number.
func (s *site) deletes() (stop func() int64) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	var gone atomic.Int64
	for worker := range 4 {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := s.passes(ctx, fmt.Sprintf("passing-%d-%d", worker, n)); err == nil {
					gone.Add(1)
				} else if ctx.Err() == nil {
					s.t.Error(err)
				}
			}
		})
	}
	return sync.OnceValue(func() int64 { cancel(); running.Wait(); return gone.Load() })
}

func (s *site) passes(ctx context.Context, name string) error {
	namespaces, maps := s.client.CoreV1().Namespaces(), s.client.CoreV1().ConfigMaps(name)
	if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	if err := maps.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return err
	}
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.Await(ctx, 60*time.Second, "namespace "+name+" to be gone", func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
