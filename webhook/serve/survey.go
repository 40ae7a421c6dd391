package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/scan"
)

const (
	// surveyEvery is how often a round begins; at once where the last took longer.
	surveyEvery = time.Minute
	// surveyShare is which part of one core a survey has, a twentieth: it works for
	// surveySlice, which is some ten questions, and rests for 19 times as long.
	surveyShare = 20
	surveySlice = 5 * time.Millisecond
	// surveyWait is how long it waits before it looks again whether a review is under way.
	surveyWait = 5 * time.Millisecond
)

// survey tells in metrics what could not be deleted now, and what is Terminating.
type survey struct {
	// round asks about everything once, with a rest before each look at the facts.
	round func(ctx context.Context, rest func(context.Context) error) (scan.Tally, error)
	// busy tells whether reviews are under way.
	busy func() bool
	log  *slog.Logger

	undeletable *prometheus.GaugeVec
	terminating *prometheus.GaugeVec
	last        scan.Tally
	reports     *reports // nil where none are wanted
}

func newSurvey(registry prometheus.Registerer, round func(context.Context, func(context.Context) error) (scan.Tally, error), busy func() bool, log *slog.Logger) *survey {
	factory := promauto.With(registry)
	return &survey{
		round: round, busy: busy, log: log,
		undeletable: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "termguard_undeletable",
			Help: "Objects whose deletion would certainly hang now, by the policy that says so; with --survey.",
		}, []string{"policy", "kind"}),
		terminating: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "termguard_terminating_seconds",
			Help: "For how long the oldest of the objects that are being deleted has been, by the policy that tells why; with --survey.",
		}, []string{"policy", "kind"}),
	}
}

// run surveys until ctx ends.
func (s *survey) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		p := pace{busy: s.busy, since: began}
		tally, err := s.round(ctx, p.rest)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Warn("what could not be deleted was not counted", "error", err)
		} else {
			s.tell(tally)
			if s.reports != nil {
				s.reports.write(ctx, tally)
			}
		}
		if background.Pause(ctx, surveyEvery-time.Since(began)) != nil {
			return
		}
	}
}

// pace keeps a survey to its share, and has it do nothing while reviews are under way.
type pace struct {
	busy  func() bool
	since time.Time // it works
}

func (p *pace) rest(ctx context.Context) error {
	if worked := time.Since(p.since); worked >= surveySlice {
		if err := background.Pause(ctx, worked*(surveyShare-1)); err != nil {
			return err
		}
		p.since = time.Now()
	}
	for waits := time.Now(); p.busy(); {
		if err := background.Pause(ctx, surveyWait); err != nil {
			return err
		}
		p.since, waits = p.since.Add(time.Since(waits)), time.Now()
	}
	return ctx.Err()
}

// tell replaces what the round before told.
func (s *survey) tell(t scan.Tally) {
	for by := range s.last.Undeletable {
		if _, still := t.Undeletable[by]; !still {
			s.undeletable.DeleteLabelValues(by.Policy, string(by.Kind))
		}
	}
	for by := range s.last.Terminating {
		if _, still := t.Terminating[by]; !still {
			s.terminating.DeleteLabelValues(by.Policy, string(by.Kind))
		}
	}
	for by, n := range t.Undeletable {
		s.undeletable.WithLabelValues(by.Policy, string(by.Kind)).Set(float64(n))
	}
	for by, long := range t.Terminating {
		s.terminating.WithLabelValues(by.Policy, string(by.Kind)).Set(long.Seconds())
	}
	s.last = t
}
