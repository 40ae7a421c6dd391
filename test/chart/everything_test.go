package chart

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/internal/bundletest"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// before is the commit of an older chart that users may have, until there is a release. The webhook still
// accepts its values.
const before = "5033c2f"

// TestEveryValue upgrades from an older chart with every value set. The test plays the node, which mounts
// files, and cert-manager, which issues certificates and injects the authority.
func TestEveryValue(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	ctx := t.Context()
	old := t.TempDir()
	unpack := exec.CommandContext(ctx, "sh", "-c", "git cat-file -e "+before+" && git archive "+before+" deploy/chart deploy/testdata | tar -x -C "+old)
	unpack.Dir = lab.Root()
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Skipf("commit %s, whose chart is upgraded, is not in this clone (git fetch --unshallow): %v %s", before, err, out)
	}
	const secret = "correct horse battery staple"
	dir := t.TempDir()
	bundle := filepath.Join(dir, "bundle.tar.gz")
	// Values in full.values.yaml that need real files to run.
	overrides := func() string {
		file := filepath.Join(t.TempDir(), "values.yaml")
		text := fmt.Sprintf("policyFiles: [%s]\nverificationKey: %s\nextraArgs: [--signing-alg=HS256, --deadline=900ms]\nextraPolicies:\n  team_finalizer: |\n    %s",
			bundle, bundletest.KeyFile(t, secret), strings.ReplaceAll(ruleOf("team-finalizer", "example.com/team", "has a team"), "\n", "\n    "))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}

	l, err := lab.Start(ctx, lab.Options{Progress: t.Output(), Prepare: scenario.PresentToTermguard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	s := newSite(t, l)
	by, err := lab.NewAuthority("cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := by.Issue("termguard", nil, []string{"termguard." + home + ".svc"})
	for name, content := range map[string][]byte{
		"tls.crt": certificate, "tls.key": key, "bundle.tar.gz": bundleOf(t, secret, "ask-first", "example.com/ask", "is asked about first"),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	mounted := append(s.ClientArgs(), "--tls-cert-file="+filepath.Join(dir, "tls.crt"), "--tls-key-file="+filepath.Join(dir, "tls.key"))
	s.definitions()
	s.kubectl("create", "namespace", "stuck")
	s.kubectl("label", "namespace", "stuck", "example.com/ask=", "example.com/team=")
	says := func(sentences ...string) func(lab.Result) bool {
		return func(r lab.Result) bool {
			for _, sentence := range sentences {
				if !strings.Contains(r.Stderr, sentence) {
					return false
				}
			}
			return r.Code != 0
		}
	}

	s.helm("install", "termguard", filepath.Join(old, "deploy", "chart"), "--namespace", home, "--create-namespace",
		"--values", filepath.Join(old, "deploy", "testdata", "full.values.yaml"), "--values", overrides())
	s.inject(by)
	s.args = mounted
	s.start()
	s.awaitAnswer("refuses what the bundle and the ConfigMap of the older chart forbid", says("is asked about first [ask-first]", "has a team [team-finalizer]"))
	trusted := s.caBundles()

	s.helm("upgrade", "termguard", chart(), "--namespace", home,
		"--values", filepath.Join(deploy, "testdata", "full.values.yaml"), "--values", overrides())
	if got := s.caBundles(); got != trusted {
		t.Error("the upgrade took the certificate authority from the webhook configuration, or changed it")
	}
	s.restart()
	s.awaitAnswer("refuses the same after the upgrade", says("is asked about first [ask-first]", "has a team [team-finalizer]"))
	s.awaitReady("[+]facts ok")

	s.helm("uninstall", "termguard", "--namespace", home)
	s.stop()
	s.nothingLeft()
}

func (s *site) definitions() {
	s.t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}/deploy/crds", "github.com/cert-manager/cert-manager")
	list.Dir = lab.Root()
	folder, err := list.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	s.kubectl("create", "-f", strings.TrimSpace(string(folder)))
	for plural, kind := range map[string]string{"servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"} {
		if err := s.Apply(s.t.Context(), fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: %[1]s, kind: %[2]s}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, plural, kind)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.kubectl("wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s")
}

// inject sets the caBundle, like cert-manager's injector.
func (s *site) inject(by *lab.Authority) {
	s.t.Helper()
	n := len(strings.Fields(s.kubectl("get", "validatingwebhookconfiguration", "termguard", "-o", "jsonpath={.webhooks[*].name}")))
	var patch []string
	for i := range n {
		patch = append(patch, fmt.Sprintf(`{"op": "add", "path": "/webhooks/%d/clientConfig/caBundle", "value": %q}`, i, base64.StdEncoding.EncodeToString(by.PEM())))
	}
	s.kubectl("patch", "validatingwebhookconfiguration", "termguard", "--type=json", "-p", "["+strings.Join(patch, ",")+"]")
}

func (s *site) awaitReady(line string) {
	s.t.Helper()
	address, err := s.ClusterIP(s.t.Context(), home, "termguard")
	if err != nil {
		s.t.Fatal(err)
	}
	last := ""
	if err := s.Await(s.t.Context(), 60*time.Second, "readyz to say "+line, func(ctx context.Context) (bool, error) {
		response, err := http.Get("http://" + address + ":8081/readyz?verbose")
		if err != nil {
			return false, nil
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		last = string(body)
		return response.StatusCode == http.StatusOK && strings.Contains(last, line), err
	}); err != nil {
		s.t.Fatalf("%v\nlast: %s", err, last)
	}
}

func bundleOf(t *testing.T, secret, id, label, says string) []byte {
	t.Helper()
	name := strings.ReplaceAll(id, "-", "_")
	return bundletest.Archive(t, secret, map[string]string{"/" + name + "/" + name + ".rego": ruleOf(id, label, says)})
}

func ruleOf(id, label, says string) string {
	return `# METADATA
# title: Namespace with a label
# description: A rule of our own.
# related_resources:
#   - ref: https://example.com
# custom:
#   id: ` + id + `
#   severity: low
#   triggers: [delete]
#   resources: [namespaces]
#   remedy: Ask.
#   limits: None.
package termguard.` + strings.ReplaceAll(id, "-", "_") + `

deny contains {"msg": sprintf("namespace %s ` + says + `", [input.request.name]), "kind": "forbidden"} if {
	input.request.operation == "DELETE"
	"` + label + `" in object.keys(input.request.oldObject.metadata.labels)
}
`
}
