package learned

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const operator = "system:serviceaccount:ops:operator"

func owner(identity string, objects int, first, last time.Time) Owner {
	return Owner{Finalizer: "x.io/f", Resource: "widgets.x.io", Identity: identity, Objects: objects, First: first, Last: last}
}

func TestTrusted(t *testing.T) {
	day := 24 * time.Hour
	tests := map[string]struct {
		reason string
		owner  Owner
		want   bool
	}{
		"service account, once":      {"a controller is known by its first removal", owner(operator, 1, noon, noon), true},
		"stranger, once":             {"a person who forces a finalizer off is not its owner", owner("alice", 1, noon, noon), false},
		"stranger, often at once":    {"nor is one who forces a hundred in an afternoon", owner("alice", 100, noon, noon.Add(6*time.Hour)), false},
		"stranger, twice over a day": {"two are too few", owner("controller", 2, noon, noon.Add(day)), false},
		"stranger, over a day":       {"something outside the cluster keeps doing it", owner("controller", 3, noon, noon.Add(day)), true},
		"a name like an account":     {"of a service account there is a namespace and a name", owner("system:serviceaccount:ops", 1, noon, noon), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.owner.Trusted(); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestMergeOfReplicas(t *testing.T) {
	var base, one, other Memory
	base.Add(owner(operator, 1, noon, noon))
	one.Add(owner(operator, 2, noon.Add(time.Hour), noon.Add(2*time.Hour)))
	other.Add(owner(operator, 1, noon.Add(-time.Hour), noon.Add(-time.Hour)))
	other.Add(owner("alice", 1, noon, noon))

	a, b := base.Clone(), base.Clone()
	a.Merge(one)
	a.Merge(other)
	b.Merge(other)
	b.Merge(one)
	if diff := cmp.Diff(string(a.Encode()), string(b.Encode())); diff != "" {
		t.Errorf("the result depends on the order of merges: %s", diff)
	}
	want := []Owner{owner(operator, 4, noon.Add(-time.Hour), noon.Add(2*time.Hour))}
	if diff := cmp.Diff(want, a.Owners("x.io/f", "widgets.x.io", "")); diff != "" {
		t.Errorf("owners: -want +got\n%s", diff)
	}
	if base.Owners("x.io/f", "widgets.x.io", "")[0].Objects != 1 {
		t.Error("a clone shares memory with its original")
	}
}

func TestPrune(t *testing.T) {
	var m Memory
	m.Add(owner(operator, 1, noon.Add(-MaxAge), noon.Add(-MaxAge)))
	m.Add(owner(operator+"-old", 1, noon.Add(-MaxAge), noon.Add(-MaxAge-time.Second)))
	m.Prune(noon)
	if got := m.Owners("x.io/f", "widgets.x.io", ""); len(got) != 1 || got[0].Identity != operator {
		t.Errorf("after 30 days: %v", got)
	}
	// A flood of unknown accounts must not displace known ones.
	for i := range 3 * MaxOwners {
		m.Add(Owner{Finalizer: fmt.Sprint("flood/", i), Resource: "widgets.x.io", Identity: fmt.Sprint("alice-", i), Objects: 1, First: noon, Last: noon})
	}
	for i := range 100 {
		m.Add(owner(fmt.Sprint("stranger-", i), 1, noon, noon))
	}
	m.Prune(noon)
	if len(m.owners) != MaxOwners || len(m.Owners("x.io/f", "widgets.x.io", "")) != 1 {
		t.Errorf("%d owners are left, of the one known %v", len(m.owners), m.Owners("x.io/f", "widgets.x.io", ""))
	}
	identities := 0
	for k := range m.owners {
		if k.finalizer == "x.io/f" {
			identities++
		}
	}
	if identities > MaxIdentities {
		t.Errorf("%d identities of one finalizer", identities)
	}
}

// TestLocal checks that facts learned from an account with rights in one namespace count there, and
// displace nothing learned elsewhere.
func TestLocal(t *testing.T) {
	genuine := owner(operator, 1, noon, noon)
	genuine.Everywhere = true
	var m Memory
	m.Add(genuine)
	for i := range 3 * MaxOwners {
		m.Add(Owner{
			Finalizer: fmt.Sprint("junk/", i), Resource: "widgets.x.io", Identity: fmt.Sprint("system:serviceaccount:tenant:a", i%50), Namespace: "tenant",
			Objects: 5, First: noon, Last: noon.Add(time.Hour),
		})
	}
	poison := owner("system:serviceaccount:tenant:a", 900, noon, noon.Add(time.Hour))
	poison.Namespace = "tenant"
	m.Add(poison)
	m.Prune(noon.Add(time.Hour))
	if len(m.owners) != 1+MaxLocal {
		t.Errorf("%d owners are left, want the genuine one and %d of the tenant", len(m.owners), MaxLocal)
	}
	for namespace, want := range map[string][]Owner{"other": {genuine}, "": {genuine}, "tenant": {poison, genuine}} {
		if diff := cmp.Diff(want, m.Owners("x.io/f", "widgets.x.io", namespace)); diff != "" {
			t.Errorf("in namespace %q: -want +got\n%s", namespace, diff)
		}
		if got := m.Local()[Scope{"x.io/f", "widgets.x.io", namespace}]; got != (namespace == "tenant") {
			t.Errorf("in namespace %q: it counts there alone: %v", namespace, got)
		}
	}
}

func TestKnows(t *testing.T) {
	var memory Memory
	memory.Add(owner(operator, 3, noon, noon))
	news := func(o Owner) (m Memory) { m.Add(o); return m }
	outside := owner(operator, 1, noon, noon)
	outside.Outside = true
	tests := map[string]struct {
		reason string
		news   Memory
		want   bool
	}{
		"nothing":          {"nothing is known already", Memory{}, true},
		"again":            {"the same within the hour is not worth a write", news(owner(operator, 1, noon, noon.Add(time.Minute))), true},
		"again, later":     {"but its date must not become too old", news(owner(operator, 1, noon, noon.Add(2*time.Hour))), false},
		"somebody else":    {"a new identity", news(owner("alice", 1, noon, noon)), false},
		"from outside now": {"it moved out of the cluster", news(outside), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := memory.Knows(tc.news); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	line := func(fields string) string {
		return `{"apiVersion":"termguard.dev/v1","owners":[{"finalizer":"x.io/f","resource":"widgets.x.io","identity":"a","objects":1,"first":"2026-03-01T12:00:00Z","last":"2026-03-01T12:00:00Z"` + fields + `}]}`
	}
	tests := map[string]struct {
		reason, text string
		owners       int
		wrong        string
		nonsense     bool
	}{
		"empty":                {"a user emptied it", "", 0, "", true},
		"not JSON":             {"a user wrote into it", "hello", 0, "", true},
		"no version of ours":   {"another client wrote it", `{"apiVersion":"v1","owners":[]}`, 0, "", true},
		"more behind":          {"two documents", `{"apiVersion":"termguard.dev/v1","owners":[]} {}`, 0, "", true},
		"nothing learned":      {"as it begins", `{"apiVersion":"termguard.dev/v1","owners":[]}`, 0, "", false},
		"one":                  {"as it is written", line(``), 1, "", false},
		"unknown field":        {"a typing error must not pass for something", line(`,"outsde":true`), 0, "outsde", false},
		"count of zero":        {"seen never", line(`,"objects":0`), 0, "a count of 0", false},
		"absurd count":         {"beyond the largest count", line(`,"objects":99999`), 0, "a count of 99999", false},
		"last before first":    {"impossible", line(`,"last":"2020-03-01T12:00:00Z"`), 0, "before it was seen first", false},
		"far in the future":    {"it would never be forgotten", line(`,"last":"2999-03-01T12:00:00Z"`), 0, "in the future", false},
		"a little ahead":       {"clocks of replicas differ", line(`,"last":"2026-03-01T12:30:00Z"`), 1, "", false},
		"no identity":          {"without an identity", line(`,"identity":""`), 0, "identity: is empty", false},
		"control characters":   {"people read it on terminals", line(`,"identity":"\u001b[31m"`), 0, "unprintable", false},
		"wrong type":           {"one bad entry hides no other", line(`,"objects":"three"`), 0, "objects", false},
		"forgotten long since": {"as after a long pause", line(`,"first":"2020-03-01T12:00:00Z","last":"2020-03-01T12:00:00Z"`), 0, "", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, wrong, err := Decode([]byte(tc.text), noon)
			if errors.Is(err, ErrMalformed) != tc.nonsense {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if len(m.owners) != tc.owners || !strings.Contains(fmt.Sprint(wrong), tc.wrong) || (wrong != nil) != (tc.wrong != "") {
				t.Errorf("%s: %d owners; wrong: %v", tc.reason, len(m.owners), wrong)
			}
		})
	}
}

func TestEncodeFitsConfigMap(t *testing.T) {
	var m Memory
	long := strings.Repeat("x", maxString-10)
	for i := range MaxOwners {
		m.Add(Owner{Finalizer: fmt.Sprint(long, i), Resource: long, Identity: long, Everywhere: true, Objects: 1, First: noon, Last: noon.Add(time.Duration(i) * time.Minute)})
	}
	text := m.Encode()
	if len(text) > MaxSize {
		t.Errorf("%d bytes", len(text))
	}
	got, wrong, err := Decode(text, noon.Add(MaxOwners*time.Minute))
	if err != nil || wrong != nil || len(got.owners) < 100 {
		t.Errorf("%d owners, %v, %v", len(got.owners), wrong, err)
	}
}

func FuzzDecode(f *testing.F) {
	var m Memory
	m.Add(owner(operator, 3, noon, noon))
	f.Add(m.Encode())
	f.Add([]byte(`{"apiVersion":"termguard.dev/v1","owners":[null,{},[],"x",{"finalizer":1}],"stops":[{}]}`))
	f.Add([]byte(`{"apiVersion":"termguard.dev/v1","owners":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, _, err := Decode(text, noon)
		if err != nil {
			if !m.Empty() {
				t.Fatal("of nonsense something is remembered")
			}
			return
		}
		again, wrong, err := Decode(m.Encode(), noon)
		if err != nil || wrong != nil {
			t.Fatalf("cannot read its own text: %v %v", wrong, err)
		}
		if diff := cmp.Diff(string(m.Encode()), string(again.Encode())); diff != "" {
			t.Fatalf("not stable: %s", diff)
		}
	})
}
