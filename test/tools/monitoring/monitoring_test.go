// Package monitoring checks the chart's alerts and dashboard against termguard's actual metrics.
package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
)

const chart = "../../../deploy/chart/"

// SCRAPED=FILE go test -run TestLessons in test/scenario rewrites it.
const scraped = "testdata/scraped.txt"

// failOpen exists only after a call has failed open (k8s.io/apiserver/pkg/admission/metrics/metrics.go).
const failOpen = "apiserver_admission_webhook_fail_open_count"

// TestAlerts runs promtool's tests of when each alert fires.
func TestAlerts(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "run", "-tags", "remove_all_sd",
		"github.com/prometheus/prometheus/cmd/promtool", "test", "rules", "testdata/alerts.test.yaml").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tests, err := os.ReadFile("testdata/alerts.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range alerts(t) {
		for _, want := range []string{"alertname: " + rule.Alert + "\n    exp_alerts:", "alertname: " + rule.Alert + "}"} {
			if !strings.Contains(string(tests), want) {
				t.Errorf("%s is not seen both to fire and to keep quiet: nothing says %q", rule.Alert, want)
			}
		}
	}
}

func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(chart+"alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errors.Join(errs...))
	}
	var rules []rulefmt.Rule
	for _, g := range groups.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func TestAlertsNames(t *testing.T) {
	metrics := names(t)
	for _, rule := range alerts(t) {
		asks(t, rule.Alert, rule.Expr, metrics)
	}
}

// TestDashboard checks that each query uses existing metrics and returns data from the scrape.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(chart + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
			GridPos            struct{ X, Y, W, H int }
			FieldConfig        struct{ Defaults struct{ NoValue string } }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	metrics, storage := names(t), newStorage(t)
	shown := 0
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	at := map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("%s: want a description and a query", panel.Title)
		}
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				cell := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				if other := at[cell]; other != "" || cell[0] >= 24 {
					t.Fatalf("%s lies over %q, or beside the dashboard", panel.Title, other)
				}
				at[cell] = panel.Title
			}
		}
		for _, target := range panel.Targets {
			// Panels that only count events need a text for zero.
			expr := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", ") > 0", ")").Replace(target.Expr)
			if strings.Contains(target.Expr, "> 0") && panel.FieldConfig.Defaults.NoValue == "" {
				t.Errorf("%s: want a noValue for when nothing is more than 0", panel.Title)
			}
			if !asks(t, panel.Title, expr, metrics) {
				continue
			}
			query, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, end)
			if err != nil {
				t.Fatal(err)
			}
			result := query.Exec(t.Context())
			vector, err := result.Vector()
			switch {
			case err != nil:
				t.Errorf("%s: %s: %v", panel.Title, expr, err)
			case len(vector) > 0:
				shown++
			case happened(expr, metrics):
				t.Errorf("%s: %s shows nothing", panel.Title, expr)
			}
			query.Close()
		}
	}
	if shown < 15 {
		t.Errorf("only %d queries show anything", shown)
	}
}

// happened reports whether each metric of an expression was scraped: counters of events that did not happen are
// absent.
func happened(expr string, metrics map[string]bool) bool {
	for name, scraped := range metrics {
		if !scraped && strings.Contains(expr, name) {
			return false
		}
	}
	return true
}

func asks(t *testing.T, who, expr string, metrics map[string]bool) bool {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %s: %v", who, expr, err)
		return false
	}
	good := true
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			if _, is := metrics[s.Name]; !is {
				good = false
				t.Errorf("%s queries %s, which is not a metric", who, s.Name)
			}
		}
		return nil
	})
	return good
}

var end = time.Unix(3600, 0)

// samples returns the scraped samples, and up, which Prometheus adds.
func samples(t *testing.T) map[string]sample {
	t.Helper()
	text, err := os.ReadFile(scraped)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]sample{}
	add := func(series labels.Labels, value float64) {
		b := labels.NewBuilder(series)
		b.Set("job", "termguard")
		b.Set("pod", "termguard-0")
		all[b.Labels().String()] = sample{b.Labels(), value}
	}
	add(labels.FromStrings(labels.MetricName, "up"), 1)
	in := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", scraped, err))
		}
		if entry == textparse.EntrySeries {
			var series labels.Labels
			_, _, value := in.Series()
			in.Labels(&series)
			add(series, value)
		}
	}
	return all
}

type sample struct {
	series labels.Labels
	value  float64
}

// names returns the metrics in docs/metrics.md, which TestDocsMetrics compares with the code, and those of
// Prometheus's library, and whether they were scraped.
func names(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]bool{failOpen: false}
	for _, m := range regexp.MustCompile("(?m)^\\| `(termguard_\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		metrics[m[1]] = false
	}
	for _, s := range samples(t) {
		name := s.series.Get(labels.MetricName)
		_, listed := metrics[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")]
		if metrics[name] = true; strings.HasPrefix(name, "termguard_") && !listed {
			t.Errorf("%s has %s, which is no metric any more", scraped, name)
		}
	}
	return metrics
}

// newStorage returns a storage with everything scraped twice, ten seconds apart, at end.
func newStorage(t *testing.T) *teststorage.TestStorage {
	t.Helper()
	storage := teststorage.New(t)
	appender := storage.Appender(t.Context())
	for _, s := range samples(t) {
		for _, before := range []time.Duration{10 * time.Second, 0} {
			if _, err := appender.Append(0, s.series, end.Add(-before).UnixMilli(), s.value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
	return storage
}
