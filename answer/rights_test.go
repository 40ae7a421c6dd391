package answer

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// TestFewerRights checks the fixtures for a user whose rights hide one of their kinds, in all
// namespaces or in all but the target's. Fewer rights never give a stronger verdict: an object that
// hangs or may hang is not said to complete, and one that completes is not said to hang.
func TestFewerRights(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	race.Skip(t)
	engine := newEngine(t)
	evaluations := 0
	for d := range samples(t) {
		short, _ := filepath.Rel("../policies", d.file)
		check := func(hides func(path string) bool) (alone, bool) {
			config, can := served(t, d.all)
			if !can {
				return alone{}, false
			}
			forbid(config, func(r *http.Request) bool { return hides(r.URL.Path) })
			s, world, err := fromCluster(t, config, cluster.Options{}, d.name)
			if err != nil {
				return alone{}, false
			}
			s.User = authenticationv1.UserInfo{}
			report, err := ask(t.Context(), engine, world, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			return report, true
		}
		whole, can := check(func(string) bool { return false })
		if !can {
			continue
		}
		kinds := map[string]bool{} // whether they are in namespaces
		for gvk, res := range cluster.Resources(d.all) {
			if !strings.HasPrefix(gvk.GroupVersion().String(), "termguard.dev/") {
				kinds[res.GroupVersionResource.Resource] = res.Namespaced
			}
		}
		in := "/namespaces/" + d.subject.Namespace + "/"
		if d.subject.Namespace == "" {
			in = "/namespaces/" + d.name.Name + "/"
		}
		for kind, namespaced := range kinds {
			lists := func(path string) bool { return strings.HasSuffix(path, "/"+kind) }
			for where, hides := range map[string]func(string) bool{
				"in all namespaces": lists,
				"in others":         func(path string) bool { return lists(path) && !strings.Contains(path, in) },
			} {
				if where == "in others" && !namespaced {
					continue
				}
				part, can := check(hides)
				if !can {
					continue
				}
				evaluations++
				if saysMore(whole.Verdict, part.Verdict) {
					t.Errorf("%s without the right to list %s %s: verdict %s, with it %s", short, kind, where, part.Verdict, whole.Verdict)
				}
			}
		}
	}
	if evaluations < 500 {
		t.Errorf("only %d evaluations", evaluations)
	}
}

// saysMore reports whether verdict claims something that of, the verdict over all objects, does
// not.
func saysMore(of, verdict policies.Verdict) bool {
	sure := []policies.Verdict{policies.Hangs, policies.Refused}
	switch verdict {
	case policies.Completes:
		return of != policies.Completes
	case policies.Hangs, policies.Refused:
		return !slices.Contains(sure, of)
	}
	return false
}
