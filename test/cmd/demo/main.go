// Command demo plays termguard's main cases on a real control plane: commands as typed, kubectl's output, and
// outcomes.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

//go:embed world.yaml
var world string

// An unfinished deletion then counts as hanging.
const hangsAfter = 25 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type act struct {
	title, target string
	predicted     string
	expected      string
	real          string
	began         time.Time
}

type demo struct {
	*scenario.Guarded
	binary string
	dead   *lab.Node // once it is not ready
	acts   []*act
}

func run(ctx context.Context) error {
	binary, err := scenario.Binary()
	if err != nil {
		return err
	}
	say("Starting etcd, kube-apiserver, kube-controller-manager and a node, and installing termguard (kubectl apply -k deploy/base)")
	g, err := scenario.Guard(ctx, lab.Options{})
	if err != nil {
		return err
	}
	defer g.Stop()
	d := &demo{Guarded: g, binary: binary}
	if err := d.prepare(ctx); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	for _, play := range []func(context.Context) error{d.silence, d.hangs, d.carriedOut, d.refusals, d.harmless, d.deadNode, d.apiservice} {
		if err := play(ctx); err != nil {
			return err
		}
	}
	return d.curtain(ctx)
}

func (d *demo) prepare(ctx context.Context) error {
	var err error
	if d.dead, err = d.StartNode(ctx, "worker-7"); err != nil {
		return err
	}
	if err := d.AwaitApplied(ctx, 30*time.Second, world); err != nil {
		return err
	}
	for _, wait := range []string{"pod/cart-0 -n shop --for=condition=Ready", "deployment/velero -n velero --for=condition=Available"} {
		if r, err := d.Kubectl(ctx, append([]string{"wait", "--timeout=60s"}, strings.Fields(wait)...)...); err != nil || r.Code != 0 {
			return fmt.Errorf("wait for %s: %s", wait, r.Stderr)
		}
	}
	if err := d.Controller(ctx, "velero", "velero", "restores.velero.io/external-resources-finalizer", schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "restores"}); err != nil {
		return err
	}
	say("Cutting the power of node worker-7, where pod cart-0 runs")
	d.dead.Kill()
	return nil
}

func (d *demo) silence(ctx context.Context) error {
	say("AN ORDINARY NAMESPACE: nothing to say, and it goes")
	if err := d.delete(ctx, "ordinary namespace", "namespace plain", scenario.Completes); err != nil {
		return err
	}
	say("AN OPERATOR THAT IS ALIVE: its finalizer is no reason to worry, and the namespace goes")
	return d.delete(ctx, "operator alive", "namespace backups", scenario.Completes)
}

func (d *demo) hangs(ctx context.Context) error {
	say("KIALI, LEFT BEHIND BY ITS OPERATOR: first only asked")
	if err := d.awaitVerdict(ctx, "namespace istio-system", scenario.Hangs); err != nil {
		return err
	}
	d.kubectl(ctx, "delete namespace istio-system --dry-run=server")
	if err := d.delete(ctx, "Kiali left behind by its operator", "namespace istio-system", scenario.Hangs); err != nil {
		return err
	}
	say("A KUBESPHERE FINALIZER ON THE NAMESPACE, KubeSphere long gone")
	return d.delete(ctx, "KubeSphere finalizer on the namespace", "namespace project-x", scenario.Hangs)
}

func (d *demo) deadNode(ctx context.Context) error {
	say("A POD ON A DEAD NODE")
	if err := d.dead.AwaitReady(ctx, "Unknown"); err != nil {
		return err
	}
	return d.delete(ctx, "pod on a dead node", "namespace shop", scenario.Hangs)
}

func (d *demo) carriedOut(ctx context.Context) error {
	say("KIALI, LEFT BEHIND ONCE MORE: one command carries the plan out, and it goes")
	out, err := d.run(ctx, "delete", "namespace", "istio-old", "--yes", "--allow=strip")
	if err != nil {
		return fmt.Errorf("termguard delete: %w", err)
	}
	r, err := d.Kubectl(ctx, "get", "namespace", "istio-old")
	if err != nil {
		return err
	}
	d.note("the plan carried out", "gone", strings.Contains(out, "kubectl patch kialis.kiali.io/kiali") && strings.Contains(r.Stderr, "NotFound"), "gone, by the steps of the plan")
	return nil
}

func (d *demo) run(ctx context.Context, args ...string) (string, error) {
	fmt.Println("\n$ termguard", strings.Join(args, " "))
	out, err := exec.CommandContext(ctx, d.binary, append(args, "--kubeconfig", d.Kubeconfig())...).Output()
	fmt.Print(string(out))
	return string(out), err
}

func (d *demo) refusals(ctx context.Context) error {
	say("DENY MODE, for one namespace by label: the delete is refused")
	d.kubectl(ctx, "label namespace guarded termguard.dev/enforce=deny")
	if err := d.awaitAnswer(ctx, "namespace guarded", "Forbidden"); err != nil {
		return err
	}
	d.kubectl(ctx, "delete namespace guarded --wait=false")
	d.note("deny mode", "refused", d.exists(ctx, "namespace guarded", false), "refused, and the namespace is untouched")
	say("BREAK GLASS: a reason on the object lets it through")
	d.kubectl(ctx, `annotate namespace guarded 'termguard.dev/allow-hang=the cluster goes on Friday'`)
	return d.delete(ctx, "break-glass", "namespace guarded", scenario.Hangs)
}

func (d *demo) harmless(ctx context.Context) error {
	say("TERMGUARD KILLED: deletes go on, without a word")
	d.Termguard.Kill()
	d.Forget(d.Termguard)
	if err := d.delete(ctx, "termguard killed", "namespace after-kill", scenario.Completes); err != nil {
		return err
	}
	if err := d.StartTermguard(ctx, d.binary); err != nil {
		return err
	}
	say("TERMGUARD FROZEN (SIGSTOP): deletes go on, one second later")
	if err := d.Termguard.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := d.delete(ctx, "termguard frozen", "namespace after-freeze", scenario.Completes); err != nil {
		return err
	}
	return d.Termguard.Signal(syscall.SIGCONT)
}

func (d *demo) apiservice(ctx context.Context) error {
	say("THE APISERVICE OF AN UNINSTALLED PROMETHEUS-ADAPTER: it blocks every namespace, so it comes last")
	const manifest = `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.metrics.k8s.io}, spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: monitoring, name: prometheus-adapter}}}`
	if err := d.Apply(ctx, manifest); err != nil {
		return err
	}
	if r, err := d.Kubectl(ctx, "wait", "apiservice/v1beta1.metrics.k8s.io", "--for=condition=Available=False", "--timeout=60s"); err != nil || r.Code != 0 {
		return fmt.Errorf("wait for the APIService: %s", r.Stderr)
	}
	d.kubectl(ctx, "get apiservice v1beta1.metrics.k8s.io")
	// A small namespace would complete with the last discovery.
	if err := d.awaitAnswer(ctx, "namespace team-a", "no namespace can finish deleting"); err != nil {
		return err
	}
	return d.delete(ctx, "APIService of an uninstalled prometheus-adapter", "namespace team-a", scenario.Hangs)
}

func (d *demo) curtain(ctx context.Context) error {
	say("What really happened")
	for _, a := range d.acts {
		if a.real != "" {
			continue
		}
		left := hangsAfter - time.Since(a.began)
		r, err := d.Kubectl(ctx, append([]string{"wait", "--for=delete", "--timeout", max(left, time.Second).Round(time.Second).String()}, strings.Fields(a.target)...)...)
		if err != nil {
			return err
		}
		a.real = scenario.Completes
		if strings.Contains(r.Stderr, "timed out") {
			a.real = scenario.Hangs
			d.kubectl(ctx, "get "+a.target)
		}
	}
	if err := d.glance(ctx); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nCASE\tPREDICTED\tREALLY\t")
	wrong := 0
	for _, a := range d.acts {
		mark := ""
		if a.real != a.expected || a.predicted != a.expected && !strings.HasPrefix(a.title, "termguard") {
			mark, wrong = "<- wrong", wrong+1
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", a.title, a.predicted, a.real, mark)
	}
	table.Flush()
	if wrong > 0 {
		return fmt.Errorf("%d predictions or outcomes are not as they should be; %s holds the logs until the demo ends", wrong, filepath.Clean(d.Dir()))
	}
	return nil
}

func (d *demo) glance(ctx context.Context) error {
	say("All that is stuck now, in the whole cluster")
	out, err := d.run(ctx, "check", "--terminating", "-A")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return fmt.Errorf("termguard check --terminating: want exit code 1, got %w", err)
	}
	for _, a := range d.acts {
		_, name, _ := strings.Cut(a.target, " ")
		if a.real == scenario.Hangs && !regexp.MustCompile(`(?m)^\S+ +hangs +namespaces/`+name+` `).MatchString(out) {
			return fmt.Errorf("%s hangs, and is not among them", a.target)
		}
	}
	return nil
}

// curtain checks deletions that should hang.
func (d *demo) delete(ctx context.Context, title, target, expected string) error {
	absent := strings.HasPrefix(title, "termguard") // killed or frozen
	if !absent {
		if err := d.awaitVerdict(ctx, target, expected); err != nil {
			return err
		}
	}
	began := time.Now()
	r := d.kubectl(ctx, "delete "+target+" --wait=false")
	if r.Code != 0 {
		return fmt.Errorf("%s: kubectl failed", title)
	}
	a := &act{title: title, target: target, expected: expected, predicted: scenario.Verdict(scenario.Warnings(r.Stderr)), began: began}
	answered := time.Since(began)
	d.acts = append(d.acts, a)
	if absent {
		a.predicted = "(nothing)"
	}
	if expected != scenario.Completes {
		return nil
	}
	if w, err := d.Kubectl(ctx, append([]string{"wait", "--for=delete", "--timeout=60s"}, strings.Fields(target)...)...); err != nil || (w.Code != 0 && !strings.Contains(w.Stderr, "NotFound")) {
		a.real = scenario.Hangs
		return err
	}
	a.real = scenario.Completes
	fmt.Printf("  -> kubectl returned after %s; gone after %s\n", answered.Round(10*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
	return nil
}

func (d *demo) note(title, expected string, ok bool, text string) {
	a := &act{title: title, predicted: expected, expected: expected, real: expected}
	if !ok {
		a.real = "not so"
	}
	d.acts = append(d.acts, a)
	fmt.Println("  ->", text)
}

func (d *demo) exists(ctx context.Context, target string, deleting bool) bool {
	r, err := d.Kubectl(ctx, append([]string{"get", "-o", "jsonpath=x{.metadata.deletionTimestamp}"}, strings.Fields(target)...)...)
	return err == nil && r.Code == 0 && (r.Stdout != "x") == deleting
}

// awaitVerdict waits until termguard's answer to a dry run shows that it has seen the objects. After a
// timeout the act is played, and fails.
func (d *demo) awaitVerdict(ctx context.Context, target, expected string) error {
	err := d.Await(ctx, 40*time.Second, "the verdict "+expected, func(ctx context.Context) (bool, error) {
		r, err := d.Kubectl(ctx, append([]string{"delete", "--dry-run=server"}, strings.Fields(target)...)...)
		return r.Code == 0 && scenario.Verdict(scenario.Warnings(r.Stderr)) == expected, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

func (d *demo) awaitAnswer(ctx context.Context, target, text string) error {
	return d.Await(ctx, 90*time.Second, "termguard to see the change", func(ctx context.Context) (bool, error) {
		r, err := d.Kubectl(ctx, append([]string{"delete", "--dry-run=server"}, strings.Fields(target)...)...)
		return strings.Contains(r.Stderr, text), err
	})
}

func (d *demo) kubectl(ctx context.Context, command string) lab.Result {
	fmt.Printf("\n$ kubectl %s\n", command)
	r, err := d.Kubectl(ctx, scenario.Words(command)...)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(r.Stderr, r.Stdout)
	return r
}

func say(text string) { fmt.Printf("\n=== %s\n", text) }
