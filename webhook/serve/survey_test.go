package serve

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/termguard/termguard/scan"
)

// TestSurveyPace: a survey works for a twentieth of the time, and not at all while reviews are
// under way.
func TestSurveyPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		began := time.Now()
		p := pace{busy: busy.Load, since: began}
		worked := time.Duration(0)
		for range 10_000 {
			if err := p.rest(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // a question
			worked += time.Millisecond
		}
		if share := float64(worked) / float64(time.Since(began)); share > 0.0505 || share < 0.045 {
			t.Errorf("it works for %.3f of the time, want a twentieth", share)
		}
		busy.Store(true)
		before, free := time.Now(), 3*time.Second
		time.AfterFunc(free, func() { busy.Store(false) })
		if err := p.rest(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(before); waited < free || waited > free+2*surveyWait+surveySlice*surveyShare {
			t.Errorf("it goes on %s after a review began that takes %s", waited, free)
		}
		busy.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p.rest(ctx) == nil {
			t.Error("it goes on after the end")
		}
	})
}

// TestSurveyTells: metrics are those of the last round that ended, and a round begins every
// minute.
func TestSurveyTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := 0
		registry := prometheus.NewRegistry()
		s := newSurvey(registry, func(context.Context, func(context.Context) error) (scan.Tally, error) {
			time.Sleep(10 * time.Second)
			rounds++
			policy := []string{"in-use", "orphaned-finalizer"}[min(rounds-1, 1)] // what was mended is not told any more
			return scan.Tally{
				Undeletable: map[scan.By]int{{Policy: policy, Kind: scan.Namespaces}: rounds},
				Terminating: map[scan.By]time.Duration{{Policy: policy, Kind: scan.Custom}: 90 * time.Second},
			}, nil
		}, func() bool { return false }, slog.New(slog.DiscardHandler))
		said := func() (all []string) {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				for _, m := range family.GetMetric() {
					all = append(all, fmt.Sprintf("%s %s %s %v", family.GetName(), m.GetLabel()[1].GetValue(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
				}
			}
			return all
		}
		if before := said(); len(before) > 0 {
			t.Errorf("before the first round it tells %q", before)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go s.run(ctx)
		time.Sleep(3*time.Minute + 20*time.Second)
		synctest.Wait()
		want := []string{"termguard_terminating_seconds orphaned-finalizer custom 90", "termguard_undeletable orphaned-finalizer namespaces 4"}
		if diff := cmp.Diff(want, said()); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		cancel()
		synctest.Wait()
	})
}
