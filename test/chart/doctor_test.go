package chart

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/doctor"
	"github.com/termguard/termguard/test/scenario"
)

// checkDoctor breaks one prerequisite after another: termguard doctor names exactly that one.
func checkDoctor(t *testing.T, g *scenario.Guarded) {
	t.Helper()
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	shell := func(commands string) {
		t.Helper()
		if r, err := g.Shell(t.Context(), "set -e; "+commands); err != nil || r.Code != 0 {
			t.Fatalf("%s: %v %s", commands, err, r.Stderr)
		}
	}
	wants := func(when, kubeconfig string, code int, failed []string, says ...string) {
		t.Helper()
		var got []string
		var text string
		err := g.Await(t.Context(), 60*time.Second, when, func(ctx context.Context) (bool, error) {
			r, err := g.Shell(ctx, binary+" doctor -o json --kubeconfig "+kubeconfig)
			if err != nil {
				return false, err
			}
			var report doctor.Report
			if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
				return false, err
			}
			got, text = nil, r.Stdout
			for _, c := range report.Checks {
				if c.Result == doctor.Failed {
					got = append(got, c.Name)
				}
			}
			missing := slices.ContainsFunc(says, func(what string) bool { return !strings.Contains(text, what) })
			return r.Code == code && slices.Equal(got, failed) && !missing, nil
		})
		if err != nil {
			t.Fatalf("%s: %q failed, want %q, exit code %d and %q: %v\n%s", when, got, failed, code, says, err, text)
		}
	}
	admin := g.Kubeconfig()
	wants("all is well", admin, 0, nil, "answered", "ConfigMap termguard-config not found: the defaults are in force")

	shell("kubectl create namespace misspelt && kubectl label namespace misspelt termguard.dev/enforce.orphaned-finaliser=deny")
	wants("a label names no policy", admin, 1, []string{"labels"}, `namespace misspelt: label termguard.dev/enforce.orphaned-finaliser=deny is ignored: policy \"orphaned-finaliser\" not found; did you mean \"orphaned-finalizer\"?`)
	shell("kubectl delete namespace misspelt")

	shell("kubectl -n termguard-system create configmap broken --from-literal=broken.rego=package && kubectl -n termguard-system label configmap broken termguard.dev/policy=")
	wants("a policy is refused", admin, 1, []string{"policies"}, "configmap termguard-system/broken: ", "rego_parse_error")
	shell("kubectl -n termguard-system delete configmap broken")

	shell("kubectl -n termguard-system create configmap termguard-config '--from-literal=config.yml={apiVersion: termguard.dev/v1, kind: Config}'")
	wants("its key is misspelt", admin, 1, []string{"configuration"}, "ConfigMap termguard-config has no key config.yaml")
	shell("kubectl -n termguard-system delete configmap termguard-config")
	shell("kubectl -n termguard-system create configmap termguard-config '--from-literal=config.yaml={apiVersion: termguard.dev/v1, kind: Config}'")
	file, err := g.MountConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wants("it is configured", admin, 0, nil, "ConfigMap termguard-config is in force")
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: termguard.dev/v1\nkind: Config\n"
	for text, failed := range map[string][]string{head + "enforcement: {default: denied}\n": {"configuration"}, head: nil} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if failed == nil {
			wants("another configuration is in force", admin, 0, nil, "differs from what is in force")
		} else {
			wants("the configuration is refused", admin, 1, failed, `\"denied\" is not deny, warn, dryrun or off`)
		}
	}
	if err := os.WriteFile(file, right, 0o600); err != nil {
		t.Fatal(err)
	}

	config, err := g.ServiceAccountConfig(t.Context(), "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	outsider, err := g.WriteKubeconfig("stranger", config)
	if err != nil {
		t.Fatal(err)
	}
	wants("nothing may be read", outsider, 1, nil, "you may not read ")

	if err := g.Termguard.Stop(); err != nil {
		t.Fatal(err)
	}
	wants("termguard is gone", admin, 1, []string{"reachable", "replicas"}, "the API server got no answer")
	shell(`kubectl patch validatingwebhookconfiguration termguard --type=json -p '[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]'`)
	wants("the caBundle is empty", admin, 1, []string{"reachable", "replicas", "certificate"}, "caBundle of webhook delete.termguard.dev is empty")
	shell("kubectl delete validatingwebhookconfiguration termguard")
	wants("nobody is asked", admin, 1, []string{"installed", "replicas"}, "ValidatingWebhookConfiguration termguard not found")
}
