package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/race"
)

// TestInstalled checks that check uses the policies and settings of the webhook in the cluster, and
// says so.
func TestInstalled(t *testing.T) {
	race.Skip(t)
	rego, err := os.ReadFile("../../policies/force_delete/force_delete.rego")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.ReplaceAll(strings.ReplaceAll(string(rego), "force-delete", "our-own"), "termguard.force_delete", "termguard.our_own")
	cm := func(name, key, text string, labels map[string]string) corev1.ConfigMap {
		return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "termguard-system", Name: name, Labels: labels}, Data: map[string]string{key: text}}
	}
	const off = "apiVersion: termguard.dev/v1\nkind: Config\nenforcement: {policies: {orphaned-finalizer: \"off\"}}\n"
	labelled := map[string]string{config.PolicyLabel: ""}
	for name, tc := range map[string]struct {
		reason string
		maps   []corev1.ConfigMap // nil: forbidden
		off    bool
		own    bool
		notes  []string
	}{
		"Configured": {"check omits what the webhook omits.", []corev1.ConfigMap{cm("termguard-config", "config.yaml", off, nil), cm("kube-root-ca.crt", "ca.crt", "x", nil)}, true, false, []string{"using the configuration of the webhook, ConfigMap termguard-system/termguard-config"}},
		"Policies":   {"Policies of the cluster are evaluated, too.", []corev1.ConfigMap{cm("team", "our_own.rego", own, labelled)}, false, true, []string{"using the policies of ConfigMap termguard-system/team"}},
		"Broken":     {"A policy that the webhook rejects is ignored.", []corev1.ConfigMap{cm("team", "our_own.rego", "package x", labelled), cm("termguard-config", "config.yaml", "kind: Nothing", nil)}, false, false, []string{"are ignored", "using", "it is invalid"}},
		"Forbidden":  {"A forbidden read is reported.", nil, false, false, []string{"unseen: the configuration of the webhook (forbidden: get and list configmaps -n termguard-system)"}},
		"None":       {"Without a webhook there is no note.", []corev1.ConfigMap{}, false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				var answer any = corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, Items: tc.maps}
				if tc.maps == nil {
					w.WriteHeader(http.StatusForbidden)
					answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
				}
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			}))
			t.Cleanup(server.Close)
			installed := readInstalled(t.Context(), &rest.Config{Host: server.URL})
			set, err := new(settingsFlags).load(installed.policies...)
			if err != nil {
				t.Fatal(err)
			}
			got := installed.read(set.IDs()).Enforcement.Off(set.IDs())
			if off := len(got) > 0; off != tc.off {
				t.Errorf("%s: switched off: %v", tc.reason, got)
			}
			if own := strings.Contains(strings.Join(set.IDs(), " "), "our-own"); own != tc.own {
				t.Errorf("%s: policies %q", tc.reason, set.IDs())
			}
			if len(installed.notes) != len(tc.notes) {
				t.Fatalf("%s: got %q, want %q", tc.reason, installed.notes, tc.notes)
			}
			for i, want := range tc.notes {
				if !strings.Contains(installed.notes[i], want) {
					t.Errorf("%s: got %q, want %q", tc.reason, installed.notes[i], want)
				}
			}
		})
	}
}
