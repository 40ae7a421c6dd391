package serve

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/termguard/termguard/internal/bundletest"
	"github.com/termguard/termguard/internal/download"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

const sentence = "correct horse battery staple"

// signed is a bundle with a policy that says something of every deletion.
func signed(t *testing.T, secret, says string) []byte {
	t.Helper()
	return bundletest.Archive(t, secret, map[string]string{"/a_rule/a_rule.rego": policyNamed("a-rule", says)})
}

// followed is a site that takes a bundle from elsewhere.
func followed(t *testing.T, address string) (*site, *follower) {
	t.Helper()
	key, err := policies.ReadKey(bundletest.KeyFile(t, sentence), "HS256")
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := download.New(address, download.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.options.Key, s.options.Folders = key, nil
	f := newFollower(bundle)
	s.followers = []*follower{f}
	engine, err := s.start(t.Context(), s.client)
	if err != nil {
		t.Fatal(err)
	}
	s.now = webhook.Rules{Evaluator: engine, Enforcement: s.read.Enforcement}
	return s, f
}

// follows fetches the newest version of a bundle, and holds what is in force and what is told.
func (s *site) follows(f *follower, refused string, says ...string) {
	s.Helper()
	err := f.fetch(s.Context())
	s.look(s.Context())
	if why := s.refused[f.bundle.Name()]; !strings.Contains(why, refused) || (why == "") != (refused == "") {
		s.Errorf("fetched with %v: it is refused as %q, want %q", err, why, refused)
	}
	if got, want := s.refusals("policies"), map[bool]float64{true: 1}[refused != ""]; got != want {
		s.Errorf("%v sources are refused, want %v", got, want)
	}
	if named := strings.Contains(s.notInForce(), f.bundle.Name()); named != (refused != "") {
		s.Errorf("readyz says %q", s.notInForce())
	}
	s.says(says...)
}

// TestBundlesFollow: whatever a registry serves, what is in force is the newest version that
// was signed as it must be, from the first one on.
func TestBundlesFollow(t *testing.T) {
	r := bundletest.NewRegistry(t)
	push := func(archive []byte) {
		t.Helper()
		if _, err := r.Push(t.Context(), "team/policies:1", archive, ""); err != nil {
			t.Fatal(err)
		}
	}
	r.Break(true)
	s, f := followed(t, "oci://"+r.Host+"/team/policies:1")
	s.follows(f, "answers 503 Service Unavailable") // and it has started
	r.Break(false)
	s.follows(f, "there is no such bundle")
	push(signed(t, sentence, "one"))
	s.follows(f, "", "one")
	before := s.set
	s.follows(f, "", "one")
	if s.set != before {
		t.Error("what has not changed was read again")
	}
	push(signed(t, sentence, "two"))
	s.follows(f, "", "two")
	push(signed(t, "another", "three"))
	s.follows(f, "verify JWT signature", "two")
	push(signed(t, "", "three"))
	s.follows(f, "missing .signatures.json", "two")
	push(bundletest.Archive(t, sentence, map[string]string{"/a_rule/a_rule.rego": policyNamed("a-rule", "three")}, "# more\n"))
	s.follows(f, "digest mismatch", "two")
	push([]byte("\x1f\x8bnonsense"))
	s.follows(f, "no archive that opa build makes", "two")
	r.Break(true)
	s.follows(f, "answers 503 Service Unavailable", "two")
	r.Break(false)
	push(signed(t, sentence, "four"))
	s.follows(f, "", "four")
	r.Break(true)
	s.follows(f, "answers 503", "four")
	r.Break(false)
	s.follows(f, "", "four") // as it was
}

// TestBundlesAtTheStart: a bundle that can be had is in force from the first review on.
func TestBundlesAtTheStart(t *testing.T) {
	archive := signed(t, sentence, "one")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) }))
	defer server.Close()
	s, _ := followed(t, server.URL+"/bundle.tar.gz")
	if got := s.messages(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("it starts with %q", got)
	}
}

// TestStartWaitsForNobody: a server that sends nothing, for as long as the test runs, holds up the
// start for firstDownload.
func TestStartWaitsForNobody(t *testing.T) {
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	defer server.Close()
	defer close(silent)
	start := time.Now()
	s, f := followed(t, server.URL+"/bundle.tar.gz")
	if waited := time.Since(start); waited < firstDownload {
		t.Errorf("the start took %s, want %s at the least", waited, firstDownload)
	}
	if why := s.refused[f.bundle.Name()]; !strings.Contains(why, "took too long") {
		t.Errorf("it is refused as %q", why)
	}
	s.says()
}

// TestFollowPauses: it asks each interval, and after failures sooner, less and less often.
func TestFollowPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bundle, err := download.New("https://unreachable.invalid/b", download.Options{Credentials: "there is no such file"}) // so it asks nobody
		if err != nil {
			t.Fatal(err)
		}
		f := newFollower(bundle)
		go f.follow(t.Context(), time.Minute)
		var at []time.Duration
		start := time.Now()
		for len(at) < 7 {
			f.keep(nil, errNoneYet)
			for f.source().err == errNoneYet {
				time.Sleep(time.Second)
			}
			at = append(at, time.Since(start).Round(time.Second))
		}
		want := []time.Duration{2, 6, 14, 30, 62, 122, 182}
		for i := range want {
			if d := at[i] - want[i]*time.Second; d < 0 || d > 2*time.Second {
				t.Errorf("it asked at %v, want %v s", at, want)
				break
			}
		}
	})
}
