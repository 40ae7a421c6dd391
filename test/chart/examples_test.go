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

type example struct {
	file    string
	objects string // to apply
	args    []string
	want    *regexp.Regexp // nil if no message is expected
}

// apart are the examples that depend on the date or on the state of pods and nodes, which a fixture cannot
// create in a cluster: see playStates.
var apart = []string{"no_fridays", "change_freeze", "last_postgres_replica", "one_node_at_a_time"}

// TestExamples plays the deletions in the fixtures of deploy/policies with real objects.
func TestExamples(t *testing.T) {
	lab.Long(t)
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
	configure(t, g, "", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) // on any date
	fixtures := playable(t, folder)
	if len(fixtures) < 15 {
		t.Fatalf("only %d fixtures can be played", len(fixtures))
	}
	for _, f := range fixtures {
		err := g.Await(ctx, 60*time.Second, f.file+" to be applied", func(ctx context.Context) (bool, error) {
			r, err = g.Shell(ctx, "kubectl apply -f - <<'END'\n"+f.objects+"\nEND")
			return r.Code == 0, err // a new definition takes a moment to be served
		})
		if err != nil {
			t.Fatalf("%v: %s", err, r.Stderr)
		}
	}
	// Fixtures with an expected message first: after them, the webhook has seen all objects.
	slices.SortStableFunc(fixtures, func(a, b example) int {
		if (a.want == nil) == (b.want == nil) {
			return 0
		} else if a.want == nil {
			return 1
		}
		return -1
	})
	for _, f := range fixtures {
		denials := func(ctx context.Context) (forbidden []string, err error) {
			r, err = g.Kubectl(ctx, append([]string{"delete", "--dry-run=server"}, f.args...)...)
			for line := range strings.Lines(r.Stderr) {
				if strings.Contains(line, "forbidden: ") {
					forbidden = append(forbidden, line)
				}
			}
			return forbidden, err
		}
		if f.want == nil {
			if got, err := denials(ctx); err != nil || r.Code != 0 || len(got) > 0 {
				t.Errorf("%s: it exits with %d and says %q: %v %s", f.file, r.Code, got, err, r.Stderr)
			}
			continue
		}
		var got []string
		err := g.Await(ctx, 60*time.Second, f.file+" to be forbidden", func(ctx context.Context) (_ bool, err error) {
			got, err = denials(ctx)
			return len(got) == 1 && f.want.MatchString(got[0]), err
		})
		if err != nil {
			t.Errorf("%s: got %q, want one line with %s: %v\n%s", f.file, got, f.want, err, r.Stderr)
		}
	}
	playStates(t, g)
}

// configure sets the parameters of the examples: the weekday on which namespaces may not be deleted, if any,
// and the start of a change freeze of two days.
func configure(t *testing.T, g *scenario.Guarded, day string, freeze time.Time) {
	t.Helper()
	const form = "2006-01-02T15:04:05Z"
	r, err := g.Shell(t.Context(), fmt.Sprintf(`kubectl -n termguard-system apply -f - <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: termguard-config}
data:
  config.yaml: |
    apiVersion: termguard.dev/v1
    kind: Config
    params:
      no-fridays: {days: [%s]}
      change-freeze: {from: "%s", until: "%s", group: sre}
END`, day, freeze.Format(form), freeze.AddDate(0, 0, 2).Format(form)))
	if err == nil && r.Code == 0 {
		_, err = g.MountConfig(t.Context())
	}
	if err != nil || r.Code != 0 {
		t.Fatalf("give the examples their parameters: %v %s", err, r.Stderr)
	}
}

// playStates denies one deletion for each example in apart and allows one that differs in one fact.
func playStates(t *testing.T, g *scenario.Guarded) {
	t.Helper()
	run := func(line string) {
		t.Helper()
		if err := g.Await(t.Context(), 60*time.Second, line, func(ctx context.Context) (bool, error) {
			r, err := g.Shell(ctx, line)
			return r.Code == 0, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(forbidden string, args ...string) {
		t.Helper()
		var last lab.Result
		if err := g.Await(t.Context(), 90*time.Second, fmt.Sprintf("kubectl delete %v to say %q", args, forbidden), func(ctx context.Context) (_ bool, err error) {
			last, err = g.Kubectl(ctx, append([]string{"delete", "--dry-run=server"}, args...)...)
			if forbidden == "" {
				return last.Code == 0 && !strings.Contains(last.Stderr, "forbidden: "), err
			}
			return strings.Contains(last.Stderr, "forbidden: "+forbidden) && strings.Count(last.Stderr, "forbidden: ") == 1, err
		}); err != nil {
			t.Errorf("%v\nlast: %d %s", err, last.Code, last.Stderr)
		}
	}
	today := time.Now().UTC()
	run("kubectl create namespace states; kubectl get namespace states")
	run("kubectl -n states create deployment web --image=web || kubectl -n states get deployment web")

	bob := []string{"deployments.apps/web", "-n", "states", "--as", "bob", "--as-group", "payments"}
	configure(t, g, today.Weekday().String(), today.AddDate(0, 0, -1))
	says("namespace states is not deleted on a "+today.Weekday().String(), "namespace/states", "--as", "bob", "--as-group", "sre")
	says("deployments.apps/web is not deleted in the change freeze; group sre may", bob...)
	says("", append(slices.Clone(bob[:len(bob)-1]), "sre")...)
	configure(t, g, today.AddDate(0, 0, 3).Weekday().String(), today.AddDate(0, 0, 1))
	says("", bob...)
	says("", "namespace/states", "--as", "bob", "--as-group", "payments")

	// Two replicas of a database: first one runs, then both.
	run(`kubectl apply -f - <<'END'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: states}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app.kubernetes.io/name: postgresql}}
  template:
    metadata: {labels: {app.kubernetes.io/name: postgresql}}
    spec: {containers: [{name: db, image: db}]}
END`)
	runs := func(pod string) {
		t.Helper()
		run("kubectl -n states patch pod " + pod + ` --subresource=status --type=merge -p '{"status":{"phase":"Running"}}'`)
	}
	runs("db-0")
	says("pods/db-0 is the last running replica of StatefulSet/db", "pod/db-0", "-n", "states")
	runs("db-1")
	says("", "pod/db-0", "-n", "states")

	// A silent node is not ready: it may be deleted, but no other node.
	says("", "node/steady")
	run(`kubectl apply -f - <<'END'
{apiVersion: v1, kind: Node, metadata: {name: silent}}
END`)
	run(`kubectl patch node silent --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}'`)
	says("nodes/steady is not deleted while other nodes are not ready (1)", "node/steady")
	says("", "node/silent")
	run("kubectl delete node silent || ! kubectl get node silent")
	says("", "node/steady")
}

var wantComment = regexp.MustCompile(`# want "(.*)"`)

func playable(t *testing.T, folder string) (all []example) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*", "testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		if slices.Contains(apart, filepath.Base(filepath.Dir(filepath.Dir(file)))) {
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
		f := example{file: file, objects: objects, args: []string{request.Resource + "/" + request.Name}}
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
		if want := wantComment.FindStringSubmatch(text); want != nil {
			f.want = regexp.MustCompile(strings.ReplaceAll(want[1], `\\`, `\`))
		}
		all = append(all, f)
	}
	return all
}
