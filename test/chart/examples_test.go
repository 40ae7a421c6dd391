package chart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// played is a fixture of an example in a cluster.
type played struct {
	file    string
	objects string // to apply
	args    []string
	want    *regexp.Regexp // nil where nothing is said
}

// unplayable are the examples that look at what a lab does not have: another day, and pods
// and nodes with a state.
var unplayable = []string{"no_fridays", "change_freeze", "last_postgres_replica", "one_node_at_a_time"}

// TestExamples puts the policies of deploy/policies into force and asks about the deletions of
// their fixtures, among real objects: the webhook says what the fixtures want, and nothing else.
func TestExamples(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	folder := filepath.Join(deploy, "policies")
	g, err := scenario.PatientGuard(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	r, err := g.Shell(ctx, "set -e; cd "+folder+`
kubectl create clusterrolebinding everybody --clusterrole=cluster-admin --group=system:authenticated
kubectl -n termguard-system create configmap examples $(for f in */*.rego; do printf -- '--from-file=%s ' "$f"; done) --dry-run=client -o yaml |
  kubectl label --local -f - -o yaml termguard.dev/policy= | kubectl -n termguard-system apply --server-side -f -`)
	if err != nil || r.Code != 0 {
		t.Fatalf("put the examples into force: %v %s", err, r.Stderr)
	}
	fixtures := playable(t, folder)
	if len(fixtures) < 15 {
		t.Fatalf("only %d fixtures can be played", len(fixtures))
	}
	for _, f := range fixtures {
		err := g.Await(ctx, 60*time.Second, f.file+" to be applied", func(ctx context.Context) (bool, error) {
			r, err = g.Shell(ctx, "kubectl apply -f - <<'END'\n"+f.objects+"\nEND")
			return r.Code == 0, err // a definition takes a moment until its objects can be made
		})
		if err != nil {
			t.Fatalf("%v: %s", err, r.Stderr)
		}
	}
	// Those that want something first: by then, the webhook has seen the others, too.
	slices.SortStableFunc(fixtures, func(a, b played) int {
		if (a.want == nil) == (b.want == nil) {
			return 0
		} else if a.want == nil {
			return 1
		}
		return -1
	})
	for _, f := range fixtures {
		said := func(ctx context.Context) (forbidden []string, err error) {
			r, err = g.Kubectl(ctx, append([]string{"delete", "--dry-run=server"}, f.args...)...)
			for line := range strings.Lines(r.Stderr) {
				if strings.Contains(line, "forbidden: ") {
					forbidden = append(forbidden, line)
				}
			}
			return forbidden, err
		}
		if f.want == nil {
			if got, err := said(ctx); err != nil || r.Code != 0 || len(got) > 0 {
				t.Errorf("%s: it exits with %d and says %q: %v %s", f.file, r.Code, got, err, r.Stderr)
			}
			continue
		}
		var got []string
		err := g.Await(ctx, 60*time.Second, f.file+" to be forbidden", func(ctx context.Context) (_ bool, err error) {
			got, err = said(ctx)
			return len(got) == 1 && f.want.MatchString(got[0]), err
		})
		if err != nil {
			t.Errorf("%s: it says %q, want one line with %s: %v\n%s", f.file, got, f.want, err, r.Stderr)
		}
	}
}

var wanted = regexp.MustCompile(`# want "(.*)"`)

// playable are the fixtures, each with names of its own, so that they do not meet.
func playable(t *testing.T, folder string) (all []played) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*", "testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		if slices.Contains(unplayable, filepath.Base(filepath.Dir(filepath.Dir(file)))) {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("shop", fmt.Sprintf("shop-%d", i), "acme.example.com", fmt.Sprintf("acme%d.example.com", i)).Replace(string(raw))
		head, objects, _ := strings.Cut(text, "\n---\n")
		var request struct {
			Resource, Namespace, Name, User string
			Groups                          []string
			Options                         map[string]string
		}
		if err := yaml.Unmarshal([]byte(head), &request); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		f := played{file: file, objects: objects, args: []string{request.Resource + "/" + request.Name}}
		if request.Namespace != "" {
			f.args = append(f.args, "--namespace", request.Namespace)
			f.objects = "{apiVersion: v1, kind: Namespace, metadata: {name: " + request.Namespace + "}}\n---\n" + objects
		} else if strings.Contains(objects, "namespace: shop") {
			f.objects = fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: shop-%d}}\n---\n", i) + objects
		}
		if strings.Contains(objects, "namespace: cart") {
			f.objects = "{apiVersion: v1, kind: Namespace, metadata: {name: cart}}\n---\n" + objects
		}
		if request.User != "" {
			f.args = append(f.args, "--as", request.User)
		}
		for _, group := range request.Groups {
			f.args = append(f.args, "--as-group", group)
		}
		if policy := request.Options["propagationPolicy"]; policy != "" {
			f.args = append(f.args, "--cascade="+strings.ToLower(policy))
		}
		if want := wanted.FindStringSubmatch(text); want != nil {
			f.want = regexp.MustCompile(strings.ReplaceAll(want[1], `\\`, `\`))
		}
		all = append(all, f)
	}
	return all
}
