package watch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// ends returns objects that have been Terminating for a minute, each "verdict name why".
func ends(objects ...string) (now answer.Answer) {
	for _, o := range objects {
		words := strings.SplitN(o, " ", 3)
		now.Items = append(now.Items, answer.Item{TerminatingSince: time.Now().Add(-time.Minute).Format(time.RFC3339),
			Target: policies.Object{Resource: "pods", Namespace: "shop", Name: words[1]}, Verdict: policies.Verdict(words[0]),
			Findings: []policies.Finding{{Message: words[2]}},
		})
	}
	return now
}

// sequence returns one answer after another, repeats the last, and records the times.
type sequence struct {
	looks []func() (answer.Answer, error)
	took  time.Duration
	at    []time.Duration
	began time.Time
}

func (s *sequence) look(ctx context.Context) (answer.Answer, error) {
	s.at = append(s.at, time.Since(s.began))
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
		return answer.Answer{}, ctx.Err()
	}
	return s.looks[min(len(s.at), len(s.looks))-1]()
}

func have(objects ...string) func() (answer.Answer, error) {
	return func() (answer.Answer, error) { return ends(objects...), nil }
}

func fails(err error) func() (answer.Answer, error) {
	return func() (answer.Answer, error) { return answer.Answer{}, err }
}

func hidden() (answer.Answer, error) {
	return answer.Answer{Unseen: []policies.Unseen{{Resource: "gizmos.example.com", Reason: "timed out"}}}, nil
}

func TestRun(t *testing.T) {
	s := func(n ...int) (at []time.Duration) {
		for _, n := range n {
			at = append(at, time.Duration(n)*time.Second)
		}
		return at
	}
	for name, tc := range map[string]struct {
		reason  string
		looks   []func() (answer.Answer, error)
		took    time.Duration
		timeout time.Duration
		at      []time.Duration // looks
		left    int
		err     string
	}{
		"Goes":        {"It ends when nothing is left.", []func() (answer.Answer, error){have("hangs a x"), have("hangs a x"), have()}, 0, time.Hour, s(0, 2, 4), 0, ""},
		"Nothing":     {"Nothing was there.", []func() (answer.Answer, error){have()}, 0, time.Hour, s(0), 0, ""},
		"Large":       {"A look that takes long is seldom.", []func() (answer.Answer, error){have("hangs a x")}, 10 * time.Second, 2 * time.Minute, s(0, 50, 100), 1, ""},
		"Left":        {"Its time ends, and something is left.", []func() (answer.Answer, error){have("hangs a x", "hangs b x")}, 0, 5 * time.Second, s(0, 2, 4), 2, ""},
		"Broken":      {"The first look fails.", []func() (answer.Answer, error){fails(errors.New("no cluster"))}, 0, time.Hour, s(0), 0, "no cluster"},
		"Breaks":      {"A later answer fails: watch continues with the objects left.", []func() (answer.Answer, error){have("hangs a x"), fails(errors.New("timed out"))}, 0, 5 * time.Second, s(0, 2, 4), 1, ""},
		"Recovers":    {"And it ends when it can be read again.", []func() (answer.Answer, error){have("hangs a x"), fails(errors.New("timed out")), have()}, 0, time.Hour, s(0, 2, 4), 0, ""},
		"Never":       {"An API server that does not answer.", []func() (answer.Answer, error){have()}, time.Hour, time.Minute, s(0), 0, "the remaining objects are not known yet: its time has ended"},
		"Hidden":      {"What cannot be listed may be left: that is no end, but a failure.", []func() (answer.Answer, error){hidden}, 0, time.Hour, s(0, 2, 4), 0, "unseen: gizmos.example.com: timed out"},
		"HiddenOnce":  {"An API may come back.", []func() (answer.Answer, error){hidden, hidden, have()}, 0, time.Hour, s(0, 2, 4), 0, ""},
		"HiddenAgain": {"In between, something was seen.", []func() (answer.Answer, error){hidden, hidden, have("hangs a x"), hidden, hidden, have()}, 0, time.Hour, s(0, 2, 4, 6, 8, 10), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), tc.timeout, errors.New("its time has ended"))
				defer cancel()
				looks := sequence{looks: tc.looks, took: tc.took, began: time.Now()}
				left, err := (&Printer{Out: new(strings.Builder)}).Watch(ctx, looks.look)
				cancel()
				synctest.Wait() // for a look that was under way
				if diff := cmp.Diff(tc.at, looks.at); diff != "" {
					t.Errorf("%s: looks: -want, +got:\n%s", tc.reason, diff)
				}
				if len(left.Items) != tc.left || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s: %d are left, want %d; error %v, want %q", tc.reason, len(left.Items), tc.left, err, tc.err)
				}
			})
		})
	}
}

// TestLines checks that each change is a line, and the passing of time is none.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		many := ends("hangs b x")
		many.Omitted = 49_999
		fewer := ends("hangs c x")
		fewer.Items[0].TerminatingSince = time.Now().Format(time.RFC3339)
		fewer.Omitted = 9
		unseen := ends()
		unseen.Unseen = []policies.Unseen{{Resource: "gizmos.example.com", Reason: "no answer\x1b[2J"}}
		has := func(now answer.Answer) func() (answer.Answer, error) {
			return func() (answer.Answer, error) { return now, nil }
		}
		first, second := ends("hangs a node n does not answer for 5 min", "completes b x"), ends("hangs a node n does not answer for 6 min", "hangs b y\x1b[31m")
		looks := sequence{looks: []func() (answer.Answer, error){
			has(first), has(second), fails(errors.New("no\nanswer")), fails(errors.New("no\nanswer")), has(many), has(fewer), has(unseen), has(ends()),
		}}
		if _, err := (&Printer{Out: &out}).Watch(t.Context(), looks.look); err != nil {
			t.Fatal(err)
		}
		const want = `2000-01-01T00:00:00Z pods/a -n shop, Terminating for 60s: hangs: node n does not answer for 5 min
2000-01-01T00:00:00Z pods/b -n shop, Terminating for 60s: completes: x
2000-01-01T00:00:02Z pods/b -n shop: now hangs: y` + "\uFFFD" + `[31m
2000-01-01T00:00:04Z not read: no` + "\uFFFD" + `answer
2000-01-01T00:00:08Z pods/b -n shop: now hangs: x
2000-01-01T00:00:08Z and 49999 more
2000-01-01T00:00:10Z pods/c -n shop, Terminating for 10s: hangs: x
2000-01-01T00:00:10Z pods/b -n shop: deleted
2000-01-01T00:00:10Z and 9 more
2000-01-01T00:00:12Z pods/c -n shop: deleted
2000-01-01T00:00:12Z unseen: gizmos.example.com: no answer` + "\uFFFD" + `[2J
2000-01-01T00:00:14Z unseen: nothing
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
}

// TestStyle checks that the verdict is coloured, in characters that the terminal has, and no text
// of objects is.
func TestStyle(t *testing.T) {
	var out strings.Builder
	p := &Printer{Out: &out, Style: page.Style{Color: true, ASCII: true}}
	now := ends("hangs a x…")
	now.Items[0].WaitsFor = []answer.Wait{{Took: &answer.Took{Objects: 5, UsualSeconds: 30}}}
	p.Print(now)
	if want := " pods/a -n shop, Terminating for 60s: \x1b[31mhangs\x1b[0m: usually 30s; x...\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("want %q, got %q", want, out.String())
	}
}
