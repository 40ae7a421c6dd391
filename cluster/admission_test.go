package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMatchConditions(t *testing.T) {
	_, caBundle := authority(t, time.Now().AddDate(1, 0, 0), "guard.ops.svc")
	const fails = "condition will"
	tests := map[string]struct {
		reason, expression string
		up, down           string // cause and certainty of what is refused, with a backend that is
	}{
		"true":                 {"it is called for all", "true", "", "down will"},
		"false":                {"it is called for none", "false", "", ""},
		"the caller":           {"the namespace controller is exempt", "!request.userInfo.username.startsWith('system:')", "", ""},
		"the caller, met":      {"the caller is the namespace controller", "'system:serviceaccounts' in request.userInfo.groups", "", "down will"},
		"the operation":        {"the object does not matter for a DELETE", "request.operation == 'DELETE' || object.spec.x", "", "down will"},
		"no object":            {"a request to delete has none", "object == null", "", "down will"},
		"reads no object":      {"so evaluation fails and the API server refuses the request, whatever the backend", "object.metadata.name != 'x'", fails, fails},
		"reads the object":     {"the objects are unknown", "oldObject.metadata.name != 'x'", "", "down may"},
		"reads it in part":     {"the caller is exempt for every object", "oldObject.metadata.name != 'x' && !request.userInfo.username.startsWith('system:')", "", ""},
		"calls the authorizer": {"the authorizer is not available", "authorizer.group('').resource('pods').check('get').allowed()", "", "down may"},
		"does not compile":     {"an expression that a later API server rejects", "nonsense(", fails, fails},
		"fails in any case":    {"whatever the object", "int(request.namespace) > 0", fails, fails},
		"fails, or is false":   {"one false condition exempts the request", "int(request.namespace) > 0\"}, {name: d, expression: \"false", "", ""},
	}
	for name, tc := range tests {
		for backend, want := range map[string]string{"up": tc.up, "down": tc.down} {
			t.Run(name+", "+backend, func(t *testing.T) {
				text := strings.TrimRight(guarded(caBundle), "\n") + fmt.Sprintf("\n  matchConditions: [{name: c, expression: %q}]\n", tc.expression)
				text = strings.ReplaceAll(text, `\"`, `"`)
				if backend == "down" {
					text = strings.Replace(text, "kubernetes.io/service-name: guard", "kubernetes.io/service-name: other", 1)
				}
				var got string
				requests, _ := at(world(t, text), "blocked", "demo", "validating/guard/deny.x.io").([]any)
				for _, r := range requests {
					r := r.(map[string]any)
					got = fmt.Sprint(r["cause"], " ", r["certainty"])
				}
				if got != want {
					t.Errorf("%s: got %q, want %q", tc.reason, got, want)
				}
			})
		}
	}
}

// TestMatchConditionsOfObjects checks which requests a webhook refuses, with a backend that is up
// and with one that is down, after the objects were read.
func TestMatchConditionsOfObjects(t *testing.T) {
	_, caBundle := authority(t, time.Now().AddDate(1, 0, 0), "guard.ops.svc")
	const (
		objectsThere = `
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: demo, labels: {keep: "yes"}}}
`
		named = "matchConditions: [{name: c, expression: \"%s\"}]"
	)
	tests := map[string]struct {
		reason, within, with string
		up, down             string // cause, certainty and names of what is refused, with a backend that is
	}{
		"all":               {"it sees both", "", fmt.Sprintf(named, "oldObject.metadata.namespace == 'demo'"), "", "down will [it kept]"},
		"one":               {"and the other is free", "", fmt.Sprintf(named, "oldObject.metadata.name == 'kept'"), "", "down will [kept]"},
		"none":              {"it matches none of the existing objects", "demo", fmt.Sprintf(named, "oldObject.metadata.name == 'other'"), "", ""},
		"labels":            {"objects carry them, or not", "", "objectSelector: {matchLabels: {keep: 'yes'}}", "", "down will [kept]"},
		"labels of nothing": {"no object has them", "", "objectSelector: {matchLabels: {keep: 'no'}}", "", ""},
		"fails on one":      {"an object without labels makes the expression fail", "demo", fmt.Sprintf(named, "oldObject.metadata.labels['keep'] == 'no'"), "condition will [it]", "condition will [it]"},
		"fails, unread":     {"the objects of the request's namespace are read for a webhook that is up", "", fmt.Sprintf(named, "oldObject.metadata.labels['keep'] == 'no'"), "", "condition will [it]"},
		"elsewhere":         {"it is another namespace that they are read in", "other", fmt.Sprintf(named, "oldObject.metadata.name == 'kept'"), "", "down may <nil>"},
		"never known":       {"the authorizer is not available for any object", "", fmt.Sprintf(named, "oldObject.metadata.name == 'kept' && authorizer.group('').resource('pods').check('get').allowed()"), "", "down may [kept]"},
	}
	for name, tc := range tests {
		for backend, want := range map[string]string{"up": tc.up, "down": tc.down} {
			t.Run(name+", "+backend, func(t *testing.T) {
				text := strings.TrimRight(guarded(caBundle), "\n") + "\n  " + tc.with + objectsThere
				if backend == "down" {
					text = strings.Replace(text, "kubernetes.io/service-name: guard", "kubernetes.io/service-name: other", 1)
				}
				w := world(t, text)
				answered(w, tc.within, objects(t, text))
				var got string
				requests, _ := at(w, "blocked", "demo", "validating/guard/deny.x.io").([]any)
				for _, r := range requests {
					r := r.(map[string]any)
					got = fmt.Sprint(r["cause"], " ", r["certainty"], " ", r["names"])
				}
				if got != want {
					t.Errorf("%s: got %q, want %q", tc.reason, got, want)
				}
			})
		}
	}
}
