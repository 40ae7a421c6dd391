package rotation

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/test/lab"
)

// earlier is the version to upgrade from and to roll back to: a commit, until there is a release.
const earlier = "789deea7804303eb6975db07c10f45aeaa2901fd" // 2026-11-22

// TestVersions upgrades replica by replica and rolls back. Both versions run concurrently: they share the
// authority and the learned facts, and neither loses the other's.
func TestVersions(t *testing.T) {
	s := newSite(t)
	defer s.write("versions")
	source, binary := s.earlier()
	manifests := func(root string) {
		t.Helper()
		s.kubectl("apply", "-f", filepath.Join(root, "deploy", "install.yaml"))
		if err := s.BeCalledPatiently(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	manifests(source)
	first := s.replica(binary, 0)
	s.join(first)
	s.checkReviewed("the earlier version serves", func() {})
	before := s.awaitState("the authority to be trusted", func(state) bool { return true })
	if err := s.AwaitApplied(t.Context(), time.Minute, world); err != nil {
		t.Fatal(err)
	}
	s.say("one", "may hang")
	s.learn("one")
	s.say("one", "")

	var second, third member
	manifests(lab.Root())
	s.checkReviewed("this version joins it", func() { second = s.replica(s.binary, 1); s.join(second) })
	s.checkReviewed("the earlier version stops", func() { s.leave(first) })
	s.checkReviewed("this version has two replicas", func() { third = s.replica(s.binary, 2); s.join(third) })
	s.say("one", "") // at least from the newest, which has read the earlier version's facts
	s.say("two", "may hang")
	s.learn("two")

	manifests(source)
	s.checkReviewed("the earlier version joins them again", func() { s.join(s.replica(binary, 0)) })
	s.say("one", "")
	s.checkReviewed("this version stops", func() { s.leave(second); s.leave(third) })
	s.checkReviewed("the earlier version has two replicas", func() { s.join(s.replica(binary, 3)) })
	s.say("one", "")
	s.say("two", "")
	if after := s.awaitState("the replicas to agree", func(state) bool { return true }); after.authority != before.authority {
		t.Error("upgrade and rollback changed the authority, which both versions share")
	}
}

func (s *site) earlier() (source, binary string) {
	s.t.Helper()
	source = s.t.TempDir()
	archive := filepath.Join(source, "source.tar")
	for _, args := range [][]string{
		{"git", "-C", lab.Root(), "archive", "-o", archive, earlier},
		{"tar", "-x", "-f", archive, "-C", source},
		{"go", "build", "-C", source, "-trimpath", "-ldflags", "-s -w -X main.version=" + earlier[:7], "-o", "termguard", "./cmd/termguard"},
	} {
		if out, err := exec.CommandContext(s.t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			s.t.Fatalf("make the earlier version (commit %s must be in this clone: git fetch --unshallow): %v\n%s", earlier, err, out)
		}
	}
	return source, filepath.Join(source, "termguard")
}

const world = `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.versions.test}, spec: {group: versions.test, scope: Namespaced, names: {kind: Gadget, plural: gadgets, singular: gadget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: owners}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: op, namespace: owners}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: owners}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: op, namespace: owners}]
---
{apiVersion: versions.test/v1, kind: Gadget, metadata: {name: one, namespace: owners, finalizers: [versions.test/one]}}
---
{apiVersion: versions.test/v1, kind: Gadget, metadata: {name: two, namespace: owners, finalizers: [versions.test/two]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: one}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: two}}
---
{apiVersion: versions.test/v1, kind: Gadget, metadata: {name: it, namespace: one, finalizers: [versions.test/one]}}
---
{apiVersion: versions.test/v1, kind: Gadget, metadata: {name: it, namespace: two, finalizers: [versions.test/two]}}
`

// learn lets the current replica observe who removes a finalizer. Nothing else shows it: a cluster-admin's
// rights prove nothing.
func (s *site) learn(lesson string) {
	s.t.Helper()
	gadgets := schema.GroupVersionResource{Group: "versions.test", Version: "v1", Resource: "gadgets"}
	if err := s.Controller(s.t.Context(), "owners", "op", "versions.test/"+lesson, gadgets); err != nil {
		s.t.Fatal(err)
	}
	s.kubectl("delete", "gadgets.versions.test", lesson, "-n", "owners", "--timeout=60s")
}

const question = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "DELETE", "dryRun": true,
"kind": {"group": "", "version": "v1", "kind": "Namespace"}, "resource": {"group": "", "version": "v1", "resource": "namespaces"},
"name": "$NAME", "namespace": "$NAME", "userInfo": {"username": "somebody"}, "options": {},
"oldObject": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$NAME"}}}}`

// say waits until the newest replica has this warning for a namespace; "" means none.
func (s *site) say(namespace, what string) {
	s.t.Helper()
	certificate, err := s.ClientCertificate()
	if err != nil {
		s.t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}}}}
	defer client.CloseIdleConnections()
	newest := s.replicas[len(s.replicas)-1].Address
	var last string
	if err := s.Await(s.t.Context(), 30*time.Second, fmt.Sprintf("%q of namespace %s", what, namespace), func(ctx context.Context) (bool, error) {
		response, err := client.Post("https://"+newest+"/validate", "application/json", strings.NewReader(strings.ReplaceAll(question, "$NAME", namespace)))
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
			return false, err
		}
		last = strings.Join(review.Response.Warnings, "\n")
		return strings.Contains(last, what) && (what != "" || last == ""), nil
	}); err != nil {
		s.t.Fatalf("%v\nlast answer: %q", err, last)
	}
}
