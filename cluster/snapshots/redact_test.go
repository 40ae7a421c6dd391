package snapshots_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// open opens a snapshot with this text.
func open(t *testing.T, text []byte) *snapshots.Archive {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := snapshots.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// again makes a snapshot of a snapshot.
func again(t *testing.T, a *snapshots.Archive, redacted bool) []byte {
	t.Helper()
	options := a.Options(cluster.Options{})
	var out bytes.Buffer
	now := time.Now()
	if options.Now != nil {
		now = options.Now()
	}
	recorder := snapshots.NewRecorder(&out, now, redacted)
	config := live.Over(a)
	config.Wrap(recorder.Wrap)
	world, err := live.Collect(t.Context(), config, options, nil, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := live.ReadWarnings(t.Context(), config, world, "", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// answers evaluates the policies about all objects, and returns the verdicts and findings without names.
func answers(t *testing.T, engine *policies.Engine, a *snapshots.Archive) (lines []string) {
	t.Helper()
	place, err := scan.FromCluster(t.Context(), live.Over(a), a.Options(cluster.Options{}), "", nil, []scan.Kind{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for kind, subject := range place.Subjects() {
		answer, err := answer.Ask(t.Context(), engine, place.World, answer.Question{Targets: []answer.Subject{subject}})
		if err != nil || len(answer.Items) != 1 {
			t.Fatal(err)
		}
		report := answer.Items[0]
		line := fmt.Sprint(kind, " ", report.Verdict)
		for _, f := range report.Findings {
			line += fmt.Sprint(" ", f.Policy, " ", f.Certainty)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// otherwise are fixtures over which a redacted snapshot has another answer: it leaves out the content of
// ConfigMaps, which admission policies and webhooks see, and reports of node probes. `check` and `scan` say so.
var otherwise = []string{
	"admission_policy_blocks_delete/testdata/hang_some_objects.yaml",
	"apiservice_backend_removed/testdata/hang_service_of_template.yaml", // unrecorded, too
	"failing_webhook_blocks_delete/testdata/hang_some_objects.yaml",
	"owner_reports_failure/testdata/hang_phase_leaving.yaml", // unrecorded, too
	"refused_request/testdata/hang_condition.yaml",
	"refused_request/testdata/hang_policy.yaml",
	"refused_request/testdata/hang_selected.yaml",
	"refused_request/testdata/hang_untrusted.yaml",
	"refused_request/testdata/ok_not_selected.yaml",
	"webhook_backend_in_namespace/testdata/hang_labels.yaml",
}

var unrecorded = []string{"hang_service_of_template.yaml", "hang_phase_leaving.yaml"}

// TestSameAnswers: over a snapshot of a snapshot the policies find the same, and over a redacted one, too.
func TestSameAnswers(t *testing.T) {
	race.Skip(t)
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../policies/*/testdata/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	for i, file := range files {
		if testing.Short() && i%5 > 0 {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "manifests: true") {
			continue
		}
		t.Run(strings.TrimPrefix(file, "../../policies/"), func(t *testing.T) {
			t.Parallel()
			first := open(t, text)
			want := answers(t, engine, first)
			// Without a definition, or in a placeholder's namespace, nothing is recorded.
			if diff := cmp.Diff(want, answers(t, engine, open(t, again(t, first, false)))); diff != "" && !slices.Contains(unrecorded, filepath.Base(file)) {
				t.Errorf("of a snapshot: -want, +got:\n%s", diff)
			}
			if strings.Contains(string(text), "termguard.dev/probe") {
				return
			}
			diff, listed := cmp.Diff(want, answers(t, engine, open(t, again(t, first, true)))), slices.Contains(otherwise, strings.TrimPrefix(file, "../../policies/"))
			if diff != "" && !listed {
				t.Errorf("redacted: -want, +got:\n%s", diff)
			}
			if diff == "" && listed {
				t.Error("redacted: the same answer: take it off the list")
			}
		})
	}
}
