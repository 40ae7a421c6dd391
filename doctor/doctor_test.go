package doctor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/webhook"
)

// with returns an examination of a cluster with these objects and a replica that answered.
func with(status webhook.Status, objects ...runtime.Object) *examination {
	return &examination{
		Options: Options{Namespace: "termguard-system", Configuration: "termguard", Now: func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }},
		client:  fake.NewClientset(objects...), server: &version.Info{GitVersion: "v1.36.3"}, status: &status,
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// TestChecks checks the result and message of each check, and that each has a section in docs/doctor.md to
// link to.
func TestChecks(t *testing.T) {
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	labelled := func(labels, annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels, Annotations: annotations}}
	}
	configured := &corev1.ConfigMap{ObjectMeta: meta("termguard-system", "termguard-config"), Data: map[string]string{"config.yaml": "x"}}
	misnamed := &corev1.ConfigMap{ObjectMeta: meta("termguard-system", "termguard-config"), Data: map[string]string{"config.yml": "x"}}
	elsewhere := &corev1.ConfigMap{ObjectMeta: meta("shop", "ours")}
	elsewhere.Labels = map[string]string{config.PolicyLabel: ""}
	two := new(int32(2))
	replicas := func(ready int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta("termguard-system", "termguard"), Spec: appsv1.DeploymentSpec{Replicas: two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
	}
	pod := func(name, image, waiting string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta("termguard-system", name), Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		p.Labels = map[string]string{"a": "b"}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if waiting != "" {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}}
		}
		return p
	}
	hooks := func(names ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", "termguard")}
		for _, name := range names {
			c.Webhooks = append(c.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "termguard-system", Name: "termguard"}}})
		}
		return c
	}
	unscheduled := func(why string) *corev1.Pod {
		p := pod("a", "t:1", "")
		p.Status = corev1.PodStatus{Phase: corev1.PodPending}
		if why != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: why}}
		}
		return p
	}
	fresh := pod("a", "t:1", "ContainerCreating")
	fresh.CreationTimestamp = metav1.NewTime(time.Date(2029, 12, 31, 23, 59, 55, 0, time.UTC))
	crashed := pod("a", "t:1", "CrashLoopBackOff")
	crashed.Status.ContainerStatuses[0].RestartCount = 1
	old := with(webhook.Status{})
	old.server.GitVersion = "v1.29.9"
	for _, tt := range []struct {
		reason string
		e      *examination
		check  string
		result Result
		says   string // part of its message
	}{
		{"a server of today", with(webhook.Status{}), "api-server", OK, "v1.36.3"},
		{"a server of old", old, "api-server", Failed, "older than 1.30"},
		{"all webhooks", with(webhook.Status{}, hooks(hookNames...)), "installed", OK, "3 webhooks call Service termguard"},
		{"one was deleted", with(webhook.Status{}, hooks(hookNames[:2]...)), "installed", Failed, "has no webhook finalize.termguard.dev"},
		{"none", with(webhook.Status{}), "installed", Failed, "ValidatingWebhookConfiguration termguard not found"},
		{"no Deployment", with(webhook.Status{}), "replicas", Failed, "Deployment termguard not found"},
		{"both ready", with(webhook.Status{}, replicas(2), pod("a", "t:1", ""), pod("b", "t:1", "")), "replicas", OK, "2 of 2 are ready, all of t:1"},
		{"a rollout", with(webhook.Status{}, replicas(2), pod("a", "t:1", ""), pod("b", "t:2", "")), "replicas", Warning, "of several versions: t:1, t:2"},
		{"one pulls no image", with(webhook.Status{}, replicas(1), pod("a", "t:1", ""), pod("b", "t:1", "ImagePullBackOff")), "replicas", Warning, "pod b: ImagePullBackOff"},
		{"no node has room", with(webhook.Status{}, replicas(0), unscheduled("0/2 nodes are available")), "replicas", Warning, "pod a: not scheduled yet: 0/2 nodes are available"},
		{"no node was inspected", with(webhook.Status{}, replicas(0), unscheduled("")), "replicas", Warning, "pod a: not scheduled yet"},
		{"young", with(webhook.Status{}, replicas(0), fresh), "replicas", Warning, "pod a: ContainerCreating (created 5 s ago)"},
		{"no log", with(webhook.Status{}, hooks(hookNames...), replicas(0), unscheduled("")), "certificate", Failed, "no pod has run yet"},
		{"a log", with(webhook.Status{}, hooks(hookNames...), replicas(0), crashed), "certificate", Failed, "logs -l app.kubernetes.io/name=termguard"},
		{"facts", with(webhook.Status{}), "facts", OK, "complete"},
		{"facts to come", with(webhook.Status{Facts: "still reading the cluster"}), "facts", Failed, "allowed unchecked until"},
		{"unseen", with(webhook.Status{Unseen: []string{"1: secrets (forbidden)"}}), "facts", Warning, "secrets (forbidden)"},
		{"policies", with(webhook.Status{Policies: 40, CustomPolicies: []string{"a"}}), "policies", OK, "40 are in force, 1 of them your own"},
		{"refused", with(webhook.Status{Rejections: []string{"configmap x/y: no"}}), "policies", Failed, "configmap x/y: no"},
		{"not read", with(webhook.Status{}, elsewhere), "policies", Warning, "ConfigMap shop/ours has the label"},
		{"in force", with(webhook.Status{Configuration: "2d711642b726b044"}, configured), "configuration", OK, "is in force"},
		{"not yet", with(webhook.Status{Configuration: "1"}, configured), "configuration", Warning, "differs from"},
		{"defaults", with(webhook.Status{}), "configuration", OK, "ConfigMap termguard-config not found: the defaults are in force"},
		{"deleted, and still in force", with(webhook.Status{Configuration: "1"}), "configuration", Warning, "differs from"},
		{"another key", with(webhook.Status{}, misnamed), "configuration", Failed, "has no key config.yaml"},
		{"wrong", with(webhook.Status{Rejections: []string{"configuration: no"}}, configured), "configuration", Failed, "part of it is not in force: no"},
		{"labels", with(webhook.Status{CustomPolicies: []string{"mine"}}, labelled(map[string]string{"termguard.dev/enforce.mine": "deny", "a": "b"}, map[string]string{"termguard.dev/allow-hang": "x"})), "labels", OK, "no label"},
		{"of no policy", with(webhook.Status{}, labelled(map[string]string{"termguard.dev/enforce.mine": "deny"}, nil)), "labels", Failed, `policy "mine" not found`},
		{"of no meaning", with(webhook.Status{}, labelled(map[string]string{"termguard.dev/enfroce": "deny"}, nil)), "labels", Failed, "label termguard.dev/enfroce is ignored"},
		{"an annotation", with(webhook.Status{}, labelled(nil, map[string]string{"termguard.dev/enforce": "deny"})), "labels", Failed, "it must be a label"},
		{"no authority", with(webhook.Status{}, hooks(hookNames...)), "certificate", Failed, "caBundle of webhook delete.termguard.dev is empty"},
	} {
		tt.e.readInstalled(t.Context())
		var c Check
		for check := range tt.e.run(t.Context()) {
			if check.Name == tt.check {
				c = check
				break
			}
		}
		if c.Result != tt.result || !strings.Contains(strings.Join(append(c.Also, c.Says, c.Do), "\n"), tt.says) {
			t.Errorf("%s: %s: %s %q; want %s: %s", tt.reason, c.Result, c.Says, c.Also, tt.result, tt.says)
		}
		if !strings.Contains(string(page), "\n## "+c.Name+"\n") || (c.Result != OK) != strings.HasSuffix(c.More, "docs/doctor.md#"+c.Name) {
			t.Errorf("%s: docs/doctor.md has no section %q, or the link is %q", tt.reason, c.Name, c.More)
		}
	}
}

// TestReport checks the report on an API server that forbids everything against testdata/report.json, which
// the schema's test reads.
func TestReport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"gitVersion": "v1.36.3"}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "not allowed"}`)
	}))
	t.Cleanup(server.Close)
	report, err := Examine(t.Context(), &rest.Config{Host: server.URL}, Options{Namespace: "termguard-system", Configuration: "termguard"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const file = "testdata/report.json"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != string(got) {
		t.Errorf("%s is not current (UPDATE_GOLDEN=1 go test ./doctor writes it): %v\n%s", file, err, got)
	}
}
