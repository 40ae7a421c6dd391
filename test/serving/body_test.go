package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

type silent struct{}

func (silent) Quiet(policies.Trigger, map[string]any, policies.Facts) (result policies.Result, ok bool) {
	return result, true
}

func (silent) Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error) {
	return policies.Result{}, nil
}

// sendReview sends a review that contains an object of this size twice.
func sendReview(handler http.Handler, size int) error {
	object := fmt.Sprintf(`{"metadata":{"name":"a","annotations":{"a":%q}}}`, strings.Repeat("x", size))
	review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE",
		"resource":{"group":"x.io","version":"v1","resource":"gadgets"},"name":"a","object":%s,"oldObject":%s}}`, object, object)
	request := httptest.NewRequest(http.MethodPost, webhook.Path, bytes.NewReader([]byte(review)))
	request.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request)
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Response == nil {
		return fmt.Errorf("status %d: %s", w.Code, w.Body)
	}
	if got.Response.UID != "u" || !got.Response.Allowed {
		return fmt.Errorf("a review of %d MiB is answered with %+v", len(review)>>20, got.Response)
	}
	return nil
}

// TestBodies shows why Handler reads and decodes reviews itself: a request body may have 3 MiB
// (k8s.io/apiserver/pkg/server/config.go), and its objects may be larger in JSON.
func TestBodies(t *testing.T) {
	handler := webhook.NewHandler(webhook.Options{Evaluator: silent{}, Facts: cluster.NewWorld(cluster.Options{}), Deadline: time.Minute, Log: quiet})
	hook := &admission.Webhook{Handler: handler}
	for name, h := range map[string]http.Handler{"ours": handler, "controller-runtime's": hook} {
		if err := sendReview(h, 1<<20); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	const size = 4 << 20
	if err := sendReview(handler, size); err != nil {
		t.Error(err)
	}
	if err := sendReview(hook, size); err == nil {
		t.Error("admission.Webhook answers large reviews now: if it weighs them, too, read them with it, and delete webhook/arrival.go")
	} else {
		t.Log(err)
	}
}
