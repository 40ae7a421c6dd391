package scenario

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/scan"
	"github.com/termguard/termguard/test/lab"
)

// A finalizer without an owner is removed as its owner would.
var mendable = map[string]struct{ broken, mend string }{
	"webhook": {`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: keeper}
webhooks:
- name: keeper.example.com
  clientConfig: {service: {namespace: default, name: no-such-service, path: /}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [configmaps]}]
  namespaceSelector: {matchLabels: {webhook: "yes"}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`, "delete validatingwebhookconfiguration keeper"},
	"kubesphere": {"", `patch namespace/NAMESPACE --type=merge -p '{"metadata":{"finalizers":null}}'`},
	"api": {`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.gone.example.com}
spec: {group: gone.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: default, name: no-such-service}}
`, "delete apiservice v1.gone.example.com"},
}

// ownerless maps causes, also the names of ConfigMaps, to finalizers without an owner.
var ownerless = map[string]string{
	"kiali": "kiali.io/finalizer", "actions": "actions.summerwind.dev/runner-pod", "sail": "sailoperator.io/sail-operator",
	"certmanager": "acme.cert-manager.io/finalizer", "maistra": "maistra.io/istio-operator", "workflows": "workflows.argoproj.io/artifact-gc", "argocd": "argoproj.io/finalizer",
}

func mending(cause string) string {
	if ownerless[cause] != "" {
		return "patch configmap/" + cause + ` -n NAMESPACE --type=merge -p '{"metadata":{"finalizers":null}}'`
	}
	return mendable[cause].mend
}

func causeOf(c scan.Cause) string {
	for cause, finalizer := range ownerless {
		if slices.Contains(c.Finalizers, finalizer) {
			return cause
		}
	}
	switch {
	case slices.Contains(c.Finalizers, "finalizers.kubesphere.io/namespaces"):
		return "kubesphere"
	case c.Object != nil && c.Object.Name == "keeper":
		return "webhook"
	case c.Object != nil && c.Object.Name == "v1.gone.example.com":
		return "api"
	}
	return c.ID
}

// TestMended checks a scan's predictions: objects that a repair should unblock are deleted then, and those that
// another cause blocks as well stay until its repair.
func TestMended(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	for _, round := range []struct {
		name   string
		worlds map[string][]string // the causes in each namespace
		mend   []string
	}{
		{"Namespaced", map[string][]string{
			"webhook": {"webhook"}, "kiali": {"kiali"}, "actions": {"actions"}, "kubesphere": {"kubesphere"}, "sail": {"sail"},
			"certmanager": {"certmanager"}, "maistra": {"maistra"}, "workflows": {"workflows"}, "argocd": {"argocd"},
			"webhook-kiali": {"webhook", "kiali"}, "kiali-kubesphere": {"kiali", "kubesphere"}, "sail-certmanager": {"sail", "certmanager"}, "webhook-maistra": {"webhook", "maistra"},
		}, []string{"webhook", "kiali", "actions", "kubesphere", "sail", "certmanager", "maistra", "workflows", "argocd"}},
		{"Everything", map[string][]string{"api": {"api"}, "api-actions": {"api", "actions"}}, []string{"api", "actions"}},
	} {
		t.Run(round.name, func(t *testing.T) { playMended(t, l, round.name, round.worlds, round.mend) })
	}
}

func playMended(t *testing.T, l *lab.Lab, round string, worlds map[string][]string, mend []string) {
	ctx := t.Context()
	kubectl := func(args string) string { t.Helper(); return kubectlIn(t, l, args) }
	all := ""
	for name, causes := range worlds {
		namespace := "{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {round: ROUND, " + strings.Join(causes, `: "yes", `) + `: "yes"}`
		if slices.Contains(causes, "kubesphere") {
			namespace += ", finalizers: [finalizers.kubesphere.io/namespaces]"
		}
		world := namespace + "}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: NAME}}\n"
		for cause, finalizer := range ownerless {
			if slices.Contains(causes, cause) {
				world += "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: " + cause + ", namespace: NAME, finalizers: [" + finalizer + "]}}\n"
			}
		}
		all += "---\n" + strings.NewReplacer("NAME", name, "ROUND", round).Replace(world)
	}
	for _, cause := range mend {
		all += "---\n" + mendable[cause].broken
	}
	if err := l.Apply(ctx, all); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(mend, "api") {
		kubectl("wait apiservice/v1.gone.example.com --for=condition=Available=false --timeout=60s")
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, binary, "scan", "--kubeconfig", l.Kubeconfig(), "--only", "namespaces", "--namespaces", "round="+round, "--fail-on", "never", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var s scan.Scan
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	if s.Mended == nil || s.Mended.Objects != len(worlds) || s.Mended.Free != len(worlds) {
		t.Errorf("with everything repaired: %+v, want all %d", s.Mended, len(worlds))
	}
	names := map[string]string{} // of causes, by id
	for _, c := range s.Causes {
		names[c.ID] = causeOf(c)
	}
	predicted := map[string]bool{}
	for _, c := range s.Causes {
		cause := causeOf(c)
		predicted[cause] = true
		mended := []string{cause}
		if c.Mended != nil {
			for _, id := range c.Mended.With {
				mended = append(mended, names[id])
			}
		}
		var alone, still []string
		for name, causes := range worlds {
			switch {
			case !slices.Contains(causes, cause):
			case !slices.ContainsFunc(causes, func(c string) bool { return !slices.Contains(mended, c) }):
				alone = append(alone, name)
			default:
				still = append(still, "namespaces/"+name)
			}
		}
		slices.Sort(still)
		if c.Mended == nil {
			t.Errorf("%s (%s): it does not say what would be free", cause, c.Title)
			continue
		}
		slices.Sort(c.Mended.StillHeld)
		if c.Mended.Free != len(alone) || !slices.Equal(c.Mended.StillHeld, still) {
			t.Errorf("%s: repaired: %d unblocked and %q still blocked; want %q and %q", cause, c.Mended.Free, c.Mended.StillHeld, alone, still)
		}
	}
	for name := range worlds {
		kubectl("delete namespace " + name + " --wait=false")
	}
	left := map[string]string{} // by namespace
	if err := l.Await(ctx, time.Minute, "the namespace controller to fail or to wait", func(ctx context.Context) (bool, error) {
		for name, causes := range worlds {
			r, err := l.Kubectl(ctx, "get", "namespace", name, "-o", `jsonpath={.status.conditions[?(@.status=="True")].type}`)
			if err != nil || r.Code != 0 {
				return false, err
			}
			left[name] = r.Stdout
			if r.Stdout == "" && !slices.Equal(causes, []string{"kubesphere"}) {
				return false, nil
			}
		}
		return true, nil
	}); err != nil {
		t.Fatalf("%v: %v", err, left)
	}
	mended := map[string]bool{}
	for _, cause := range mend {
		if !predicted[cause] {
			t.Errorf("%s is not reported", cause)
		}
		if mendable[cause].broken != "" {
			kubectl(mending(cause))
		} else {
			for name, causes := range worlds {
				if slices.Contains(causes, cause) {
					kubectl(strings.ReplaceAll(mending(cause), "NAMESPACE", name))
				}
			}
		}
		mended[cause] = true
		for name, causes := range worlds {
			if free := !slices.ContainsFunc(causes, func(c string) bool { return !mended[c] }); free {
				kubectl("wait namespace/" + name + " --for=delete --timeout=150s")
			}
		}
		for name, causes := range worlds { // its dependents are deleted by now
			if held := slices.ContainsFunc(causes, func(c string) bool { return !mended[c] }); held {
				kubectl("get namespace " + name)
			}
		}
	}
}
