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

// idle returns the controller that removes Kiali's finalizer, scaled to zero, and ready once it
// runs.
func idle(replicas string) string {
	return `
{apiVersion: v1, kind: Namespace, metadata: {name: kiali-operator}, status: {phase: Active}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: kiali-operator, namespace: kiali-operator}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: kiali-operator, namespace: kiali-operator}, spec: {replicas: ` + replicas + `, selector: {matchLabels: {app: k}}, template: {metadata: {labels: {app: k}}, spec: {serviceAccountName: kiali-operator, containers: [{name: c, image: quay.io/kiali/kiali-operator}]}}}, status: {replicas: ` + replicas + `, readyReplicas: ` + replicas + `}}
`
}

// TestDeleteTwice runs two deletions of one target in parallel: the target is deleted, both say so,
// and nothing else is deleted.
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
		t.Error("the namespace still exists")
	}
	if now := string(marshalled(t, c.objects[heldO])); now != other {
		t.Errorf("the object of another owner is now %s", now)
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

// TestDeleteLosesAnswers loses the connection after a request was carried out: its effect is
// neither repeated nor denied.
func TestDeleteLosesAnswers(t *testing.T) {
	for request, says := range map[string]string{
		"PATCH " + heldA: "no response, so it may be done",
		"DELETE " + demo: "namespaces/demo was deleted meanwhile",
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
		if transcript := out.text.String() + errs; code != 0 || c.has(demo) || len(lost) != 1 || !strings.Contains(transcript, says) {
			t.Errorf("answer to %s lost %d times: exit code %d, want %q: %s", request, len(lost), code, says, transcript)
		}
	}
}

// TestDeleteLosesRights revokes rights half-way: the command ends, and the later steps are not
// done.
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
	if transcript := out.text.String(); code != 1 || !strings.Contains(transcript, "nothing more is done") || !c.has(demo) || strings.Contains(transcript, "deletion asked for") {
		t.Errorf("exit code %d: %s%s", code, transcript, errs)
	}
	for _, path := range []string{heldA, strings.TrimSuffix(heldA, "a") + "b"} {
		if !strings.Contains(string(marshalled(t, c.objects[path])), "kiali.io/finalizer") {
			t.Errorf("%s has lost its finalizer", path)
		}
	}
}

// TestDeleteJudgesAnew changes the cluster while a question waits: flags and answers apply to the
// state after the change.
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
			questions := 0
			out.on = func(transcript string) {
				if n := strings.Count(transcript, "[y/N] "); n > questions {
					if questions = n; n == 1 {
						c.apply(tc.during)
					}
					if _, err := keys.WriteString(tc.answers[min(n, len(tc.answers))-1] + "\n"); err != nil {
						t.Error(err)
					}
				}
			}
			var errs output
			code := run(t.Context(), append([]string{"termguard", "delete", "--kubeconfig", c.kubeconfig}, tc.args...), terminal, out, &errs)
			if transcript := out.text.String(); code != 1 || !strings.Contains(transcript, tc.says) {
				t.Errorf("%s: exit code %d, want %q: %s%s", tc.reason, code, tc.says, transcript, errs.text.String())
			}
			if held := string(marshalled(t, c.objects[heldA])); !strings.Contains(held, "kiali.io/finalizer") || strings.Contains(held, "deletionTimestamp") || !c.has(demo) {
				t.Errorf("%s: the object is now %s\n%s", tc.reason, held, out.text.String())
			}
		})
	}
}

// TestDeleteVanished checks that a deletion succeeds if the target is deleted while a question
// waits.
func TestDeleteVanished(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	terminal, keys := typing(t)
	out := &output{}
	questions := 0
	out.on = func(transcript string) {
		if n := strings.Count(transcript, "[y/N] "); n > questions {
			questions = n
			c.mu.Lock()
			delete(c.objects, heldA)
			c.mu.Unlock()
			if _, err := keys.WriteString("y\n"); err != nil {
				t.Error(err)
			}
		}
	}
	var errs output
	if code := run(t.Context(), []string{"termguard", "delete", "--kubeconfig", c.kubeconfig, "kialis/a", "-n", "demo"}, terminal, out, &errs); code != 0 || !strings.Contains(out.text.String(), "deleted: kialis.kiali.io/a") {
		t.Errorf("exit code %d: %s%s", code, out.text.String(), errs.text.String())
	}
	for _, request := range c.requests {
		if strings.HasPrefix(request, "PATCH") || strings.HasPrefix(request, "DELETE") {
			t.Errorf("sent %s", request)
		}
	}
}

// TestDeleteOnce checks that a Terminating object is not deleted again, which could change its
// options.
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
		t.Errorf("deleted %v: %s%s", deletions, out.text.String(), errs)
	}
}

// TestDeletePlace checks that, as in kubectl, a file about another namespace than -n is an error.
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

// TestDeleteClasses checks what each flag allows.
func TestDeleteClasses(t *testing.T) {
	owned := strings.Replace(orphaned("a"), "name: a, namespace: demo", "name: a, namespace: demo, ownerReferences: [{apiVersion: acme.example.com/v1, kind: Widget, name: owner, uid: uid-7, blockOwnerDeletion: true}]", 1) +
		"---\n{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: owner, namespace: demo}}\n"
	const want = `
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
		"Instances": {"the class covers objects that are deleted with their definition", orphaned("a"), []string{"crd/kialis.kiali.io", "--yes", "--allow=strip", "--timeout=1ms"}, -1, "done: kialis.kiali.io/a -n other"},
		"Dependent": {"an object related to the target only by owner references must be named", owned, []string{"widgets/owner", "-n", "demo", "--cascade=foreground", "--yes", "--allow=strip", "--timeout=1ms"}, exitQuestion, "--allow strip=kialis.kiali.io/demo/a"},
		"Named":     {"its finalizer is removed if the flag names it", owned, []string{"widgets/owner", "-n", "demo", "--cascade=foreground", "--yes", "--allow=strip=kialis/demo/a", "--timeout=1ms"}, -1, "done: kialis.kiali.io/a -n demo"},
		"Config":    {"any user may have written a configuration in the cluster", orphaned("a") + want, []string{"ns/demo", "--yes", "--allow=strip"}, 1, "it relies on ConfigMap termguard-system/termguard-config, which others may have written"},
		"OnlyStrip": {"a class does not confirm the target", orphaned(), []string{"ns/demo", "--allow=strip"}, exitQuestion, "to allow it: --yes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, tc.world)
			code, out, errs := deleted(t.Context(), c, nil, tc.args...)
			if transcript := out.text.String() + errs; tc.code >= 0 && code != tc.code || !strings.Contains(transcript, tc.says) {
				t.Errorf("%s: exit code %d, want %d and %q: %s", tc.reason, code, tc.code, tc.says, transcript)
			}
			var stripped []string
			for _, request := range c.requests {
				if strings.HasPrefix(request, "PATCH") {
					stripped = append(stripped, request)
				}
			}
			if strips := strings.Contains(tc.says, "done: "); strips != (len(stripped) > 0) {
				t.Errorf("%s: patched %v", tc.reason, stripped)
			}
		})
	}
}

// TestDeleteHostileNames checks that names in prompts and plans have no terminal control
// characters, and that each printed flag and command means the same to a shell.
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
				transcript := out.text.String() + errs
				if at := strings.IndexFunc(transcript, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }); at >= 0 {
					t.Errorf("%s: terminal control characters %q", what, transcript[at:min(len(transcript), at+20)])
				}
				if !strings.Contains(transcript, "kialis.kiali.io/") {
					t.Errorf("%s: not named: %s", what, transcript)
				}
			}
			// The printed flag, as a shell reads it, names that object and no other.
			code, out, errs := deleted(t.Context(), c, nil, "kiali/"+name, "-n", "demo", "--yes", "-o", "json")
			var report struct{ Questions []deletion.Question }
			if err := json.Unmarshal(out.text.Bytes(), &report); err != nil || code != exitQuestion {
				t.Fatalf("exit code %d, %v: %s%s", code, err, out.text.String(), errs)
			}
			for _, q := range report.Questions {
				for _, flag := range append(slices.Clone(q.Allow), q.Commands...) {
					dir := t.TempDir()
					sh := exec.Command("sh", "-c", `kubectl() { printf '%s\0' "$@"; }; `+strings.Replace(flag, "--allow ", "kubectl --allow ", 1))
					sh.Dir = dir
					words, err := sh.Output()
					if files, _ := os.ReadDir(dir); err != nil || len(files) > 0 {
						t.Errorf("a shell run with %q: %v, files %v", flag, err, files)
					}
					if !bytes.Contains(words, []byte("/"+name+"\x00")) && strings.Contains(flag, "kialis") {
						t.Errorf("a shell reads %q, want %q", words, flag)
					}
				}
			}
		})
	}
}
