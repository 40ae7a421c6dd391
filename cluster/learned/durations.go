package learned

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// steps are in seconds: a removal counts for the first that it does not exceed. A longer one was a hang that a
// user ended, and does not count.
var steps = []int{
	1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 120, 150, 180, 240, 300, 420, 600, 900,
	1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400, 21600, 43200, 86400,
}

// Bucket counts objects by duration.
type Bucket struct {
	// Within is one of the steps, in seconds.
	Within  int `json:"within"`
	Objects int `json:"objects"`
	// Only is set if it was seen in one namespace, and counts there only: its users can cause it.
	Only string    `json:"only,omitempty"`
	Last time.Time `json:"last"`
}

// NewHistogram returns one object, in a namespace or in none (""), or nil if it took longer than is usual.
func NewHistogram(d time.Duration, namespace string, at time.Time) []Bucket {
	for _, step := range steps {
		if d <= time.Duration(step)*time.Second {
			return []Bucket{{Within: step, Objects: 1, Only: namespace, Last: at}}
		}
	}
	return nil
}

// Histogram has the shortest first.
type Histogram []Bucket

// with halves counts beyond maxObjects, so that the sum follows changes.
func (h Histogram) with(other Histogram) Histogram {
	sum := map[int]Bucket{}
	for _, t := range slices.Concat(h, other) {
		if before, ok := sum[t.Within]; ok {
			t.Objects += before.Objects
			t.Last = latest(before.Last, t.Last)
			if t.Only != before.Only {
				t.Only = ""
			}
		}
		sum[t.Within] = t
	}
	all := slices.SortedFunc(maps.Values(sum), func(a, b Bucket) int { return cmp.Compare(a.Within, b.Within) })
	for slices.ContainsFunc(all, func(t Bucket) bool { return t.Objects > maxObjects }) {
		for i := range all {
			all[i].Objects = (all[i].Objects + 1) / 2
		}
	}
	return all
}

func (h Histogram) inSeconds() Histogram {
	h = slices.Clone(h)
	for i := range h {
		h[i].Last = second(h[i].Last)
	}
	return h
}

func (h Histogram) since(t time.Time) Histogram {
	return slices.DeleteFunc(slices.Clone(h), func(took Bucket) bool { return took.Last.Before(t) })
}

// covers reports whether h has every duration of other, in at least the same namespaces.
func (h Histogram) covers(other Histogram) bool {
	return !slices.ContainsFunc(other, func(t Bucket) bool {
		return !slices.ContainsFunc(h, func(bucket Bucket) bool {
			return bucket.Within == t.Within && (bucket.Only == "" || bucket.Only == t.Only)
		})
	})
}

func (h Histogram) check(now time.Time) error {
	before := 0
	for _, t := range h {
		if t.Within <= before || !slices.Contains(steps, t.Within) {
			return fmt.Errorf("took: within %d s: want some of %v, in order", t.Within, steps)
		}
		if err := cmp.Or(plain("only", cmp.Or(t.Only, "any")), seen(t.Objects, t.Last, t.Last, now)); err != nil {
			return fmt.Errorf("took: %w", err)
		}
		before = t.Within
	}
	return nil
}

// Durations sum up how long something took.
type Durations struct {
	Objects int
	// Usual is the median and Longest the maximum, in seconds, rounded up.
	Usual, Longest int
	Last           time.Time
}

// Facts returns the document's form.
func (d Durations) Facts() map[string]any {
	return map[string]any{"count": d.Objects, "usualSeconds": d.Usual, "longestSeconds": d.Longest, "last": d.Last.UTC().Format(time.RFC3339)}
}

func (h Histogram) durations() (d Durations, ok bool) {
	for _, t := range h {
		d.Objects += t.Objects
		d.Longest = t.Within
		d.Last = latest(d.Last, t.Last)
	}
	upTo := 0
	for _, t := range h {
		if upTo += t.Objects; 2*upTo >= d.Objects {
			d.Usual = t.Within
			break
		}
	}
	return d, len(h) > 0
}

type FinalizerKey struct{ Finalizer, Resource string }

// Durations returns how long trusted owners took, by namespace, "" for the others. A namespaced owner counts
// in its namespace only: its users can slow it down.
func (m *Memory) Durations() map[FinalizerKey]map[string]Durations {
	histograms := map[FinalizerKey]map[string]Histogram{}
	for _, o := range m.owners {
		if !o.Trusted() {
			continue
		}
		for _, t := range o.Took {
			where := cmp.Or(o.Namespace, t.Only)
			on := FinalizerKey{o.Finalizer, o.Resource}
			if histograms[on] == nil {
				histograms[on] = map[string]Histogram{}
			}
			histograms[on][where] = histograms[on][where].with(Histogram{t})
		}
	}
	all := map[FinalizerKey]map[string]Durations{}
	for on, byNamespace := range histograms {
		all[on] = map[string]Durations{}
		for namespace, h := range byNamespace {
			if namespace != "" {
				h = h.with(byNamespace[""])
			}
			all[on][namespace], _ = h.durations()
		}
	}
	return all
}

// Stop is how long pods of a workload took to stop.
type Stop struct {
	Namespace string    `json:"namespace"`
	Workload  string    `json:"workload"` // Kind/name
	Took      Histogram `json:"took"`
	Last      time.Time `json:"last"`
}

// MaxStops bounds the workloads; MaxLocal the ones of a namespace, whose users may create many.
const MaxStops = 1000

type stopKey struct{ namespace, workload string }

func (m *Memory) AddStop(s Stop) {
	if len(s.Took) == 0 {
		return
	}
	if m.stops == nil {
		m.stops = map[stopKey]Stop{}
	}
	key := stopKey{s.Namespace, s.Workload}
	if before, ok := m.stops[key]; ok {
		s.Took = before.Took.with(s.Took)
		s.Last = latest(before.Last, s.Last)
	}
	m.stops[key] = s
}

// Stops returns durations by namespace and workload.
func (m *Memory) Stops() map[string]map[string]Durations {
	all := map[string]map[string]Durations{}
	for _, s := range m.stops {
		if all[s.Namespace] == nil {
			all[s.Namespace] = map[string]Durations{}
		}
		all[s.Namespace][s.Workload], _ = s.Took.durations()
	}
	return all
}

func (m *Memory) allStops() []Stop {
	return slices.SortedFunc(maps.Values(m.stops), func(a, b Stop) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload))
	})
}

func (m *Memory) pruneStops(now time.Time) {
	kept, in := 0, map[string]int{}
	for _, s := range m.allStops() {
		key := stopKey{s.Namespace, s.Workload}
		s.Took = s.Took.since(now.Add(-MaxAge))
		if len(s.Took) == 0 || kept == MaxStops || in[s.Namespace] == MaxLocal {
			delete(m.stops, key)
			continue
		}
		kept++
		in[s.Namespace]++
		m.stops[key] = s
	}
}

func (m *Memory) knowsStops(news Memory) bool {
	for key, s := range news.stops {
		stop, ok := m.stops[key]
		if d, _ := stop.Took.durations(); !ok || d.Objects < strangerObjects || !stop.Took.covers(s.Took) || s.Last.Sub(stop.Last) > time.Hour {
			return false
		}
	}
	return true
}

func (s Stop) check(now time.Time) error {
	if len(s.Took) == 0 {
		return errors.New("took: says nothing")
	}
	return cmp.Or(plain("namespace", s.Namespace), plain("workload", s.Workload), s.Took.check(now), seen(1, s.Last, s.Last, now))
}
