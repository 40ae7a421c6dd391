// Command harmlessness combines webhook faults with deletions, on a real control plane with termguard as
// shipped. It fails if an operation does not complete, waits too long for termguard, or is wrongly not
// reviewed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

const (
	home     = "termguard-system"
	settling = 60 * time.Second
	limit    = 90 * time.Second // for an operation, until everything is deleted
	// patience is the API server's second, plus its delay on a busy machine.
	patience = 1250 * time.Millisecond
)

func main() {
	out := flag.String("out", "", "write the page to this file")
	only := flag.String("faults", "", "play only the faults whose name matches this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *out, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "harmlessness:", err)
		os.Exit(1)
	}
}

type world struct {
	*scenario.Guarded
	client             kubernetes.Interface
	binary, configFile string
	address            string // of the Service
	replicas           int
	plain              bool // without extra arguments
}

type cell struct {
	took      time.Duration // until everything was deleted
	calls     scenario.Calls
	unchecked int   // reviews without an answer, or unchecked by termguard's own account
	refusal   error // error of the API server
	wrong     error
}

func run(ctx context.Context, out, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	l, err := lab.Start(ctx, lab.Options{})
	if err != nil {
		return err
	}
	defer l.Stop()
	w := &world{Guarded: &scenario.Guarded{Lab: l}}
	if w.client, err = l.Client(); err != nil {
		return err
	}
	if w.binary, err = scenario.Binary(); err != nil {
		return err
	}
	for _, node := range []string{"steady", "drained", "tainted"} {
		if _, err := l.StartNode(ctx, node); err != nil {
			return err
		}
	}
	if err := l.Apply(ctx, definitions); err != nil {
		return err
	}
	began := time.Now()
	rows := make([][]cell, len(faults))
	var wrong []error
	for i, f := range faults {
		if !chosen.MatchString(f.name) {
			continue
		}
		if rows[i], err = w.row(ctx, f, fmt.Sprintf("r%02d", i)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		for column, c := range rows[i] {
			fmt.Fprintf(os.Stderr, "%s, %s: %s\n", f.name, operations[column].name, c)
			if c.wrong != nil {
				wrong = append(wrong, fmt.Errorf("%s, %s: %w", f.name, operations[column].name, c.wrong))
			}
		}
	}
	page := page(rows, time.Since(began))
	if out == "" {
		fmt.Print(page)
	} else if err := os.WriteFile(out, []byte(page), 0o644); err != nil {
		return err
	}
	return errors.Join(wrong...)
}

// One operation at a time: the API server's counters in between belong to it.
func (w *world) row(ctx context.Context, f fault, name string) ([]cell, error) {
	ctx, cancel := context.WithCancel(ctx) // ends controllers
	defer cancel()
	if err := w.install(ctx, f.values); err != nil {
		return nil, err
	}
	names := make([]string, len(operations))
	for i, o := range operations {
		names[i] = name + "-" + o.name
		if err := w.set(ctx, o, names[i]); err != nil {
			return nil, err
		}
	}
	if err := w.run(ctx, "kubectl uncordon drained"); err != nil {
		return nil, err
	}
	if err := w.answers(ctx); err != nil {
		return nil, err
	}
	heal := func() error { return nil }
	if f.start != nil {
		ended, err := f.start(ctx, w)
		if err != nil {
			return nil, err
		}
		if ended != nil {
			heal = ended
		}
	}
	cells := make([]cell, len(operations))
	var pending sync.WaitGroup
	left := make([]error, len(operations))
	// Some operations take long after their last review.
	over := func(i int, began time.Time) {
		pending.Go(func() {
			left[i] = w.over(ctx, operations[i], names[i])
			cells[i].took = time.Since(began)
		})
	}
	for i, o := range operations {
		began, err := w.cell(ctx, f, o, names[i], &cells[i])
		if err != nil {
			return nil, errors.Join(err, heal())
		}
		if f.wants != refused {
			over(i, began)
		}
	}
	if f.wants != refused {
		pending.Wait()
		return cells, errors.Join(errors.Join(left...), heal())
	}
	if err := errors.Join(heal(), w.install(ctx, f.values), w.run(ctx, "kubectl uncordon drained")); err != nil {
		return nil, err
	}
	for i, o := range operations {
		began := time.Now()
		if err := w.do(ctx, o, names[i]); err != nil {
			return nil, fmt.Errorf("%s, tried again: %w", o.name, err)
		}
		over(i, began)
	}
	pending.Wait()
	return cells, errors.Join(left...)
}

// It returns the time of the first request.
func (w *world) cell(ctx context.Context, f fault, o operation, name string, c *cell) (began time.Time, err error) {
	around := f.around
	if around == nil {
		around = func(_ context.Context, _ *world, act func() error) error { return act() }
	}
	err = around(ctx, w, func() error {
		before, err := scenario.CallsOf(ctx, w.client, ".termguard.dev")
		if err != nil {
			return err
		}
		failures := w.countUnchecked()
		began = time.Now()
		err = w.do(ctx, o, name)
		if f.wants == refused { // helm does not say who refused
			c.refusal, err = err, nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		after, err := scenario.CallsOf(ctx, w.client, ".termguard.dev")
		if err != nil {
			return err
		}
		c.calls = after.Since(before)
		c.unchecked = max(c.calls.FailedOpen, w.countUnchecked()-failures)
		c.wrong = c.judge(f, o)
		return nil
	})
	return began, err
}

func (c cell) judge(f fault, o operation) error {
	var errs []error
	want := o.reviews
	switch {
	case f.wants == none:
		want = 0
	case f.wants == refused:
		want = c.calls.N // after a refusal the remaining requests are not sent
		if c.calls.N == 0 || c.unchecked > 0 || c.refusal == nil {
			errs = append(errs, errors.New("nothing was refused"))
		}
	}
	if c.calls.N != want {
		errs = append(errs, fmt.Errorf("%d reviews, want %d", c.calls.N, want))
	}
	if f.wants == reviewed && c.unchecked > 0 || f.wants == unchecked && c.unchecked != c.calls.N {
		errs = append(errs, fmt.Errorf("%d of %d reviews allowed unchecked, want them %s", c.unchecked, c.calls.N, f.wants))
	}
	if most := time.Duration(c.calls.N) * patience; c.calls.Took > most {
		errs = append(errs, fmt.Errorf("it waited %v for %d reviews", c.calls.Took, c.calls.N))
	}
	return errors.Join(errs...)
}

func (c cell) String() string {
	reviews := "none"
	switch {
	case c.refusal != nil:
		return fmt.Sprintf("refused after %s; tried again: %.1f s", short(c.calls.Took), c.took.Seconds())
	case c.calls.N == 0:
	case c.unchecked == 0:
		reviews = fmt.Sprintf("%d reviewed, +%s", c.calls.N, short(c.calls.Took))
	case c.unchecked == c.calls.N:
		reviews = fmt.Sprintf("%d unchecked, +%s", c.calls.N, short(c.calls.Took))
	default:
		reviews = fmt.Sprintf("%d reviewed, %d unchecked, +%s", c.calls.N-c.unchecked, c.unchecked, short(c.calls.Took))
	}
	return fmt.Sprintf("%.1f s; %s", c.took.Seconds(), reviews)
}

func short(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func chart() string { return filepath.Join(lab.Root(), "deploy", "chart") }

// install resets the chart to its defaults with values, and starts termguard unless it runs.
func (w *world) install(ctx context.Context, values string) error {
	args := []string{"upgrade", "--install", "termguard", chart(), "--namespace", home, "--create-namespace", "--reset-values"}
	if values != "" {
		args = append(args, "--set", values)
	}
	if err := w.helm(ctx, args...); err != nil {
		return err
	}
	address, err := w.ClusterIP(ctx, home, "termguard")
	if err != nil {
		return err
	}
	if w.configFile, err = w.MountConfig(ctx); err != nil {
		return err
	}
	if w.Termguard != nil && address == w.address {
		select {
		case <-w.Termguard.Exited():
		default:
			if w.plain {
				return w.AwaitTermguard(ctx)
			}
		}
	}
	w.address = address
	if w.Termguard != nil {
		if err := w.Termguard.Stop(); err != nil {
			return err
		}
	}
	return w.startTermguard(ctx)
}

func (w *world) startTermguard(ctx context.Context) error {
	w.plain = true
	return w.StartTermguard(ctx, w.binary)
}

func (w *world) restart(ctx context.Context, extra ...string) error {
	if err := w.Termguard.Stop(); err != nil {
		return err
	}
	w.plain = len(extra) == 0
	return w.StartTermguard(ctx, w.binary, extra...)
}

func (w *world) trust(ctx context.Context, authority []byte) error {
	configurations := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	hooks, err := configurations.Get(ctx, "termguard", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range hooks.Webhooks {
		hooks.Webhooks[i].ClientConfig.CABundle = authority
	}
	_, err = configurations.Update(ctx, hooks, metav1.UpdateOptions{})
	return err
}

func (w *world) answers(ctx context.Context) error {
	return w.Await(ctx, settling, "termguard to warn of a namespace that hangs", func(ctx context.Context) (bool, error) {
		r, err := w.Kubectl(ctx, "delete", "--dry-run=server", "namespace", "stuck")
		return r.Code == 0 && scenario.Verdict(scenario.Warnings(r.Stderr)) == scenario.Hangs, err
	})
}

func (w *world) countUnchecked() (n int) {
	client := http.Client{Timeout: time.Second}
	response, err := client.Get("http://" + w.address + ":8081/metrics")
	if err != nil {
		return 0 // it does not run; the API server counts
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		return 0
	}
	for _, m := range families["termguard_errors_total"].GetMetric() {
		n += int(m.GetCounter().GetValue())
	}
	return n
}

func page(rows [][]cell, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, header, lab.Version, runtime.NumCPU(), int(took.Minutes()+0.5))
	b.WriteString("|  |")
	for _, o := range operations {
		fmt.Fprintf(&b, " %s |", o.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(operations)) + "\n")
	for i, cells := range rows {
		if cells == nil {
			continue
		}
		fmt.Fprintf(&b, "| **%s** |", faults[i].name)
		for _, c := range cells {
			fmt.Fprintf(&b, " %s |", c)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## The operations\n\n| column | operation, and its reviews |\n|---|---|\n")
	for _, o := range operations {
		fmt.Fprintf(&b, "| %s | %s |\n", o.name, o.about)
	}
	b.WriteString("\n## The faults\n\n| row | fault | reviews |\n|---|---|---|\n")
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.name, f.about, f.wants)
	}
	return b.String()
}

const header = `# Harmlessness

What does termguard do to a cluster when termguard, or something that it needs, is broken?

Each row is a fault, each column an operation that deletes. They run on a real etcd, kube-apiserver and kube-controller-manager %s, with
nodes that run the kubelet's own code, on %d cores, with termguard as the chart installs it. ` + "`make harmlessness`" + ` repeats them and
writes this page, in some %d minutes; it fails if an operation does not complete, waits longer, or is not reviewed.

A cell has the time until all objects were deleted; the number of requests that were reviewed, and the outcome of these reviews; and the
time that the requests waited for them, by the API server's own count (` + "`apiserver_admission_webhook_admission_duration_seconds`" + `,
` + "`apiserver_admission_webhook_fail_open_count`" + `; also ` + "`termguard_errors_total`" + `). No review takes longer than the second that
the webhook configuration allows. The number of reviews is the same in every row: requests of the control plane's own controllers and
of kubelets are never sent to the webhook, so no fault of termguard delays them.

`
