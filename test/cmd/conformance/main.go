// Command conformance runs Kubernetes' end-to-end tests, and fails if a test passes only without termguard.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

const (
	// Tests about deletions.
	focus = `\[sig-api-machinery\] (Namespaces|OrderedNamespaceDeletion|Garbage collector|CustomResource|ResourceQuota|Watchers|Generated clientset|ValidatingAdmissionPolicy|MutatingAdmissionPolicy)` +
		`|\[sig-apps\] (ReplicaSet|ReplicationController|Deployment|DisruptionController|CronJob should support|Job should (delete a job|remove pods))` +
		`|\[sig-node\] (PodTemplates|Lease|Pods should (be submitted and removed|delete a collection)|RuntimeClass should support)`
	// skip excludes tests that need running containers, a second node or a cloud, which the lab lacks; that
	// break the cluster, are slow, or need a disabled feature gate.
	skip = `CustomResourceFieldSelectors|proportional scaling|UnhealthyPodEvictionPolicy|\[Disruptive\]|\[Slow\]|\[Feature:|\[FeatureGate:|\[Flaky\]|\[Alpha\]|\[Beta\]|CustomResourceConversionWebhook|serve a basic image|load-balancer|cronjob`
)

func main() {
	out := flag.String("out", "", "write the page to this file")
	only := flag.String("focus", focus, "run the tests that match this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *out, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, focus string) error {
	programs, err := lab.BuildConformance(ctx, os.Stderr)
	if err != nil {
		return err
	}
	binary, err := scenario.Binary()
	if err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return fmt.Errorf("ask termguard for its version: %w", err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(string(output), "termguard version "), " ")
	began := time.Now()
	var without, with session
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		without, err = play(ctx, programs, focus, func() (*lab.Lab, error) {
			l, err := lab.Start(ctx, lab.Options{})
			if err != nil {
				return nil, err
			}
			if _, err := l.StartNode(ctx, "steady"); err != nil {
				l.Stop()
				return nil, err
			}
			return l, nil
		})
		return err
	})
	both.Go(func() (err error) {
		with, err = play(ctx, programs, focus, func() (*lab.Lab, error) {
			g, err := scenario.Guard(ctx, lab.Options{})
			if err != nil {
				return nil, err
			}
			return g.Lab, nil
		})
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	text, err := page(version, began, without, with)
	if out == "" {
		fmt.Print(text)
		return err
	}
	return errors.Join(err, os.WriteFile(out, []byte(text), 0o644))
}

type session struct {
	tests map[string]test // by name
	calls scenario.Calls  // to termguard
}

type test struct {
	passed   bool
	took     time.Duration
	attempts int
}

func (t test) String() string {
	switch {
	case !t.passed:
		return "**fails**"
	case t.attempts > 1:
		return fmt.Sprintf("%.1f s, at the second attempt", t.took.Seconds())
	}
	return fmt.Sprintf("%.1f s", t.took.Seconds())
}

func play(ctx context.Context, programs, focus string, start func() (*lab.Lab, error)) (s session, err error) {
	l, err := start()
	if err != nil {
		return s, err
	}
	defer l.Stop()
	if _, err := l.StartProcess("scheduler", filepath.Join(programs, "kube-scheduler"), "--kubeconfig", l.Kubeconfig(), "--leader-elect=false", "--secure-port=0"); err != nil {
		return s, err
	}
	report := filepath.Join(l.Dir(), "report.json")
	tests := exec.CommandContext(ctx, filepath.Join(programs, "e2e.test"), "--kubeconfig", l.Kubeconfig(), "--provider", "skeleton", "--allowed-not-ready-nodes", "0",
		"--dump-logs-on-failure=false", "--disable-log-dump", "--ginkgo.focus", focus, "--ginkgo.skip", skip,
		"--ginkgo.no-color", "--ginkgo.silence-skips", "--ginkgo.timeout", "3h", "--ginkgo.flake-attempts", "2", "--ginkgo.json-report", report, "--ginkgo.seed", "1")
	tests.Dir = l.Dir()
	tests.Stdout, tests.Stderr = os.Stderr, os.Stderr
	tests.Cancel = func() error { return tests.Process.Signal(os.Interrupt) }
	failed := tests.Run() // the report has the details
	text, err := os.ReadFile(report)
	if err != nil {
		return s, errors.Join(failed, err)
	}
	if s.tests, err = read(text); err != nil {
		return s, errors.Join(failed, err)
	}
	client, err := l.Client()
	if err != nil {
		return s, err
	}
	s.calls, err = scenario.CallsOf(ctx, client, ".termguard.dev")
	return s, err
}

// Source: github.com/onsi/ginkgo/v2, types.Report.
func read(text []byte) (map[string]test, error) {
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
			RunTime                 time.Duration
			NumAttempts             int
		}
	}
	if err := json.Unmarshal(text, &reports); err != nil {
		return nil, fmt.Errorf("read Ginkgo's report: %w", err)
	}
	tests := map[string]test{}
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType == "It" && s.State != "skipped" && s.State != "pending" {
				tests[strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")] = test{s.State == "passed", s.RunTime, s.NumAttempts}
			}
		}
	}
	if len(tests) == 0 {
		return nil, errors.New("no test ran")
	}
	return tests, nil
}

// page returns an error if termguard makes a difference.
func page(version string, began time.Time, without, with session) (string, error) {
	var wrong []error
	var rows strings.Builder
	alone, both := 0, 0
	for _, name := range slices.Sorted(maps.Keys(without.tests)) {
		a, b := without.tests[name], with.tests[name]
		switch {
		case a.passed && b.passed:
			alone, both = alone+1, both+1
		case a.passed:
			alone++
			wrong = append(wrong, fmt.Errorf("%s passes without termguard, and not with it", name))
		}
		fmt.Fprintf(&rows, "| %s | %v | %v |\n", strings.ReplaceAll(name, "|", `\|`), a, b)
	}
	if with.calls.N == 0 {
		wrong = append(wrong, errors.New("termguard was asked nothing"))
	}
	text := fmt.Sprintf(header, lab.Version, runtime.NumCPU(), version, began.UTC().Format(time.DateOnly), int(time.Since(began).Minutes()+0.5),
		len(without.tests), alone, both, with.calls.N, with.calls.FailedOpen) + rows.String()
	return text, errors.Join(wrong...)
}

const header = `# Kubernetes' own tests, with termguard installed

Does termguard break anything that Kubernetes' own tests check?

Tests of Kubernetes %s (` + "`k8s.io/kubernetes/test/e2e`" + `) about deletions run on a real etcd, kube-apiserver, kube-controller-manager and
kube-scheduler, with a node that runs the kubelet's own code and no containers: without termguard, and at the same time with termguard as its
manifests install it, all on the same %d cores. Tests that need running containers, several nodes or a disabled feature gate are left out, and
tests marked as slow or disruptive. A failed test is repeated once. ` + "`make conformance`" + ` runs them again and writes this page; it fails if a
test passes only without termguard. This is termguard %s, on %s, in %d minutes.

%d tests ran: %d passed without termguard, and %d of these with it. The API server called termguard %d times; %d of these calls failed open.

| test | without | with |
|---|---|---|
`
