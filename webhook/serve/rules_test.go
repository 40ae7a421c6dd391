package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/certs"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/bundletest"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// policyNamed returns a policy that reports msg for every deletion.
func policyNamed(id, msg string) string {
	return `# METADATA
# title: Of our own
# description: A rule of our own.
# related_resources:
#   - ref: https://example.com
# custom:
#   id: ` + id + `
#   severity: low
#   triggers: [delete]
#   remedy: Ask.
#   limits: None.
package termguard.` + strings.ReplaceAll(id, "-", "_") + `

deny contains {"msg": "` + msg + `", "kind": "forbidden"} if input.request.operation == "DELETE"
`
}

func policyMap(name string, files ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "termguard-system", Labels: map[string]string{config.PolicyLabel: ""}}, Data: map[string]string{}}
	for i := 0; i < len(files); i += 2 {
		cm.Data[files[i]] = files[i+1]
	}
	return cm
}

// site is a rules with its own cluster, folder and configuration.
type site struct {
	*testing.T
	*rules
	client  *fake.Clientset
	folder  string
	file    string
	events  *record.FakeRecorder
	now     webhook.Rules
	metrics *prometheus.Registry
}

func newSite(t *testing.T, objects ...*corev1.ConfigMap) *site {
	t.Helper()
	s := &site{T: t, client: fake.NewClientset(), folder: t.TempDir(), file: filepath.Join(t.TempDir(), "config.yaml"), events: record.NewFakeRecorder(100), metrics: prometheus.NewRegistry()}
	s.write(s.file, "apiVersion: termguard.dev/v1\nkind: Config\n")
	for _, object := range objects {
		s.put(object)
	}
	s.rules = newRules(Options{
		Folders: []string{s.folder}, ConfigFile: s.file, Deadline: time.Minute, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Certs: certs.Options{Namespace: "termguard-system"}, ClientCAFile: "clients.crt",
		ReadConfig: func(ids []string) (config.Config, error) {
			file, err := os.Open(s.file)
			if errors.Is(err, os.ErrNotExist) {
				return config.Config{}, nil
			}
			if err != nil {
				return config.Config{}, err
			}
			defer file.Close()
			return config.Read(file, ids)
		},
	}, s.client, s.events, s.metrics)
	s.use = func(r webhook.Rules) { s.now = r }
	engine, err := s.start(t.Context(), s.client)
	if err != nil {
		t.Fatal(err)
	}
	s.now = webhook.Rules{Evaluator: engine, Enforcement: s.config.Enforcement}
	go s.informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), s.informer.HasSynced) {
		t.Fatal("the ConfigMaps are not listed")
	}
	return s
}

func (s *site) write(file, text string) {
	s.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		s.Fatal(err)
	}
}

func (s *site) put(cm *corev1.ConfigMap) {
	s.Helper()
	maps := s.client.CoreV1().ConfigMaps(cm.Namespace)
	_, err := maps.Update(s.Context(), cm, metav1.UpdateOptions{})
	if err != nil {
		_, err = maps.Create(s.Context(), cm, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// says waits until a deletion yields exactly these messages.
func (s *site) says(want ...string) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		s.reload(s.Context())
		got := s.messages()
		if slices.Equal(got, want) || time.Now().After(deadline) {
			if diff := cmp.Diff(want, got); diff != "" {
				s.Errorf("messages: -want, +got:\n%s", diff)
			}
			return
		}
		select { // the watch delivers put
		case <-s.changes:
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *site) messages() []string {
	s.Helper()
	input := map[string]any{"request": map[string]any{
		"operation": "DELETE", "resource": map[string]any{"group": "", "version": "v1", "resource": "configmaps"}, "name": "a", "namespace": "demo",
		"oldObject": map[string]any{"metadata": map[string]any{"name": "a"}},
	}}
	result, err := s.now.Evaluator.Evaluate(s.Context(), policies.Delete, input, policies.Document{})
	if err != nil {
		s.Fatal(err)
	}
	var texts []string
	for _, f := range result.Findings {
		texts = append(texts, f.Message)
	}
	slices.Sort(texts)
	return texts
}

// drainEvents returns the Events so far.
func (s *site) drainEvents() (all []string) {
	for {
		select {
		case e := <-s.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// refusals returns the metric termguard_refused_sources of one kind.
func (s *site) refusals(kind string) float64 {
	s.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "termguard_refused_sources" && metric.GetLabel()[0].GetValue() == kind {
				return metric.GetGauge().GetValue()
			}
		}
	}
	s.Fatalf("no termguard_refused_sources of kind %s", kind)
	return 0
}

func TestRulesFollow(t *testing.T) {
	s := newSite(t, policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "one")))
	s.says("one")
	s.put(policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "two")))
	s.says("two")
	s.put(policyMap("team-b", "b_rule.rego", policyNamed("b-rule", "three"), "notes.txt", "not Rego"))
	s.says("three", "two")
	empty := []string{s.folder + ": " + noPolicies}
	if got := s.status.Load().Rejections; !slices.Equal(got, empty) {
		t.Errorf("of a folder without policies, the status says %q, want %q", got, empty)
	}
	s.write(filepath.Join(s.folder, "c_rule", "c_rule.rego"), policyNamed("c-rule", "four"))
	s.says("four", "three", "two")
	s.write(s.file, "apiVersion: termguard.dev/v1\nkind: Config\nenforcement: {policies: {c-rule: \"off\"}}\n")
	s.says("three", "two")
	if refused := s.status.Load().Rejections; len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
	if err := s.client.CoreV1().ConfigMaps("termguard-system").Delete(t.Context(), "team-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.says("three")
	if got := s.refusals("policies"); got != 0 {
		t.Errorf("%v sources are refused", got)
	}
}

// TestRulesFollowBundles checks that a bundle is used once its signature is valid, and that an unsigned or
// missing one leaves the last one in force.
func TestRulesFollowBundles(t *testing.T) {
	race.Skip(t)
	const secret = "correct horse battery staple"
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	bundle := func(secret, says string) {
		s.write(file, string(bundletest.Archive(t, secret, map[string]string{"/a_rule/a_rule.rego": policyNamed("a-rule", says)})))
	}
	key, err := policies.ReadKey(bundletest.KeyFile(t, secret), "HS256")
	if err != nil {
		t.Fatal(err)
	}
	bundle(secret, "one")
	s.options.Folders, s.options.Key = append(s.options.Folders, file), key
	s.says("one")
	bundle(secret, "two")
	s.says("two")
	for want, change := range map[string]func(){
		"missing .signatures.json": func() { bundle("", "three") },
		"verify JWT signature":     func() { bundle("another", "three") },
		"no such file":             func() { _ = os.Remove(file) },
	} {
		change()
		s.reload(t.Context())
		if !strings.Contains(s.rejections[file], want) {
			t.Errorf("it is refused as %q, want %q", s.rejections[file], want)
		}
		s.says("two")
	}
	bundle(secret, "four")
	s.says("four")
	if got := s.refusals("policies"); got != 0 {
		t.Errorf("%v sources are refused", got)
	}
}

// TestRulesKeepTheLastGood checks that an invalid source is named, stays without effect on others, and leaves
// its last version in force.
func TestRulesKeepTheLastGood(t *testing.T) {
	race.Skip(t)
	s := newSite(t, policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "one")), policyMap("team-b", "b_rule.rego", policyNamed("b-rule", "two")))
	s.says("one", "two")
	s.drainEvents()
	bad := map[string]struct {
		cm   *corev1.ConfigMap
		want string // in the Event
	}{
		"does not parse":     {policyMap("team-a", "a_rule.rego", "package"), "rego_parse_error"},
		"of the wrong shape": {policyMap("team-a", "a_rule.rego", strings.Replace(policyNamed("a-rule", "x"), `{"msg": "x", "kind": "forbidden"}`, `"x"`, 1)), "want an object with msg, got a string"},
		"an id of ours":      {policyMap("team-a", "orphaned_finalizer.rego", policyNamed("orphaned-finalizer", "x")), `policy "orphaned-finalizer" is already that of termguard itself`},
		"an id of another":   {policyMap("team-a", "b_rule.rego", policyNamed("b-rule", "x")), `policy "b-rule" is already that of configmap termguard-system/team-b`},
		"no policy":          {policyMap("team-a", "README.md", "x"), "it has no key POLICY.rego"},
		"too large":          {policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "x")+strings.Repeat("# x\n", maxSource/4)), "larger than 1048576 bytes"},
		"calls out":          {policyMap("team-a", "a_rule.rego", strings.Replace(policyNamed("a-rule", "x"), `input.request.operation == "DELETE"`, `http.send({"method": "GET", "url": "http://example.com"})`, 1)), "http.send is not available"},
	}
	for name, tc := range bad {
		s.put(tc.cm)
		for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.rejections["configmap termguard-system/team-a"], tc.want) && time.Now().Before(deadline); {
			select {
			case <-s.changes:
			case <-time.After(10 * time.Millisecond):
			}
			s.reload(t.Context())
		}
		s.says("one", "two")
		if events := s.drainEvents(); len(events) == 0 || !strings.HasPrefix(events[0], "Warning PolicyRefused") || !strings.Contains(strings.Join(events, "\n"), tc.want) {
			t.Errorf("%s: Events are %q, want one with %q", name, events, tc.want)
		}
		if got := s.refusals("policies"); got != 1 {
			t.Errorf("%s: %v sources are refused, want 1", name, got)
		}
	}
	s.put(policyMap("team-b", "b_rule.rego", policyNamed("b-rule", "three")))
	s.says("one", "three")
	s.put(policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "four")))
	s.says("four", "three")
	if got := s.refusals("policies"); got != 0 {
		t.Errorf("%v sources are refused once all are good", got)
	}
}

func TestConfigurationKeepsTheLastGood(t *testing.T) {
	s := newSite(t, policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "one")))
	const head = "apiVersion: termguard.dev/v1\nkind: Config\n"
	s.write(s.file, head+"enforcement: {policies: {a-rule: deny}}\n")
	s.reload(t.Context())
	for name, text := range map[string]string{
		"nonsense":                       "{",
		"an unknown policy":              head + "enforcement: {policies: {a-rle: deny}}\n",
		"a setting that needs a restart": head + "finalizerOwners: {example.com/f: external}\n",
	} {
		s.write(s.file, text)
		s.reload(t.Context())
		if s.now.Enforcement.Policies["a-rule"] != config.Deny || s.rejections[configuration] == "" {
			t.Errorf("%s: enforcement is %+v, refused is %q", name, s.now.Enforcement, s.rejections)
		}
		if got := s.refusals(configuration); got != 1 {
			t.Errorf("%s: %v configurations are refused, want 1", name, got)
		}
	}
	s.write(s.file, head+"finalizerOwners: {}\n") // same as absent
	s.reload(t.Context())
	if s.now.Enforcement.Policies != nil || len(s.rejections) > 0 {
		t.Errorf("after it was mended: enforcement %+v, refused %q", s.now.Enforcement, s.rejections)
	}
}

// TestConfigurationAppears checks that the defaults are in force without a file, as in pods whose ConfigMap
// does not exist, and that a file takes effect when it appears and stops when it is removed.
func TestConfigurationAppears(t *testing.T) {
	s := newSite(t)
	fingerprint := func() string { return s.status.Load().Configuration }
	for _, text := range []string{"", "apiVersion: termguard.dev/v1\nkind: Config\nenforcement: {default: deny}\n", ""} {
		if text == "" {
			if err := os.Remove(s.file); err != nil {
				t.Fatal(err)
			}
		} else {
			s.write(s.file, text)
		}
		s.reload(t.Context())
		if denies := s.now.Enforcement.Default == config.Deny; denies != (text != "") || len(s.rejections) > 0 || (fingerprint() == "") != (text == "") {
			t.Errorf("file %q: enforcement %+v, refused %q, fingerprint %q", text, s.now.Enforcement, s.rejections, fingerprint())
		}
	}
}

// TestPolicyGone checks that a configuration that names a policy whose ConfigMap was deleted is reported, and
// neither prevents the next start nor disables the rest.
func TestPolicyGone(t *testing.T) {
	race.Skip(t)
	s := newSite(t, policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "one")))
	const head = "apiVersion: termguard.dev/v1\nkind: Config\n"
	s.write(s.file, head+"enforcement: {default: deny, policies: {a-rule: deny}}\n")
	s.says("one")
	if err := s.client.CoreV1().ConfigMaps("termguard-system").Delete(t.Context(), "team-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.says()
	for _, when := range []string{"while it runs", "at the start"} {
		if s.config.Enforcement.Default != config.Deny || !strings.Contains(s.rejections[configuration], `policy "a-rule" not found`) {
			t.Errorf("%s: enforcement is %+v, refused is %q", when, s.config.Enforcement, s.rejections)
		}
		if got := s.refusals(configuration); got != 1 {
			t.Errorf("%s: %v configurations are refused, want 1", when, got)
		}
		if got, want := s.rejectionNotes(), "[!]policies: none there (see the log): "+s.folder+"\n[!]policies: rejected; the previous version stays in force (see the log): configuration\n"; got != want {
			t.Errorf("%s: readyz says %q, want %q", when, got, want)
		}
		s.rejections = map[string]string{}
		if _, err := s.start(t.Context(), s.client); err != nil {
			t.Fatal(err)
		}
	}
	s.write(s.file, head+"enforcement: {policies: {a-rle: deny}}\n")
	s.reload(t.Context())
	s.put(policyMap("team-a", "a_rule.rego", policyNamed("a-rule", "one")))
	s.says("one")
	if s.config.Enforcement.Default != config.Deny || !strings.Contains(s.rejections[configuration], "a-rle") {
		t.Errorf("another file that is wrong took the place of the one in force: %+v, %q", s.config.Enforcement, s.rejections)
	}
	s.write(s.file, head)
	s.reload(t.Context())
	if got := s.refusals(configuration); got != 0 {
		t.Errorf("%v configurations are refused after it was mended", got)
	}
}

// TestPolicyIsMisspelt checks that a misspelt id of a built-in policy prevents the start, with a suggestion.
func TestPolicyIsMisspelt(t *testing.T) {
	race.Skip(t)
	s := newSite(t)
	s.write(s.file, "apiVersion: termguard.dev/v1\nkind: Config\nenforcement: {policies: {gone: deny, orphaned-finalizr: deny}}\n")
	const want = `enforcement.policies: policy "orphaned-finalizr" not found; did you mean "orphaned-finalizer"?`
	if _, err := s.start(t.Context(), s.client); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it starts: %v, want %s", err, want)
	}
}

// TestRulesStart checks that errors in sources on the command line prevent the start, and errors in
// ConfigMaps do not.
func TestRulesStart(t *testing.T) {
	s := newSite(t, policyMap("team-a", "a_rule.rego", "package"))
	s.says()
	if s.rejections["configmap termguard-system/team-a"] == "" {
		t.Error("a ConfigMap that is wrong at the start is not named")
	}
	s.write(filepath.Join(s.folder, "c_rule", "c_rule.rego"), "package")
	if _, err := s.start(t.Context(), s.client); err == nil || !strings.Contains(err.Error(), "c_rule.rego") {
		t.Errorf("start with a folder that is wrong: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := os.RemoveAll(filepath.Join(s.folder, "c_rule")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.start(ended, s.client); err != nil {
		t.Errorf("start where nothing can be listed: %v", err)
	}
}

// TestReadSourceIsBounded checks that no more of a folder or bundle is held than policies may have: it is read twice
// a second.
func TestReadSourceIsBounded(t *testing.T) {
	folder := t.TempDir()
	bundle := filepath.Join(folder, "bundle.tar.gz")
	if err := os.Mkdir(filepath.Join(folder, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{filepath.Join(folder, "a", "a.rego"): maxSource + 1, bundle: policies.MaxBundle + 1} {
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{folder, bundle} {
		if s := readSource(name); s.err == nil || !strings.Contains(s.err.Error(), "larger than") || s.files != nil {
			t.Errorf("%s: %d files, %v", name, len(s.files), s.err)
		}
	}
}
