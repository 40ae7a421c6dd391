package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/termguard/termguard/probe/report"
)

const home = "termguard-system"

// fakeServer serves only the requests that a probe sends, backed by a fake clientset.
func fakeServer(t *testing.T, objects typedcorev1.CoreV1Interface) *httptest.Server {
	t.Helper()
	create := metav1.CreateOptions{}
	do := func(ctx context.Context, r *http.Request) (any, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var cm corev1.ConfigMap
		var event corev1.Event
		switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/"); {
		case r.Method == http.MethodPut && strings.HasPrefix(path, "namespaces/"+home+"/configmaps/"):
			if err := json.Unmarshal(body, &cm); err != nil {
				return nil, err
			}
			if cm.Name != strings.TrimPrefix(path, "namespaces/"+home+"/configmaps/") {
				return nil, errors.New("another name")
			}
			return objects.ConfigMaps(home).Update(ctx, &cm, metav1.UpdateOptions{})
		case r.Method == http.MethodPost && path == "namespaces/"+home+"/configmaps":
			if err := json.Unmarshal(body, &cm); err != nil {
				return nil, err
			}
			return objects.ConfigMaps(home).Create(ctx, &cm, create)
		case r.Method == http.MethodPatch && path == "nodes/n1/status" && r.Header.Get("Content-Type") == "application/strategic-merge-patch+json":
			return objects.Nodes().PatchStatus(ctx, "n1", body)
		case r.Method == http.MethodPost && path == "namespaces/default/events":
			if err := json.Unmarshal(body, &event); err != nil {
				return nil, err
			}
			return objects.Events("default").Create(ctx, &event, create)
		}
		return nil, errors.New("a probe has no right to " + r.Method + " " + r.URL.Path)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r.Context(), r)
		status := http.StatusOK
		if err != nil {
			status = http.StatusForbidden
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: err.Error()}
			if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
				failure := err.(apierrors.APIStatus).Status()
				failure.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
				status, answer = int(failure.Code), failure
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // the client may have hung up
	}))
	t.Cleanup(server.Close)
	return server
}

func newPublisher(t *testing.T, objects typedcorev1.CoreV1Interface) *publisher {
	t.Helper()
	client, err := newClient(&rest.Config{Host: fakeServer(t, objects).URL})
	if err != nil {
		t.Fatal(err)
	}
	return &publisher{client: client, namespace: home}
}

// TestWrite checks that a report is created, then updated, and reads back unchanged.
func TestWrite(t *testing.T) {
	objects := fake.NewClientset().CoreV1()
	publisher := newPublisher(t, objects)
	for i := range 2 {
		r := report.New("n1")
		r.Pods = i
		if err := publisher.publish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		cm, err := objects.ConfigMaps(home).Get(t.Context(), report.Prefix+"n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := report.Read(cm)
		r.Time = got.Time // set from the managed fields
		if diff := cmp.Diff(r, got); err != nil || diff != "" || cm.Labels[report.Label] != "true" {
			t.Errorf("%v, %v: -want +got\n%s", err, cm.Labels, diff)
		}
	}
	publisher.namespace = "elsewhere"
	if err := publisher.publish(t.Context(), report.New("n1")); err == nil || !strings.Contains(err.Error(), "needs create and update there") {
		t.Errorf("where it has no right, it says %v", err)
	}
}

// TestWriteBeside checks that the report is written even if another probe of the node creates the ConfigMap
// at the same time.
func TestWriteBeside(t *testing.T) {
	client := fake.NewClientset()
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: report.Prefix + "n1", Namespace: home}}
	client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return false, nil, client.Tracker().Add(other)
	})
	objects := client.CoreV1()
	if err := newPublisher(t, objects).publish(t.Context(), report.New("n1")); err != nil {
		t.Fatal(err)
	}
	cm, err := objects.ConfigMaps(home).Get(t.Context(), report.Prefix+"n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := report.Read(cm); err != nil || got.Node != "n1" {
		t.Errorf("the ConfigMap holds the report of %q: %v", got.Node, err)
	}
}

// TestMark checks that the condition follows each report, that its transition time and the events follow only
// changes of status, and that other conditions stay.
func TestMark(t *testing.T) {
	objects := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}).CoreV1()
	publisher := newPublisher(t, objects)
	publisher.condition = true
	start := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	held := report.Finding{Cause: report.Busy, Certainty: report.Will, Pod: &report.Pod{Namespace: "demo", Name: "web-0"}}
	note := report.Finding{Cause: report.Stuck, Certainty: report.Note}
	const warning = "Warning PodHeldOnNode busy: pod demo/web-0"
	for i, step := range []struct {
		findings []report.Finding
		want     corev1.NodeCondition
		since    int // minutes
		events   []string
	}{
		{[]report.Finding{note}, corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "PodsCanGo", Message: "nothing blocks the deletion of pods"}, 0, nil},
		{[]report.Finding{held}, corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "PodHeldOnNode", Message: "busy: pod demo/web-0"}, 1, []string{warning}},
		{[]report.Finding{held, held}, corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "PodHeldOnNode", Message: "busy: pod demo/web-0 (+1)"}, 1, []string{warning}},
		{nil, corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "PodsCanGo", Message: "nothing blocks the deletion of pods"}, 3, []string{warning, "Normal PodsCanGo nothing blocks the deletion of pods"}},
	} {
		r := report.New("n1")
		r.Time = start.Add(time.Duration(i) * time.Minute)
		r.Findings = step.findings
		if err := publisher.publish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		node, err := objects.Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		step.want.Type = condition
		step.want.LastHeartbeatTime, step.want.LastTransitionTime = metav1.NewTime(r.Time), metav1.NewTime(start.Add(time.Duration(step.since)*time.Minute))
		if diff := cmp.Diff([]corev1.NodeCondition{step.want, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, node.Status.Conditions); diff != "" {
			t.Errorf("step %d: -want +got\n%s", i, diff)
		}
		events, err := objects.Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events.Items {
			got = append(got, e.Type+" "+e.Reason+" "+e.Message)
		}
		if diff := cmp.Diff(step.events, got); diff != "" {
			t.Errorf("step %d: events: -want +got\n%s", i, diff)
		}
	}
}
