package chart

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, users: ["system:serviceaccount:termguard-system:termguard"]}
- {level: None}
`

// TestRights makes termguard write everything that it ever writes: by the API server's audit log, no request is
// denied and no right in the chart is unused.
func TestRights(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	for name, tt := range map[string]struct {
		reason string
		values func(*site) string
		denied string // request that may be denied
	}{
		"everything": {"as installed", func(*site) string { return "rbac.access=everything" }, ""},
		"enumerated": {"everything except Secrets: only those of others are denied", func(s *site) string {
			kinds := strings.Fields(s.kubectl("api-resources", "--verbs=list,watch", "-o", "name"))
			kinds = slices.DeleteFunc(kinds, func(kind string) bool {
				return kind == "secrets" || kind == "events.events.k8s.io" // the same events as in the core group
			})
			return "rbac.access=enumerated,rbac.resources={" + strings.Join(kinds, ",") + "}"
		}, "/api/v1/secrets?"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			policy, log := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
			if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output(), Prepare: scenario.PresentToTermguard, APIServer: []string{"--audit-policy-file", policy, "--audit-log-path", log}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Stop)
			s := newSite(t, l)
			s.args = s.ClientArgs() // required for learning
			s.helm("install", "termguard", chart(), "--namespace", home, "--create-namespace", "--set", "config.enforcement.default=deny", "--set", tt.values(s))
			granted := s.rights()
			s.start()
			s.haveAllWritten()
			var used map[string]bool
			err = l.Await(t.Context(), 120*time.Second, "all rights to be used", func(context.Context) (_ bool, err error) {
				var denied []string
				used, denied, err = readAudit(log)
				for _, request := range denied {
					if tt.denied == "" || !strings.Contains(request, " "+tt.denied) {
						return false, fmt.Errorf("denied: %s", request)
					}
				}
				if (len(denied) > 0) != (tt.denied != "") {
					return false, err
				}
				for right := range granted {
					if !usedAnywhere(used, right) {
						return false, err
					}
				}
				return true, err
			})
			if err == nil {
				return
			}
			t.Errorf("%s: %v", tt.reason, err)
			for _, right := range slices.Sorted(maps.Keys(granted)) {
				if !usedAnywhere(used, right) {
					t.Errorf("granted and not used: %s", right)
				}
			}
		})
	}
}

// usedAnywhere reports whether a right was used, under any role: if several roles grant it, the API server logs
// only one.
func usedAnywhere(used map[string]bool, right string) bool {
	_, what, _ := strings.Cut(right, ": ")
	for other := range used {
		if _, same, _ := strings.Cut(other, ": "); same == what {
			return true
		}
	}
	return false
}

func (s *site) haveAllWritten() {
	s.t.Helper()
	ctx := s.t.Context()
	// A second Event with the same name updates the first.
	for range 2 {
		if err := s.Apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: stuck, finalizers: [finalizers.kubesphere.io/namespaces], annotations: {termguard.dev/allow-hang: moving}}}`); err != nil {
			s.t.Fatal(err)
		}
		s.kubectl("delete", "namespace", "stuck", "--wait=false")
		s.kubectl("patch", "namespace", "stuck", "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
		s.kubectl("wait", "--for=delete", "namespace/stuck", "--timeout=60s")
	}
	// Deleted objects of termguard are recreated; learned owners only once there are some.
	s.kubectl("delete", "secret", "termguard-ca", "-n", home)
	s.stop()
	s.kubectl("delete", "configmap", "termguard-learned", "-n", home)
	s.start()
	s.kubectl("create", "serviceaccount", "operator", "-n", "default")
	s.kubectl("create", "clusterrolebinding", "operator", "--clusterrole=cluster-admin", "--serviceaccount=default:operator")
	if err := s.Apply(ctx, `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: default, finalizers: [lab.test/held]}}`); err != nil {
		s.t.Fatal(err)
	}
	s.kubectl("delete", "configmap", "held", "-n", "default", "--wait=false")
	config, err := s.ServiceAccountConfig(ctx, "default", "operator")
	if err != nil {
		s.t.Fatal(err)
	}
	operator, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := operator.CoreV1().ConfigMaps("default").Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// right joins list and watch, because an API server that streams lists only sees watch.
func right(role, verb, resource, group string) string {
	if verb == "list" || verb == "watch" {
		verb = "list, watch"
	}
	return fmt.Sprintf("%s: %s %s.%s", role, verb, resource, group)
}

func (s *site) rights() map[string]bool {
	s.t.Helper()
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=termguard"}
	wide, err := s.client.RbacV1().ClusterRoles().List(s.t.Context(), options)
	if err != nil {
		s.t.Fatal(err)
	}
	narrow, err := s.client.RbacV1().Roles(home).List(s.t.Context(), options)
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]bool{}
	add := func(role string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					all[right(role, verb, resource, strings.Join(rule.APIGroups, ","))] = true
				}
			}
		}
	}
	for _, role := range wide.Items {
		add("ClusterRole "+role.Name, role.Rules)
	}
	for _, role := range narrow.Items {
		add("Role "+role.Name, role.Rules)
	}
	if len(all) == 0 {
		s.t.Fatal("termguard has no rights")
	}
	return all
}

func readAudit(path string) (used map[string]bool, denied []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	used = map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			ObjectRef        struct{ Resource, APIGroup string }
			Annotations      map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return used, denied, nil // an incomplete line
		}
		why := event.Annotations["authorization.k8s.io/reason"]
		if event.Annotations["authorization.k8s.io/decision"] == "forbid" {
			denied = append(denied, fmt.Sprintf("%s %s: %s", event.Verb, event.RequestURI, why))
			continue
		}
		// RBAC: allowed by RoleBinding "a/b" of Role "b" to ServiceAccount "b/a"
		_, role, ok := strings.Cut(why, " of ")
		if !ok {
			continue
		}
		role, _, _ = strings.Cut(role, " to ")
		role = strings.ReplaceAll(role, `"`, "")
		used[right(role, event.Verb, event.ObjectRef.Resource, event.ObjectRef.APIGroup)] = true
		used[right(role, event.Verb, "*", "*")] = true
	}
	return used, denied, lines.Err()
}
