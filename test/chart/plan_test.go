package chart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/test/lab"
)

// TestReleasePlan uninstalls a release with Helm alone, which hangs, and another by the script
// of its plan, as it is printed: nothing is left, and Helm says so, too.
func TestReleasePlan(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, path := operated(t)
	l := s.Lab

	stop := s.operator(operatorChart, "gadget=true", "")
	if _, stderr, err := helm(ctx, t, s.environment, "uninstall", "op", "-n", "op", "--wait", "--timeout", "10s"); err == nil || !strings.Contains(stderr, "context deadline exceeded") {
		t.Errorf("helm uninstall alone: %v %s: the test shows nothing", err, stderr)
	}
	stop()
	s.stay("op/it")
	s.kubectl("patch", "gadgets.inset.test/it", "-n", "op", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.kubectl("delete", "secrets", "-n", "op", "-l", "owner=helm")

	script := filepath.Join(t.TempDir(), "uninstall.sh")
	// plan writes the script, and tells whether all goes by it.
	plan := func() (all bool) {
		t.Helper()
		cmd := exec.CommandContext(ctx, s.binary, "plan", "--release", "op", "-n", "op", "-o", "shell", "--kubeconfig", l.Kubeconfig())
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("termguard plan: %v %s", err, out)
		}
		if err := os.WriteFile(script, out, 0o600); err != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	run := func() lab.Result {
		t.Helper()
		r, err := l.Shell(ctx, "PATH="+filepath.Dir(path)+":$PATH; sh "+script)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	// What is in no release, and needs the operator, is told of, and nothing is done.
	stop = s.operator(operatorChart, "gadget=true", elsewhere)
	const first = "kubectl delete gadgets.inset.test/other -n elsewhere"
	if all, r := plan(), run(); all || r.Code != 1 || !strings.Contains(r.Stderr, first) {
		t.Errorf("an object in no release needs the operator: %v: %d %s", all, r.Code, r.Stderr)
	}
	if release := s.stored(); release == "" {
		t.Error("the script did something")
	}
	s.shell(first)
	if all, r := plan(), run(); !all || r.Code != 0 {
		t.Errorf("not all goes: %v: %d %s", all, r.Code, r.Stderr)
	}
	stop()
	if release := s.stored(); release != "" {
		t.Errorf("Helm has %s", release)
	}
	if stdout, stderr, err := helm(ctx, t, s.environment, "list", "-A", "-o", "json"); err != nil || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("helm list: %v %s%s", err, stdout, stderr)
	}
	left := ""
	if err := s.Await(ctx, time.Minute, "all of the release to go", func(context.Context) (bool, error) {
		left = s.kubectl("get", "gadgets,deployments,replicasets,pods,serviceaccounts", "-n", "op", "-o", "name")
		return left == "serviceaccount/default\n", nil
	}); err != nil {
		t.Errorf("%v: %s", err, left)
	}
	if roles := s.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name"); strings.Contains(roles, "inset-operator") {
		t.Errorf("its roles stay: %s", roles)
	}
	if r := run(); r.Code != 0 {
		t.Errorf("run again, it fails: %s", r.Stderr)
	}
}

// stored are the releases that Helm keeps in namespace op, in whatever state.
func (s *site) stored() string {
	s.t.Helper()
	return s.kubectl("get", "secrets", "-n", "op", "-l", "owner=helm", "-o", "name")
}
