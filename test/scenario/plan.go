package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// Results of the plan of `termguard check` for a deletion that hangs.
const (
	Runs = "runs"
	// Force needs commands of kind force, too.
	Force = "force"
	// Restores needs a cure first.
	Restores = "restores"
	// Person needs judgement: the cure replaces it.
	Person = "person"
)

// In the order of their price.
var plans = []string{Restores, Runs, Force, Person}

// Report is about an object and its dependents, as of a Kustomization.
type Report struct {
	answer.Item
	Plan []answer.Step
}

func (r *Report) UnmarshalJSON(text []byte) error {
	var a answer.Answer
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	if len(a.Items) == 0 {
		return errors.New("no objects, want 1")
	}
	r.Item, r.Plan = a.Items[0], a.Plan
	for _, item := range a.Items[1:] {
		r.Findings = append(r.Findings, item.Findings...)
		r.WaitsFor = append(r.WaitsFor, item.WaitsFor...)
		r.Unseen = append(r.Unseen, item.Unseen...)
	}
	r.Verdict = a.Verdict
	return nil
}

// Check names the object as for kubectl.
func (g *Guarded) Check(ctx context.Context, args ...string) (Report, error) {
	return g.check(ctx, append([]string{"--kubeconfig", g.Kubeconfig()}, args...)...)
}

// consult is Check at the time of a scenario.
func (g *Guarded) consult(ctx context.Context, s Scenario, args ...string) (Report, error) {
	if s.HoursLater == 0 {
		return g.Check(ctx, args...)
	}
	snapshot, err := g.Snapshot(ctx, s)
	if err != nil {
		return Report{}, err
	}
	file := filepath.Join(g.Dir(), s.Name+".snapshot.json")
	if err := os.WriteFile(file, snapshot, 0o600); err != nil {
		return Report{}, err
	}
	return g.CheckSnapshot(ctx, file, args...)
}

func (g *Guarded) CheckSnapshot(ctx context.Context, file string, args ...string) (Report, error) {
	return g.check(ctx, append([]string{"--snapshot", file}, args...)...)
}

// Snapshot runs termguard snapshot at the time of a scenario.
func (g *Guarded) Snapshot(ctx context.Context, s Scenario) ([]byte, error) {
	shares, args := &g.snapshots, []string{"snapshot", "--dial-webhooks"}
	if s.Stored {
		shares, args = new(shared[[]byte]), args[:1]
	}
	snapshot, err := shares.next(func() ([]byte, error) { return g.reads(context.WithoutCancel(ctx), args...) })
	if err != nil || s.HoursLater == 0 {
		return snapshot, err
	}
	first, rest, _ := bytes.Cut(snapshot, []byte("\n"))
	var about struct { // in the order of the fields that a snapshot begins with
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Now        time.Time `json:"now"`
	}
	if err := json.Unmarshal(first, &about); err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	about.Now = time.Now().Add(time.Duration(s.HoursLater) * time.Hour).UTC()
	first, err = json.Marshal(about)
	return slices.Concat(first, []byte("\n"), rest), err
}

func (g *Guarded) check(ctx context.Context, args ...string) (Report, error) {
	binary, err := Binary()
	if err != nil {
		return Report{}, err
	}
	cmd := exec.CommandContext(ctx, binary, append([]string{"check", "-o", "json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	} else if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return Report{}, fmt.Errorf("termguard check %v: %w: %s", args, err, &stderr)
	}
	var report Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		return report, fmt.Errorf("termguard check %v: %w", args, err)
	}
	return report, nil
}

func (g *Guarded) differs(ctx context.Context, report Report) (string, error) {
	if report.Target.Resource == "nodes" {
		return "", nil
	}
	scanned, err := g.scans.next(func() (*scan.Scan, error) { return g.scan(context.WithoutCancel(ctx)) })
	if err != nil {
		return "", err
	}
	for _, item := range scanned.Items {
		if item.Target != report.Target {
			continue
		}
		held := map[string]bool{}
		for _, h := range item.HeldBy {
			for _, c := range scanned.Causes {
				for _, policy := range c.Policies {
					held[policy] = held[policy] || c.ID == h.Cause
				}
			}
		}
		for _, f := range report.Findings {
			if f.Severity != policies.Info && f.Policy != "already-terminating" && !held[f.Policy] {
				return fmt.Sprintf("check names %s, scan does not: %v", f.Policy, item.HeldBy), nil
			}
		}
		if item.Verdict != report.Verdict {
			return fmt.Sprintf("check says %s, scan %s", report.Verdict, item.Verdict), nil
		}
		return "", nil
	}
	return fmt.Sprintf("check says %s, and scan does not ask about it", report.Verdict), nil
}

func (g *Guarded) scan(ctx context.Context) (*scan.Scan, error) {
	out, err := g.reads(ctx, "scan", "-o", "json", "--fail-on", "never")
	if err != nil {
		return nil, err
	}
	var result scan.Scan
	return &result, json.Unmarshal(out, &result)
}

func (g *Guarded) reads(ctx context.Context, args ...string) ([]byte, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--kubeconfig", g.Kubeconfig())...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("termguard %s: %w: %s", args[0], err, &stderr)
	}
	return stdout.Bytes(), nil
}

// Dozens of scenarios wait for one reading.
const readLimit = 3 * time.Minute

func (g *Guarded) carryOut(ctx context.Context, o *Outcome) ([]string, error) {
	s := o.Scenario
	report, wrong, err := g.askOfHung(ctx, s)
	if s.Reality == Varies && (err != nil || len(wrong) > 0) {
		// A race may end late, before any step.
		if gone, late := g.Gone(ctx, s, time.Second); late == nil && gone {
			o.Real = Completes
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	var kinds, ran []string
	if s.ByDelete {
		ran = append(ran, "termguard delete")
		said, err := g.deleteAll(ctx, o)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, said...)
	}
	for _, step := range report.Plan {
		kinds = append(kinds, string(step.Kind))
		if s.ByDelete || step.Command == "" || !slices.Contains(s.carriesOut(), step.Kind) {
			continue
		}
		ran = append(ran, step.Command)
		r, err := g.Shell(ctx, step.Command)
		if err != nil {
			return nil, err
		}
		if r.Code != 0 {
			wrong = append(wrong, fmt.Sprintf("a command of the plan fails: %s: %s", step.Command, strings.TrimSpace(r.Stderr)))
		}
	}
	switch {
	case s.Plan == Restores && (len(kinds) == 0 || kinds[0] != string(policies.Mend)):
		wrong = append(wrong, fmt.Sprintf("the plan does not begin by restoring anything: %v", kinds))
	case len(kinds) == 0:
		wrong = append(wrong, "there is no plan")
	}
	for _, command := range s.Cure {
		ran = append(ran, "kubectl "+command)
		r, err := g.Kubectl(ctx, Words(command)...)
		late := s.Reality == Varies && strings.Contains(r.Stderr, "(NotFound)") // the race ended well meanwhile
		if err != nil || r.Code != 0 && !late {
			return nil, fmt.Errorf("cure: kubectl %s: %w: %s", command, err, r.Stderr)
		}
	}
	if s.Plan == Restores {
		if err := g.start(ctx, s.Live, Cured); err != nil {
			return nil, err
		}
	}
	if len(ran) == 0 {
		if s.Plan != Person {
			wrong = append(wrong, "the plan has no command to run")
		}
		return wrong, nil
	}
	// A deleted node's pod is collected after a minute, and the namespace controller pauses as long.
	gone, err := g.Gone(ctx, s, 5*time.Minute)
	if err == nil && !gone {
		wrong = append(wrong, "the way out does not help: "+strings.Join(ran, "; "))
	}
	return wrong, err
}

func (g *Guarded) heed(ctx context.Context, s Scenario) error {
	report, err := g.Check(ctx, s.target()...)
	if err != nil {
		return err
	}
	ran := 0
	for _, step := range report.Plan {
		if step.Command == "" || step.Kind == answer.Delete || step.Kind == policies.Force {
			continue
		}
		ran++
		if r, err := g.Shell(ctx, step.Command); err != nil || r.Code != 0 {
			return fmt.Errorf("%s: %w: %s", step.Command, err, r.Stderr)
		}
	}
	if ran == 0 {
		return fmt.Errorf("there is nothing to do in the plan: %v", report.Plan)
	}
	for _, o := range s.Owns { // the garbage collector deletes these after their owner
		if gone, err := g.Gone(ctx, Scenario{Delete: o.Owned}, s.Within.Duration); err != nil || !gone {
			return fmt.Errorf("%s is not deleted with %s: %w", o.Owned, o.Owner, err)
		}
	}
	return nil
}

// Errors are of its blocker or answers.
func (g *Guarded) askOfHung(ctx context.Context, s Scenario) (report Report, wrong []string, err error) {
	if s.Remains != "" {
		held, err := g.remains(ctx, s)
		if err != nil {
			return report, nil, err
		}
		if !held {
			wrong = append(wrong, "the named blocker is gone, so something else holds the deletion: "+s.Remains)
		}
	}
	report, err = g.consult(ctx, s, s.target()...)
	if err != nil {
		return report, nil, err
	}
	var said []string
	for _, f := range report.Findings {
		said = append(said, f.Message)
	}
	if !strings.Contains(strings.Join(said, "\n"), s.Blocker) {
		wrong = append(wrong, fmt.Sprintf("of the object that is Terminating, check does not name the blocker %q: %q", s.Blocker, said))
	}
	if s.HoursLater == 0 {
		latest, tries := report, 0
		if err := g.Await(ctx, readLimit, "scan saying what check says", func(ctx context.Context) (bool, error) {
			if tries++; tries > 1 { // the state may have changed
				var err error
				if latest, err = g.Check(ctx, s.target()...); err != nil {
					return false, err
				}
			}
			differs, err := g.differs(ctx, latest)
			if said := "scan and check differ: "; differs != "" && !slices.ContainsFunc(wrong, func(w string) bool { return strings.HasPrefix(w, said) }) {
				wrong = append(wrong, said+differs)
			} else if differs == "" {
				wrong = slices.DeleteFunc(wrong, func(w string) bool { return strings.HasPrefix(w, said) })
			}
			return differs == "", err
		}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return report, nil, err
		}
	}
	return report, wrong, nil
}

func (s Scenario) carriesOut() []policies.StepKind {
	switch {
	case len(s.Cure) > 0:
		return nil
	case s.Plan == Restores:
		return []policies.StepKind{policies.Mend}
	case s.Plan == Force:
		return []policies.StepKind{policies.Remove, policies.Force}
	default:
		return []policies.StepKind{policies.Remove}
	}
}

func (s Scenario) target() []string {
	if s.Edit != nil {
		return strings.Fields(s.Remains)
	}
	if namespace, name, evicted := strings.Cut(s.Evict, "/"); evicted {
		return []string{"pod", name, "-n", namespace}
	}
	return slices.DeleteFunc(strings.Fields(s.Delete), func(arg string) bool { return strings.HasPrefix(arg, "--") })
}
