package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
	"github.com/termguard/termguard/scan"
)

// named returns no names if the deletion selects.
func (s Scenario) named() (names []answer.Name, options map[string]any, err error) {
	flags := pflag.NewFlagSet("delete", pflag.ContinueOnError)
	namespace := flags.StringP("namespace", "n", "", "")
	cascade := flags.String("cascade", "background", "")
	grace := flags.Int64("grace-period", -1, "")
	force := flags.Bool("force", false, "")
	if err := flags.Parse(strings.Fields(s.Delete)); err != nil {
		return nil, nil, fmt.Errorf("delete %s: %w", s.Delete, err)
	}
	if options, err = question.FromFlags(*cascade, *grace, *force); err != nil {
		return nil, nil, err
	}
	if names, err = answer.ParseNames(flags.Args()); err != nil {
		return nil, nil, err
	}
	for i := range names {
		names[i].Namespace = *namespace
	}
	return names, options, nil
}

type prediction struct {
	way    string
	report answer.Item
	world  *cluster.World
	like   string // the way whose answer it must equal, if any
}

// The review is evaluated over a snapshot.
const (
	asWebhook     = "the webhook"
	checkLive     = "check"
	scanLive      = "scan"
	checkSnapshot = "check over a snapshot"
	scanSnapshot  = "scan of a snapshot"
)

type archived struct {
	*snapshots.Archive
	place *scan.Place
}

// otherWays evaluates as check and scan do, in the cluster and over a snapshot. Scenarios share one reading
// of the cluster: dozens run at once.
func (g *Guarded) otherWays(ctx context.Context, s Scenario, input map[string]any, world *cluster.World) (answers []prediction, err error) {
	if s.Delete == "" || s.Asks != "" || s.departs() {
		return nil, nil
	}
	names, options, err := s.named()
	if err != nil || len(names) != 1 {
		return nil, err
	}
	engine, err := without("")
	if err != nil {
		return nil, err
	}
	result, err := engine.Evaluate(ctx, policies.Delete, input, world)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asWebhook, err)
	}
	answers = []prediction{{asWebhook, answer.Item{Verdict: result.Verdict(), Findings: result.Findings}, world, ""}}
	ask := func(way, like string, world *cluster.World, subject answer.Subject) error {
		report, err := answer.Ask(ctx, engine, world, answer.Question{Targets: []answer.Subject{subject}, Options: options})
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		answers = append(answers, prediction{way, report.Items[0], world, like})
		return nil
	}
	within := func(place *scan.Place, way, like string, subject answer.Subject) error {
		for kind, at := range place.Subjects() {
			if kind != scan.Nodes && at.String() == subject.String() { // of a node it asks about the drain
				return ask(way, like, place.World, at)
			}
		}
		return nil
	}

	subjects, missing, err := subjectsOf(ctx, g.Config(), names)
	if err != nil || len(missing) > 0 {
		return nil, fmt.Errorf("%s: %w", checkLive, errors.Join(append(missing, err)...))
	}
	subject := subjects[0]
	places, archives, reads := &g.places, &g.archived, cluster.Options{Try: cluster.Dialing(new(net.Dialer).DialContext)}
	if s.Stored {
		places, archives, reads = new(shared[*scan.Place]), new(shared[archived]), cluster.Options{}
	}
	var place *scan.Place
	var report answer.Answer
	// While another scenario's definition comes or goes, no answer is sure. On a busy machine, reading takes
	// a minute.
	err = g.Await(ctx, readLimit, "a sure answer of check", func(ctx context.Context) (bool, error) {
		place, err = places.next(func() (*scan.Place, error) {
			return scan.FromCluster(context.WithoutCancel(ctx), g.Config(), reads, "", nil, []scan.Kind{}, slog.New(slog.DiscardHandler))
		})
		if err != nil {
			return false, err
		}
		report, err = answer.Ask(ctx, engine, place.World, answer.Question{Targets: []answer.Subject{subject}, Options: options})
		return report.Verdict != policies.Unknown, err
	})
	if err != nil && (report.Verdict == "" || !errors.Is(err, context.DeadlineExceeded)) {
		return nil, fmt.Errorf("%s: %w", checkLive, err)
	}
	answers = append(answers, prediction{checkLive, report.Items[0], place.World, asWebhook})
	if err := within(place, scanLive, checkLive, subject); err != nil {
		return nil, err
	}

	read, err := archives.next(func() (archived, error) {
		archive, err := g.archive(ctx, s)
		if err != nil {
			return archived{}, err
		}
		place, err := scan.FromCluster(context.WithoutCancel(ctx), live.Over(archive), archive.Options(cluster.Options{}), "", nil, []scan.Kind{}, slog.New(slog.DiscardHandler))
		return archived{archive, place}, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", scanSnapshot, err)
	}
	subjects, missing, err = subjectsOf(ctx, live.Over(read), names[:1])
	if err != nil || len(missing) > 0 {
		return nil, fmt.Errorf("%s: %w", checkSnapshot, errors.Join(append(missing, err)...))
	}
	if err := ask(checkSnapshot, "", read.place.World, subjects[0]); err != nil {
		return nil, err
	}
	return answers, within(read.place, scanSnapshot, checkSnapshot, subjects[0])
}

func subjectsOf(ctx context.Context, config *rest.Config, names []answer.Name) (subjects []answer.Subject, missing []error, err error) {
	types, err := answer.Served(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	user, _ := answer.Whoami(ctx, config) // on an error the user is unknown
	return types.Subjects(ctx, config, user, names)
}

func (o *Outcome) others(answers []prediction) (wrong []string) {
	said := map[string]prediction{}
	for _, a := range answers {
		said[a.way] = a
		if like, is := said[a.like]; is {
			if diff := like.differs(a); diff != "" {
				wrong = append(wrong, fmt.Sprintf("%s says %s, and %s %s: -%[1]s +%[3]s\n%s", a.like, like.report.Verdict, a.way, a.report.Verdict, diff))
			}
		}
		if a.way == asWebhook || a.report.Verdict == policies.Unknown && (a.way == checkSnapshot || a.way == scanSnapshot) {
			continue // switchOff judges the one, and the others claim nothing
		}
		way := *o
		way.Predicted, way.Warnings, way.Wrong = string(a.report.Verdict), nil, nil
		for _, f := range a.report.Findings {
			way.Warnings = append(way.Warnings, f.Message)
		}
		way.judge()
		for _, text := range way.Wrong {
			wrong = append(wrong, fmt.Sprintf("%s: %s; it says %s, %q; unseen: %q", a.way, text, way.Predicted, way.Warnings, a.report.Unseen))
		}
	}
	return wrong
}

// Any word counts if both have the same facts, else the verdict, the policies and the certainty of findings.
func (a prediction) differs(other prediction) string {
	if diff := cmp.Diff(a.gist(), other.gist()); diff != "" || a.world != other.world {
		return diff
	}
	return cmp.Diff(a.report.Findings, other.report.Findings)
}

func (a prediction) gist() []string {
	gist := []string{string(a.report.Verdict)}
	for _, f := range a.report.Findings {
		if f.Severity != policies.Info {
			gist = append(gist, f.Policy+": "+string(f.Certainty))
		}
	}
	slices.Sort(gist)
	return slices.Compact(gist)
}
