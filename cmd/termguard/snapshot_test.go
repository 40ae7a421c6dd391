package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfigFor serves answers by path, and forbids the rest.
func kubeconfigFor(t *testing.T, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			answer = `{"apiVersion":"v1","kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"no"}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: t}}]}`, server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSnapshotWithoutRights checks that a snapshot names the missing facts, since an empty one
// looks like an empty cluster, and that the exit code is 1 if all are missing.
func TestSnapshotWithoutRights(t *testing.T) {
	serves := map[string]string{
		"/version": `{"gitVersion":"v1.36.3"}`,
		"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":    `{"apiVersion":"v1","kind":"APIGroupList","groups":[]}`,
		"/api/v1": `{"apiVersion":"v1","kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch","delete"]},
			{"name":"namespaces","kind":"Namespace","verbs":["list","watch","delete"]}]}`,
	}
	for _, tt := range []struct {
		path string // that may be listed
		code int
		says string
	}{
		{"", 1, "unseen: 2 of 2 kinds (forbidden): configmaps, namespaces;"},
		{"/api/v1/namespaces", 0, "unseen: 1 of 2 kinds (forbidden): configmaps;"},
	} {
		if tt.path != "" {
			serves[tt.path] = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[]}`
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"termguard", "snapshot", "--kubeconfig", kubeconfigFor(t, serves)}, nil, &out, &errs)
		if code != tt.code || !strings.Contains(errs.String(), tt.says) || !strings.HasSuffix(out.String(), `"kind":"End"}`+"\n") {
			t.Errorf("exit code %d, want %d: %s\n%s", code, tt.code, &errs, &out)
		}
	}
}
