package ownership

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestOutlook checks which namespaces a workload watches, for each way to configure that.
func TestOutlook(t *testing.T) {
	var names []string
	for i := range maxOutlook + 1 {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	for _, tc := range []struct{ reason, template, want string }{
		{"it has no setting", "{spec: {containers: [{name: c, args: [--leader-elect, --namespace=ops]}]}}", ""},
		{"a variable", "{spec: {containers: [{name: c, env: [{name: WATCH_NAMESPACE, value: 'b, a'}]}]}}", "a,b"},
		{"near miss: it names none, which is all", "{spec: {containers: [{name: c, env: [{name: WATCH_NAMESPACE, value: ''}]}]}}", ""},
		{"near miss: the setting means all namespaces", "{spec: {containers: [{name: c, env: [{name: WATCHED_NAMESPACE, value: '*'}]}]}}", ""},
		{"near miss: another variable", "{spec: {containers: [{name: c, env: [{name: POD_NAMESPACE, value: a}]}]}}", ""},
		{"its own, by the downward API", "{spec: {containers: [{name: c, env: [{name: WATCH_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]}]}}", "ops"},
		{"the annotation of the Operator Lifecycle Manager", "{metadata: {annotations: {olm.targetNamespaces: 'x,y'}}, spec: {containers: [{name: c, env: [{name: WATCH_NAMESPACE, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['olm.targetNamespaces']\"}}}]}]}}", "x,y"},
		{"near miss: the workload does not read the annotation", "{metadata: {annotations: {olm.targetNamespaces: 'x,y'}}, spec: {containers: [{name: c}]}}", ""},
		{"near miss: a ConfigMap has it, which is not read", "{spec: {containers: [{name: c, env: [{name: WATCH_NAMESPACE, valueFrom: {configMapKeyRef: {name: c, key: k}}}]}]}}", ""},
		{"a ConfigMap that is read", "{spec: {containers: [{name: c, env: [{name: WATCH_NAMESPACE, valueFrom: {configMapKeyRef: {name: watched, key: k}}}]}]}}", "a,b"},
		{"two variables count together", "{spec: {containers: [{name: c, env: [{name: PGO_TARGET_NAMESPACE, value: b}, {name: PGO_TARGET_NAMESPACES, value: 'a,b'}]}]}}", "a,b"},
		{"an argument", "{spec: {containers: [{name: c, args: [--watch-namespace=a]}]}}", "a"},
		{"an argument and its value", "{spec: {containers: [{name: c, command: [run, -watch-namespace, a]}]}}", "a"},
		{"near miss: what only the container knows", "{spec: {containers: [{name: c, args: [--watch-namespace=$(WHERE)]}]}}", ""},
		{"its own, by an argument", "{spec: {containers: [{name: c, args: [--namespaced]}]}}", "ops"},
		{"that one names another", "{spec: {containers: [{name: c, args: [--namespaced, --managed-namespace, a]}]}}", "a"},
		{"not all", "{spec: {containers: [{name: c, args: [--watch-all-namespaces=false]}]}}", "ops"},
		{"near miss: all", "{spec: {containers: [{name: c, args: [--watch-all-namespaces=true]}]}}", ""},
		{"near miss: all, by default", "{spec: {containers: [{name: c, args: [--watch-all-namespaces]}]}}", ""},
		{"more than are kept", "{spec: {containers: [{name: c, args: ['--watch-namespace=" + strings.Join(names, ",") + "']}]}}", ""},
		{"near miss: as many as are kept", "{spec: {containers: [{name: c, args: ['--watch-namespace=" + strings.Join(names[1:], ",") + "']}]}}", strings.Join(names[1:], ",")},
	} {
		var template corev1.PodTemplateSpec
		if err := yaml.UnmarshalStrict([]byte(tc.template), &template); err != nil {
			t.Fatal(err)
		}
		if got, _ := outlookOf("ops", template, map[Setting]string{{"ops", "watched", "k"}: "b,a"}); got != tc.want {
			t.Errorf("%s: it watches %q, want %q", tc.reason, got, tc.want)
		}
	}
}
