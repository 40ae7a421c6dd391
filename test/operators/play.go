package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster/ownership"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// A busy machine completes late; for hangs see hangsAfter of scenarios.
const (
	completesWithin = 90 * time.Second
	hangsAfter      = 25 * time.Second
)

// The API server sees changed roles and bindings late.
const settles = 3 * time.Second

type play struct {
	*scenario.Guarded
	Operator
	programs  []*lab.Program
	stopCrash context.CancelFunc // while its pods crash
	rows      []Row
	names     int // given to rows so far
	progress  io.Writer
}

type deletion struct {
	Row
	delete   string // as for kubectl
	details  string // full answers
	excluded bool   // not sent to the webhook for review
	gone     bool
}

func (a *deletion) hear(stderr string) {
	warnings := scenario.Warnings(stderr)
	if a.Webhook = scenario.Verdict(warnings); a.excluded && len(warnings) == 0 {
		a.Webhook = Unasked
	}
}

func verdict(report scenario.Report, err error) string {
	if err != nil {
		return Failed
	}
	return string(report.Verdict)
}

func say(report scenario.Report, err error) string {
	if err != nil {
		return err.Error()
	}
	text, _ := json.Marshal(map[string]any{"verdict": report.Verdict, "findings": report.Findings, "waitsFor": report.WaitsFor, "unseen": report.Unseen}) //nolint:errchkjson // it was read from JSON
	return string(text)
}

// Play plays an operator in its own lab, fewer situations if short is set. ONLY in the environment is a part
// of their names.
func Play(ctx context.Context, g *scenario.Guarded, o Operator, short bool, progress io.Writer) ([]Row, error) {
	p := &play{Guarded: g, Operator: o, progress: progress}
	printed := 0
	tell := func() {
		table(progress, p.rows[printed:])
		printed = len(p.rows)
	}
	var err error
	if p.programs, err = g.RunPrograms(ctx, scenario.Live{Programs: o.Programs}); err != nil {
		return nil, err
	}
	only := os.Getenv("ONLY")
	for _, s := range o.situations() {
		if !strings.Contains(s.name, only) || short && !s.short {
			continue
		}
		if err := p.situation(ctx, s); err != nil {
			return p.rows, fmt.Errorf("%s: %w", s.name, err)
		}
		tell()
	}
	for _, t := range o.Traps {
		if !strings.Contains(t.Name, only) {
			continue
		}
		if err := p.trap(ctx, t); err != nil {
			return p.rows, fmt.Errorf("%s: %w", t.Name, err)
		}
		tell()
	}
	return p.rows, nil
}

func (p *play) situation(ctx context.Context, s situation) error {
	var rows []*deletion
	var names, then []string
	cause := s.deletes
	for _, t := range p.Targets {
		if s.of != "" && s.of != t.Name {
			continue
		}
		deletions := s.deletions(t)
		for _, what := range slices.Sorted(maps.Keys(deletions)) {
			name := p.name()
			if err := p.setUp(ctx, t, name); err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			names = append(names, name)
			for _, command := range t.Then {
				then = append(then, own(command, name))
			}
			rows = append(rows, &deletion{Row: Row{Situation: s.name, Deleted: what}, delete: own(deletions[what], name)})
			cause = own(cause, name)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if s.stops {
		if err := p.ask(ctx, lag, rows...); err != nil { // the webhook has seen it run for a while, as in a real cluster
			return err
		}
	}
	var first *deletion
	if cause != "" {
		first = &deletion{Row: Row{Situation: runs, Deleted: rowName(s.deletes)}, delete: cause}
		if err := p.ask(ctx, lag, first); err != nil {
			return err
		}
		token, err := p.token(ctx, cause)
		if err != nil {
			return err
		}
		if err := p.delete(ctx, first); err != nil {
			return err
		}
		if err := p.awaitRefused(ctx, token); err != nil {
			return err
		}
		if strings.HasPrefix(cause, "role") { // an operator that can no longer renew its lease continues until that expires
			if err := p.awaitLeases(ctx, time.Now().Add(settles)); err != nil {
				return err
			}
		}
		first.Really = Leaves
	}
	if err := p.bringAbout(ctx, s); err != nil {
		return err
	}
	for _, command := range then {
		if err := p.Do(ctx, command); err != nil {
			return err
		}
	}
	patience := lag
	if s.stops {
		patience = outlived
	}
	if err := p.ask(ctx, patience, rows...); err != nil {
		return err
	}
	if err := p.delete(ctx, rows...); err != nil {
		return err
	}
	if first != nil {
		held := slices.ContainsFunc(rows, func(a *deletion) bool { return !a.gone })
		switch {
		case !first.gone:
			first.Really = scenario.Hangs
		case !held:
			first.Really = scenario.Completes
		}
		p.keep(first)
	}
	p.keep(rows...)
	if strings.HasPrefix(cause, "serviceaccount ") {
		if err := p.stop(ctx); err != nil {
			return err
		}
	}
	return p.restore(ctx, names)
}

// The token stays invalid even if the service account is recreated.
func (p *play) stop(ctx context.Context) error {
	namespace, name := p.deployment()
	if err := p.Do(ctx, "scale deployment "+name+" -n "+namespace+" --replicas=0"); err != nil {
		return err
	}
	return p.Await(ctx, 2*time.Minute, p.Name+" to stop", func(ctx context.Context) (bool, error) {
		for _, program := range p.operator() {
			if running, err := program.Settled(ctx); err != nil || running {
				return false, err
			}
		}
		return true, nil
	})
}

// token is nil unless a service account is deleted.
func (p *play) token(ctx context.Context, deletes string) (*rest.Config, error) {
	account, is := strings.CutPrefix(deletes, "serviceaccount ")
	if !is {
		return nil, nil
	}
	name, namespace, _ := strings.Cut(account, " -n ")
	config, err := p.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	_, err = refused(ctx, config)
	return config, err
}

// The operator continues for 10 s, while the API server caches tokens (k8s.io/kubernetes,
// pkg/kubeapiserver/options/authentication.go).
func (p *play) awaitRefused(ctx context.Context, token *rest.Config) error {
	if token == nil {
		return nil
	}
	return p.Await(ctx, time.Minute, "the token of a service account that is gone to be refused", func(ctx context.Context) (bool, error) {
		return refused(ctx, token)
	})
}

func refused(ctx context.Context, config *rest.Config) (bool, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, err
	}
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsUnauthorized(err) {
		return true, nil
	}
	return false, err
}

func (p *play) trap(ctx context.Context, t Trap) error {
	name := p.name()
	if err := p.create(ctx, t.Manifests, name); err != nil {
		return err
	}
	for _, command := range t.Do {
		if err := p.Do(ctx, own(command, name)); err != nil {
			return err
		}
	}
	first := &deletion{Row: Row{Situation: t.Name, Deleted: rowName(t.Delete), Source: t.Source}, delete: own(t.Delete, name)}
	if err := p.ask(ctx, lag, first); err != nil {
		return err
	}
	if err := p.delete(ctx, first); err != nil {
		return err
	}
	if t.Leaves != "" && first.gone {
		next := &deletion{Row: Row{Situation: t.Name + ", after it", Deleted: rowName(t.Leaves), Source: t.Source}, delete: own(t.Leaves, name)}
		if err := p.ask(ctx, lag, next); err != nil {
			return err
		}
		if err := p.delete(ctx, next); err != nil {
			return err
		}
		if !next.gone {
			first.Really = Leaves
		}
		p.keep(first, next)
	} else {
		p.keep(first)
	}
	return p.restore(ctx, []string{name})
}

func (p *play) operator() []*lab.Program {
	return slices.DeleteFunc(slices.Clone(p.programs), func(program *lab.Program) bool {
		first := p.programs[0]
		return program.Namespace != first.Namespace || program.Deployment != first.Deployment
	})
}

func (p *play) keep(rows ...*deletion) {
	for _, a := range rows {
		p.rows = append(p.rows, a.Row)
		undecided := slices.ContainsFunc(a.answers(), func(of answer) bool { return !of.decisive() })
		if wrong := a.Wrong(); wrong != "" || undecided {
			fmt.Fprintf(p.progress, "%s: %s: %s\n", a.Name(), cmp.Or(wrong, "not decided"), a.details)
		}
	}
}

func (p *play) name() string {
	p.names++
	return fmt.Sprintf("%s-%d", p.Name, p.names)
}

func (p *play) setUp(ctx context.Context, t Target, name string) error {
	if err := p.create(ctx, t.Manifests, name); err != nil {
		return err
	}
	for _, command := range append([]string{"get " + t.Object + " -o yaml => " + t.Finalizer}, t.Ready...) {
		if err := p.Do(ctx, own(command, name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) create(ctx context.Context, manifests, name string) error {
	for _, objects := range strings.Split("{apiVersion: v1, kind: Namespace, metadata: {name: $NS}}\n---\n"+manifests, "\n--- # later\n") {
		if err := p.Create(ctx, own(objects, name)); err != nil {
			return err
		}
	}
	return nil
}

// bringAbout waits for leases, which outlive their holders.
func (p *play) bringAbout(ctx context.Context, s situation) error {
	namespace, name := p.deployment()
	if s.crashes {
		for _, program := range p.operator() {
			program.Break(true)
		}
		crashing, stop := context.WithCancel(ctx)
		p.stopCrash = stop
		if err := p.Node("steady").Crash(crashing, namespace, name); err != nil {
			return err
		}
	}
	for _, command := range s.do {
		if err := p.Do(ctx, command); err != nil {
			return err
		}
	}
	err := p.Await(ctx, 2*time.Minute, p.Name+" to do as its Deployment says", func(ctx context.Context) (bool, error) {
		for _, program := range p.operator() {
			if running, err := program.Settled(ctx); err != nil || running && s.stops {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil || !s.stops {
		return err
	}
	return p.awaitLeases(ctx, time.Now())
}

// Leases renewed after since do not count.
func (p *play) awaitLeases(ctx context.Context, since time.Time) error {
	namespace, _ := p.deployment()
	client, err := p.Client()
	if err != nil {
		return err
	}
	return p.Await(ctx, 2*time.Minute, "the leases of "+p.Name+" to pass", func(ctx context.Context) (bool, error) {
		leases, err := client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(leases.Items, func(lease coordinationv1.Lease) bool {
			spec := lease.Spec
			return spec.RenewTime != nil && spec.LeaseDurationSeconds != nil && spec.HolderIdentity != nil && *spec.HolderIdentity != "" &&
				spec.RenewTime.Before(&metav1.MicroTime{Time: since}) && // otherwise it belongs to another program in the namespace
				time.Since(spec.RenewTime.Time) < time.Duration(*spec.LeaseDurationSeconds)*time.Second
		}), nil
	})
}

const (
	// The webhook lists leases at intervals.
	lag = ownership.LeaseInterval + 5*time.Second
	// The webhook may take this long to notice the lease of a stopped operator.
	outlived = 90 * time.Second
)

// leftOut reports whether the webhook is not called: the object is being deleted, or is a custom resource,
// Secret or ConfigMap without finalizers (worth-asking in deploy/chart).
func (p *play) leftOut(ctx context.Context, object []string) (bool, error) {
	r, err := p.Kubectl(ctx, append([]string{"get", "-o", "jsonpath={.apiVersion}/{.kind} {.metadata.deletionTimestamp} {.metadata.finalizers}"}, object...)...)
	if err != nil || r.Code != 0 {
		return false, fmt.Errorf("get %s: %w: %s", object, err, r.Stderr)
	}
	fields := strings.SplitN(r.Stdout, " ", 3)
	builtIn := !slices.Contains([]string{"v1/Secret", "v1/ConfigMap"}, fields[0]) && (!strings.Contains(fields[0], ".") || strings.Contains(fields[0], ".k8s.io/"))
	return fields[1] != "" || !builtIn && fields[2] == "", nil
}

// ask repeats until answers are the same twice, up to patience while some are uncertain, or the webhook and
// check disagree.
func (p *play) ask(ctx context.Context, patience time.Duration, rows ...*deletion) error {
	began, before := time.Now(), map[string]string{}
	return p.Await(ctx, 3*time.Minute, "answers that stay", func(ctx context.Context) (bool, error) {
		snapshot, err := p.Snapshot(ctx, scenario.Scenario{})
		if err != nil {
			return false, err
		}
		file := filepath.Join(p.Dir(), p.Name+".snapshot.json")
		if err := os.WriteFile(file, snapshot, 0o600); err != nil {
			return false, err
		}
		now := map[string]string{}
		for _, a := range rows {
			object := strings.Fields(a.delete)
			r, err := p.Kubectl(ctx, append([]string{"delete", "--dry-run=server"}, object...)...)
			if err != nil || r.Code != 0 {
				return false, fmt.Errorf("delete %s: %w: %s", a.delete, err, r.Stderr)
			}
			live, liveErr := p.Check(ctx, object...)
			if a.excluded, err = p.leftOut(ctx, object); err != nil {
				return false, err
			}
			a.hear(r.Stderr)
			fromSnapshot, snapshotErr := p.CheckSnapshot(ctx, file, object...)
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			a.Check, a.Snapshot = verdict(live, liveErr), verdict(fromSnapshot, snapshotErr)
			a.details = fmt.Sprintf("webhook: %q; check: %s; snapshot: %s", scenario.Warnings(r.Stderr), say(live, liveErr), say(fromSnapshot, snapshotErr))
			now[a.delete] = strings.Join([]string{a.Webhook, a.Check, a.Snapshot}, " ")
		}
		same := maps.Equal(before, now)
		before = now
		unsure := slices.ContainsFunc(rows, func(a *deletion) bool {
			return a.Webhook != Unasked && (a.Webhook != scenario.Hangs && a.Webhook != scenario.Completes || a.Webhook != a.Check)
		})
		return same && (!unsure || time.Since(began) > patience), nil
	})
}

// A predicted completion gets more time.
func (p *play) delete(ctx context.Context, rows ...*deletion) error {
	for _, a := range rows {
		r, err := p.Kubectl(ctx, append([]string{"delete", "--wait=false"}, strings.Fields(a.delete)...)...)
		if err != nil || r.Code != 0 {
			return fmt.Errorf("delete %s: %w: %s", a.delete, err, r.Stderr)
		}
		a.hear(r.Stderr)
	}
	began := time.Now()
	for _, a := range rows {
		limit := hangsAfter
		if slices.Contains([]string{a.Webhook, a.Check, a.Snapshot}, scenario.Completes) || a.Situation == runs {
			limit = completesWithin
		}
		var err error
		if a.gone, err = p.Gone(ctx, scenario.Scenario{Delete: a.delete}, max(time.Second, limit-time.Since(began))); err != nil {
			return err
		}
		if a.Really = scenario.Hangs; a.gone {
			a.Really = scenario.Completes
		}
	}
	return nil
}

func (p *play) restore(ctx context.Context, names []string) error {
	if p.stopCrash != nil {
		p.stopCrash()
		p.stopCrash = nil
		for _, program := range p.operator() {
			program.Break(false)
		}
	}
	if err := p.install(ctx); err != nil {
		return err
	}
	for _, program := range p.programs {
		if err := p.Await(ctx, 3*time.Minute, p.Name+" to run again", program.Settled); err != nil {
			return err
		}
	}
	for _, name := range names {
		// Deleted objects cannot be patched or deleted.
		commands := []string{"delete namespace " + name + " --timeout=20s"}
		for _, t := range p.Targets {
			commands = append(commands, "delete "+t.Object+" --ignore-not-found --timeout=10s", "patch "+t.Object+` --type=merge -p '{"metadata":{"finalizers":null}}'`)
		}
		for _, command := range slices.Concat(commands, p.Tidy) {
			if _, err := p.Kubectl(ctx, scenario.Words(own(command, name))...); err != nil {
				return err
			}
		}
		gone, err := p.Gone(ctx, scenario.Scenario{Delete: "namespace " + name}, completesWithin)
		if err == nil && !gone {
			err = fmt.Errorf("namespace %s does not go: say under tidy what holds it", name)
		}
		if err != nil {
			return err
		}
	}
	return p.define(ctx)
}

func (p *play) install(ctx context.Context) error {
	for i, program := range p.Programs {
		namespace, name := p.programs[i].Namespace, p.programs[i].Deployment
		if err := p.Await(ctx, time.Minute, "namespace "+namespace+" to be free", func(ctx context.Context) (bool, error) {
			r, err := p.Kubectl(ctx, "get", "namespace", namespace, "--ignore-not-found", "-o", "jsonpath={.status.phase}")
			return r.Stdout != "Terminating", err
		}); err != nil {
			return err
		}
		if err := p.Install(ctx, program.Component); err != nil {
			return err
		}
		if err := p.Do(ctx, "scale deployment "+name+" -n "+namespace+" --replicas=1"); err != nil {
			return err
		}
	}
	return nil
}

// define reinstalls objects deleted with a definition whose deletion hung.
func (p *play) define(ctx context.Context) error {
	gone := false
	for _, t := range p.Targets {
		if t.Definition == "" {
			continue
		}
		if err := p.Await(ctx, completesWithin, "definition "+t.Definition+" to go, or to be there", func(ctx context.Context) (bool, error) {
			r, err := p.Kubectl(ctx, "get", "crd", t.Definition, "--ignore-not-found", "-o", "jsonpath={.metadata.name} {.metadata.deletionTimestamp}")
			gone = gone || r.Stdout == ""
			return r.Stdout == "" || r.Stdout == t.Definition+" ", err
		}); err != nil {
			return err
		}
	}
	if !gone {
		return nil
	}
	return p.install(ctx)
}
