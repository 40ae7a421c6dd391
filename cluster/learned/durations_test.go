package learned

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var widgetsHeld = FinalizerKey{"x.io/f", "widgets.x.io"}

// took adds a removal with its duration to a memory.
func took(m *Memory, o Owner, d time.Duration, namespace string) {
	o.Took = NewHistogram(d, namespace, o.Last)
	m.Add(o)
}

// everywhere returns an operator that may act in all namespaces, and did so at noon.
func everywhere() Owner {
	o := owner(operator, 1, noon, noon)
	o.Everywhere = true
	return o
}

func TestDurations(t *testing.T) {
	seconds := func(count, usual, longest int) Durations { return Durations{count, usual, longest, noon} }
	tests := map[string]struct {
		reason string
		teach  func(*Memory)
		want   map[string]Durations
	}{
		"rounded up": {
			"a tenth of a second is within one, and 33 s are within 40",
			func(m *Memory) {
				took(m, everywhere(), 100*time.Millisecond, "")
				took(m, everywhere(), 33*time.Second, "")
				took(m, everywhere(), time.Second, "")
			},
			map[string]Durations{"": seconds(3, 1, 40)},
		},
		"in several namespaces": {
			"durations seen in two namespaces count everywhere",
			func(m *Memory) {
				took(m, everywhere(), 2*time.Second, "a")
				took(m, everywhere(), 2*time.Second, "b")
			},
			map[string]Durations{"": seconds(2, 2, 2)},
		},
		"in one namespace": {
			"who works there keeps the owner from being faster: others are not told to wait as long, nor to be as fast",
			func(m *Memory) {
				took(m, everywhere(), 2*time.Second, "a")
				took(m, everywhere(), 2*time.Second, "b")
				for range 10 {
					took(m, everywhere(), 10*time.Hour, "hostile")
				}
				for range 100 {
					took(m, everywhere(), time.Second, "swift")
				}
			},
			map[string]Durations{"": seconds(2, 2, 2), "hostile": seconds(12, 12*3600, 12*3600), "swift": seconds(102, 1, 2)},
		},
		"by an account of one namespace": {
			"its durations count there",
			func(m *Memory) {
				local := owner(operator, 1, noon, noon)
				local.Namespace = "a"
				took(m, local, 5*time.Second, "")
			},
			map[string]Durations{"a": seconds(1, 5, 5)},
		},
		"a hang that a user ended": {
			"more than a day is not usual",
			func(m *Memory) {
				took(m, everywhere(), time.Second, "")
				took(m, everywhere(), 25*time.Hour, "")
			},
			map[string]Durations{"": seconds(1, 1, 1)},
		},
		"by a stranger": {
			"an account that is not trusted as the owner teaches nothing",
			func(m *Memory) { took(m, owner("alice", 1, noon, noon), time.Hour, "") },
			nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var m Memory
			tc.teach(&m)
			if diff := cmp.Diff(tc.want, m.Durations()[widgetsHeld]); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			again, wrong, err := Decode(m.Encode(), noon)
			if wrong != nil || err != nil {
				t.Fatal(wrong, err)
			}
			if diff := cmp.Diff(tc.want, again.Durations()[widgetsHeld]); diff != "" {
				t.Errorf("written down and read again: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestDurationsAreForgotten checks that slow removals do not count for ever.
func TestDurationsAreForgotten(t *testing.T) {
	var m Memory
	slow := everywhere()
	slow.First, slow.Last = noon.Add(-MaxAge-time.Second), noon.Add(-MaxAge-time.Second)
	took(&m, slow, time.Hour, "")
	took(&m, everywhere(), time.Second, "")
	m.Prune(noon)
	if got := m.Durations()[widgetsHeld][""]; got.Longest != 1 || got.Objects != 1 {
		t.Errorf("after 30 days: %+v", got)
	}
}

// TestDurationsAreBounded checks that one owner has a limited number of durations, and that the
// newest weigh more.
func TestDurationsAreBounded(t *testing.T) {
	var m Memory
	for i := range 20_000 {
		took(&m, everywhere(), time.Duration(i%100)*time.Minute, fmt.Sprint(i%3))
	}
	for range 5_000 {
		took(&m, everywhere(), time.Second, "")
	}
	h := m.Owners("x.io/f", "widgets.x.io", "")[0].Took
	if len(h) > len(steps) {
		t.Errorf("%d distinct durations", len(h))
	}
	for _, step := range h {
		if step.Objects > maxObjects {
			t.Errorf("%d objects within %d s", step.Objects, step.Within)
		}
	}
	if got := m.Durations()[widgetsHeld][""].Usual; got != 1 {
		t.Errorf("after 5,000 that took a second, %d s are usual", got)
	}
}

// TestKnowsDurations checks that new durations are persisted, and nothing else.
func TestKnowsDurations(t *testing.T) {
	var m Memory
	for range strangerObjects {
		took(&m, everywhere(), time.Second, "a")
	}
	for name, tc := range map[string]struct {
		d         time.Duration
		namespace string
		want      bool
	}{
		"the same": {time.Second, "a", true}, "slower": {time.Minute, "a", false}, "elsewhere": {time.Second, "b", false},
	} {
		var news Memory
		took(&news, everywhere(), tc.d, tc.namespace)
		if got := m.Knows(news); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestDecodeDurations(t *testing.T) {
	line := func(took string) string {
		return fmt.Sprintf(`{"apiVersion": "termguard.dev/v1", "owners": [{"finalizer": "x.io/f", "resource": "widgets.x.io", "identity": %q, "objects": 1, "first": "2026-03-01T12:00:00Z", "last": "2026-03-01T12:00:00Z", "took": %s}]}`, operator, took)
	}
	for name, text := range map[string]string{
		"no step":           `[{"within": 7, "objects": 1, "last": "2026-03-01T12:00:00Z"}]`,
		"out of order":      `[{"within": 2, "objects": 1, "last": "2026-03-01T12:00:00Z"}, {"within": 1, "objects": 1, "last": "2026-03-01T12:00:00Z"}]`,
		"none":              `[{"within": 2, "objects": 0, "last": "2026-03-01T12:00:00Z"}]`,
		"too many":          `[{"within": 2, "objects": 1001, "last": "2026-03-01T12:00:00Z"}]`,
		"in the future":     `[{"within": 2, "objects": 1, "last": "2027-03-01T12:00:00Z"}]`,
		"cannot be printed": `[{"within": 2, "objects": 1, "only": "\u001b[31m", "last": "2026-03-01T12:00:00Z"}]`,
		"unknown key":       `[{"within": 2, "objects": 1, "last": "2026-03-01T12:00:00Z", "more": 1}]`,
	} {
		m, wrong, err := Decode([]byte(line(text)), noon)
		if err != nil || wrong == nil || len(m.owners) != 0 {
			t.Errorf("%s: got %v, %v, %v; want it left out and logged", name, m.owners, wrong, err)
		}
	}
	if m, wrong, err := Decode([]byte(line(`[{"within": 2, "objects": 1, "last": "2026-03-01T12:00:00Z"}]`)), noon); err != nil || wrong != nil || len(m.owners) != 1 {
		t.Errorf("valid durations: got %v, %v, %v", m.owners, wrong, err)
	}
}

// TestStops checks the durations of pods: by workload, merged, persisted, and with a limit for each
// namespace.
func TestStops(t *testing.T) {
	stop := func(namespace, workload string, d time.Duration) Stop {
		return Stop{Namespace: namespace, Workload: workload, Took: NewHistogram(d, "", noon), Last: noon}
	}
	var m, news Memory
	m.AddStop(stop("a", "Deployment/web", 2*time.Second))
	m.AddStop(stop("a", "Deployment/web", 2*time.Second))
	news.AddStop(stop("a", "Deployment/web", 11*time.Second))
	if m.Knows(news) {
		t.Error("a slower duration counts as new")
	}
	m.Merge(news)
	if m.Empty() || !m.Knows(news) {
		t.Error("merged durations are unknown")
	}
	again, wrong, err := Decode(m.Encode(), noon)
	if wrong != nil || err != nil {
		t.Fatal(wrong, err)
	}
	want := map[string]map[string]Durations{"a": {"Deployment/web": {3, 2, 12, noon}}}
	if diff := cmp.Diff(want, again.Stops()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	for i := range 500 {
		m.AddStop(stop("hostile", fmt.Sprint("Job/", i), time.Second))
	}
	for i := range 2 * MaxStops {
		m.AddStop(stop(fmt.Sprint("ns-", i), "Deployment/web", time.Second))
	}
	m.Prune(noon)
	if n, all := len(m.Stops()["hostile"]), len(m.stops); n > MaxLocal || all > MaxStops {
		t.Errorf("%d workloads of one namespace, %d in all", n, all)
	}
	m.Prune(noon.Add(MaxAge + time.Second))
	if len(m.Stops()) > 0 {
		t.Errorf("after 30 days: %d", len(m.Stops()))
	}
	for name, text := range map[string]string{
		"no workload": `{"namespace": "a", "took": [{"within": 2, "objects": 1, "last": "2026-03-01T12:00:00Z"}], "last": "2026-03-01T12:00:00Z"}`,
		"nothing":     `{"namespace": "a", "workload": "Deployment/web", "took": [], "last": "2026-03-01T12:00:00Z"}`,
		"no step":     `{"namespace": "a", "workload": "Deployment/web", "took": [{"within": 7, "objects": 1, "last": "2026-03-01T12:00:00Z"}], "last": "2026-03-01T12:00:00Z"}`,
	} {
		m, wrong, err := Decode([]byte(`{"apiVersion": "termguard.dev/v1", "owners": [], "stops": [`+text+`]}`), noon)
		if err != nil || wrong == nil || !m.Empty() {
			t.Errorf("%s: got %v, %v; want it left out and logged", name, wrong, err)
		}
	}
}
