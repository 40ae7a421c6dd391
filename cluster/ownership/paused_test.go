package ownership

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPausedBy(t *testing.T) {
	const resource, finalizer = "widgets.deep.acme.example.com", "example.org/cleanup"
	for name, tc := range map[string]struct {
		reason string
		annotations,
		labels map[string]string
		want string
	}{
		"Group":      {"a key of the group's domain", map[string]string{"acme.example.com/paused": "true"}, nil, "annotation acme.example.com/paused"},
		"Finalizer":  {"a key of the finalizer's domain", map[string]string{"ops.example.org/skip-reconcile": "true"}, nil, "annotation ops.example.org/skip-reconcile"},
		"Label":      {"some look at labels", nil, map[string]string{"example.com/pauseReconciliation": "true"}, "label example.com/pauseReconciliation"},
		"First":      {"the first of several, so that the answer is stable", map[string]string{"b.example.com/pause": "true", "a.example.com/reconcile-pause": "true"}, nil, "annotation a.example.com/reconcile-pause"},
		"Past":       {"near miss: it is no longer paused", map[string]string{"acme.example.com/paused": "false"}, nil, ""},
		"Stranger":   {"near miss: a key of other software", map[string]string{"argocd.argoproj.io/skip-reconcile": "true"}, nil, ""},
		"Bare":       {"near miss: an unknown key", map[string]string{"paused": "true"}, nil, ""},
		"OtherName":  {"near miss: a key about something else", map[string]string{"acme.example.com/paused-at": "true", "acme.example.com/reconcile": "true"}, nil, ""},
		"Everything": {"an object without any", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &metav1.ObjectMeta{Annotations: tc.annotations, Labels: tc.labels}
			if got := pausedBy(pausesOf(m), resource, finalizer); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
