package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/termguard/termguard/deletion"
)

const (
	heldA = "/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a"
	heldO = "/apis/kiali.io/v1alpha1/namespaces/other/kialis/a"
)

// idle is what removes the finalizer of Kiali, scaled to zero, and ready once it runs.
func idle(replicas string) string {
	return `
{apiVersion: v1, kind: Namespace, metadata: {name: kiali-operator}, status: {phase: Active}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: kiali-operator, namespace: kiali-operator}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: kiali-operator, namespace: kiali-operator}, spec: {replicas: ` + replicas + `, selector: {matchLabels: {app: k}}, template: {metadata: {labels: {app: k}}, spec: {serviceAccountName: kiali-operator, containers: [{name: c, image: quay.io/kiali/kiali-operator}]}}}, status: {replicas: ` + replicas + `, readyReplicas: ` + replicas + `}}
`
}

// TestDeleteTwice runs two deletions of one target side by side: it goes, both say so, and
// nothing else does.
func TestDeleteTwice(t *testing.T) {
	c := newFakeCluster(t, orphaned("a", "b", "c"))
	other := string(marshalled(t, c.objects[heldO]))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip")
			if code != 0 && !strings.Contains(errs, "nothing to delete") { // it came too late
				t.Errorf("exit code %d: %s%s", code, out.text.String(), errs)
			}
		})
	}
	both.Wait()
	if c.has(demo) {
		t.Error("the namespace is there")
	}
	if now := string(marshalled(t, c.objects[heldO])); now != other {
		t.Errorf("another's object is now %s", now)
	}
}

func marshalled(t *testing.T, object any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDeleteLosesAnswers loses the connection after a request was carried out: what was done
// is not done again, and not denied.
func TestDeleteLosesAnswers(t *testing.T) {
	for request, says := range map[string]string{
		"PATCH " + heldA: "no answer came, so it may be done",
		"DELETE " + demo: "namespaces/demo is gone by now",
	} {
		c := newFakeCluster(t, orphaned("a"))
		var lost []string
		c.loses = func(r string) bool {
			if r != request {
				return false
			}
			lost = append(lost, r)
			return true
		}
		code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip")
		if said := out.text.String() + errs; code != 0 || c.has(demo) || len(lost) != 1 || !strings.Contains(said, says) {
			t.Errorf("%s was lost %d times: exit code %d, want %q: %s", request, len(lost), code, says, said)
		}
	}
}

// TestDeleteLosesRights takes rights away half-way: the run ends, and what comes after is
// not done.
func TestDeleteLosesRights(t *testing.T) {
	c := newFakeCluster(t, orphaned("a", "b"))
	c.before = func(request string) {
		if strings.HasPrefix(request, "PATCH ") {
			c.mu.Lock()
			c.hidden = []string{"kialis"}
			c.mu.Unlock()
		}
	}
	code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip", "--timeout=1ms")
	if said := out.text.String(); code != 1 || !strings.Contains(said, "nothing more is done") || !c.has(demo) || strings.Contains(said, "deletion asked for") {
		t.Errorf("exit code %d: %s%s", code, said, errs)
	}
	for _, path := range []string{heldA, strings.TrimSuffix(heldA, "a") + "b"} {
		if !strings.Contains(string(marshalled(t, c.objects[path])), "kiali.io/finalizer") {
			t.Errorf("%s has lost its finalizer", path)
		}
	}
}

// TestDeleteJudgesAnew changes the cluster while a question waits that is answered: what was
// allowed by a flag, or is answered, goes by what is true then.
func TestDeleteJudgesAnew(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, world string
		args          []string
		answers       []string
		during        string // the first question
		says          string
	}{
		"Back": {
			"the owner came back while a question waited, and a flag allowed to strip",
			orphaned("a") + "---" + idle("0"), []string{"ns/demo", "--allow=strip", "--timeout=1ms"}, []string{"n", "n"},
			idle("1") + `---
{apiVersion: v1, kind: Pod, metadata: {name: kiali-operator-x, namespace: kiali-operator, labels: {app: k}}, spec: {serviceAccountName: kiali-operator, nodeName: good, containers: [{name: c, image: quay.io/kiali/kiali-operator}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
`, "nothing was deleted",
		},
		"Hangs": {
			"the deletion was to complete when it was asked for, and hangs by now",
			orphaned(), []string{"ns/demo", "--timeout=1ms"}, []string{"y", "n", "n"},
			"{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: demo, finalizers: [kiali.io/finalizer]}}",
			"the answer has changed meanwhile: nothing was deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, tc.world)
			terminal, keys := typing(t)
			out := &output{}
			asked := 0
			out.on = func(said string) {
				if n := strings.Count(said, "[y/N] "); n > asked {
					if asked = n; n == 1 {
						c.apply(tc.during)
					}
					if _, err := keys.WriteString(tc.answers[min(n, len(tc.answers))-1] + "\n"); err != nil {
						t.Error(err)
					}
				}
			}
			var errs output
			code := run(t.Context(), append([]string{"termguard", "delete", "--kubeconfig", c.kubeconfig}, tc.args...), terminal, out, &errs)
			if said := out.text.String(); code != 1 || !strings.Contains(said, tc.says) {
				t.Errorf("%s: exit code %d, want %q: %s%s", tc.reason, code, tc.says, said, errs.text.String())
			}
			if held := string(marshalled(t, c.objects[heldA])); !strings.Contains(held, "kiali.io/finalizer") || strings.Contains(held, "deletionTimestamp") || !c.has(demo) {
				t.Errorf("%s: it is now %s\n%s", tc.reason, held, out.text.String())
			}
		})
	}
}

// TestDeleteVanished ends well where the target goes while a question waits.
func TestDeleteVanished(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	terminal, keys := typing(t)
	out := &output{}
	asked := 0
	out.on = func(said string) {
		if n := strings.Count(said, "[y/N] "); n > asked {
			asked = n
			c.mu.Lock()
			delete(c.objects, heldA)
			c.mu.Unlock()
			if _, err := keys.WriteString("y\n"); err != nil {
				t.Error(err)
			}
		}
	}
	var errs output
	if code := run(t.Context(), []string{"termguard", "delete", "--kubeconfig", c.kubeconfig, "kialis/a", "-n", "demo"}, terminal, out, &errs); code != 0 || !strings.Contains(out.text.String(), "gone: kialis.kiali.io/a") {
		t.Errorf("exit code %d: %s%s", code, out.text.String(), errs.text.String())
	}
	for _, request := range c.requests {
		if strings.HasPrefix(request, "PATCH") || strings.HasPrefix(request, "DELETE") {
			t.Errorf("it asked for %s", request)
		}
	}
}

// TestDeleteOnce does not delete again what is Terminating, which could change how it goes.
func TestDeleteOnce(t *testing.T) {
	c := newFakeCluster(t, orphaned()+`---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: leaving, namespace: demo, finalizers: [x.example.com/f], deletionTimestamp: "2026-11-24T00:00:00Z"}}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: there, namespace: demo}}
`)
	_, out, errs := deleted(t.Context(), c, nil, "widgets/leaving", "widgets/there", "-n", "demo", "--yes", "--timeout=1ms")
	var deletions []string
	for _, request := range c.requests {
		if path, ok := strings.CutPrefix(request, "DELETE "); ok {
			deletions = append(deletions, path)
		}
	}
	if len(deletions) != 1 || !strings.Contains(deletions[0], "/widgets/there?") {
		t.Errorf("it deleted %v: %s%s", deletions, out.text.String(), errs)
	}
}

// TestDeletePlace refuses, as kubectl does, a file about another namespace than -n says.
func TestDeletePlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plain.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: demo}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newFakeCluster(t, orphaned())
	code, out, errs := deleted(t.Context(), c, nil, "-f", file, "-n", "other", "--yes")
	if code != exitFailed || !strings.Contains(errs, "configmap/plain -n demo is not in namespace other") || !c.has(demo+"/configmaps/plain") {
		t.Errorf("exit code %d: %s%s", code, out.text.String(), errs)
	}
	if code, out, errs = deleted(t.Context(), c, nil, "-f", file, "-n", "demo", "--yes"); code != 0 || c.has(demo+"/configmaps/plain") {
		t.Errorf("exit code %d: %s%s", code, out.text.String(), errs)
	}
}

// TestDeleteClasses holds flags to what they allow.
func TestDeleteClasses(t *testing.T) {
	owned := strings.Replace(orphaned("a"), "name: a, namespace: demo", "name: a, namespace: demo, ownerReferences: [{apiVersion: acme.example.com/v1, kind: Widget, name: owner, uid: uid-7, blockOwnerDeletion: true}]", 1) +
		"---\n{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: owner, namespace: demo}}\n"
	const told = `
---
{apiVersion: v1, kind: Namespace, metadata: {name: termguard-system}, status: {phase: Active}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: termguard-config, namespace: termguard-system}
data: {config.yaml: "{apiVersion: termguard.dev/v1, kind: Config, params: {slow-termination: {seconds: 1}}}"}
`
	for name, tc := range map[string]struct {
		reason, world string
		args          []string
		code          int
		says          string
	}{
		"Instances": {"what goes with its definition is stripped by the class", orphaned("a"), []string{"crd/kialis.kiali.io", "--yes", "--allow=strip", "--timeout=1ms"}, -1, "done: kialis.kiali.io/a -n other"},
		"Dependent": {"what only its owner references tie to a target is named", owned, []string{"widgets/owner", "-n", "demo", "--cascade=foreground", "--yes", "--allow=strip", "--timeout=1ms"}, exitAsked, "--allow strip=kialis.kiali.io/demo/a"},
		"Named":     {"and is stripped where it is", owned, []string{"widgets/owner", "-n", "demo", "--cascade=foreground", "--yes", "--allow=strip=kialis/demo/a", "--timeout=1ms"}, -1, "done: kialis.kiali.io/a -n demo"},
		"Config":    {"a configuration in the cluster may be anybody's", orphaned("a") + told, []string{"ns/demo", "--yes", "--allow=strip"}, 1, "it rests on ConfigMap termguard-system/termguard-config, which others may have written"},
		"OnlyStrip": {"a class does not answer for the target", orphaned(), []string{"ns/demo", "--allow=strip"}, exitAsked, "to allow it: --yes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, tc.world)
			code, out, errs := deleted(t.Context(), c, nil, tc.args...)
			if said := out.text.String() + errs; tc.code >= 0 && code != tc.code || !strings.Contains(said, tc.says) {
				t.Errorf("%s: exit code %d, want %d and %q: %s", tc.reason, code, tc.code, tc.says, said)
			}
			var stripped []string
			for _, request := range c.requests {
				if strings.HasPrefix(request, "PATCH") {
					stripped = append(stripped, request)
				}
			}
			if strips := strings.Contains(tc.says, "done: "); strips != (len(stripped) > 0) {
				t.Errorf("%s: it patched %v", tc.reason, stripped)
			}
		})
	}
}

// TestDeleteHostileNames prints names in every prompt and plan so that no terminal obeys
// them, and so that each flag and command that is printed says to a shell what was meant.
func TestDeleteHostileNames(t *testing.T) {
	for _, name := range []string{"--all", "-rf", "a b", "$(touch pwned)", "it's", "`id`", "a\u202etxt.exe", "\u2066x", "\x1b[2Ja", "x;y", "a\nb", "#", "~", "a=b", "*"} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, orphaned("plain"))
			c.mu.Lock()
			object := map[string]any{}
			if err := json.Unmarshal(marshalled(t, c.objects["/apis/kiali.io/v1alpha1/namespaces/demo/kialis/plain"]), &object); err != nil {
				t.Fatal(err)
			}
			object["metadata"].(map[string]any)["name"] = name
			delete(c.objects, "/apis/kiali.io/v1alpha1/namespaces/demo/kialis/plain")
			path := "/apis/kiali.io/v1alpha1/namespaces/demo/kialis/" + name
			c.objects[path] = object
			c.mu.Unlock()
			for what, stdin := range map[string]func() io.Reader{"asked": func() io.Reader { return answering(t, "n", "n") }, "unasked": func() io.Reader { return nil }} {
				_, out, errs := deleted(t.Context(), c, stdin(), "ns/demo")
				said := out.text.String() + errs
				if at := strings.IndexFunc(said, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }); at >= 0 {
					t.Errorf("%s: a terminal obeys %q", what, said[at:min(len(said), at+20)])
				}
				if !strings.Contains(said, "kialis.kiali.io/") {
					t.Errorf("%s: it is not named: %s", what, said)
				}
			}
			// The flag, as a shell takes it, names it and no other.
			code, out, errs := deleted(t.Context(), c, nil, "kiali/"+name, "-n", "demo", "--yes", "-o", "json")
			var told struct{ Questions []deletion.Question }
			if err := json.Unmarshal(out.text.Bytes(), &told); err != nil || code != exitAsked {
				t.Fatalf("exit code %d, %v: %s%s", code, err, out.text.String(), errs)
			}
			for _, q := range told.Questions {
				for _, flag := range append(slices.Clone(q.Allow), q.Commands...) {
					dir := t.TempDir()
					sh := exec.Command("sh", "-c", `kubectl() { printf '%s\0' "$@"; }; `+strings.Replace(flag, "--allow ", "kubectl --allow ", 1))
					sh.Dir = dir
					words, err := sh.Output()
					if files, _ := os.ReadDir(dir); err != nil || len(files) > 0 {
						t.Errorf("a shell makes of %q: %v, files %v", flag, err, files)
					}
					if !bytes.Contains(words, []byte("/"+name+"\x00")) && strings.Contains(flag, "kialis") {
						t.Errorf("a shell reads %q of %q", words, flag)
					}
				}
			}
		})
	}
}
