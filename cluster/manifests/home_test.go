package manifests

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestHome checks the namespace of an object that names none, by the webhooks and APIServices among
// the manifests that refer to it.
func TestHome(t *testing.T) {
	t.Parallel()
	const bare = "{apiVersion: v1, kind: Service, metadata: {name: guard}}"
	webhook := func(namespace string) string {
		return "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a.b.c, clientConfig: {service: {name: guard, namespace: " + namespace + "}}}]}"
	}
	for name, tc := range map[string]struct {
		reason  string
		objects []string
		want    string
	}{
		"Webhook":     {"Else nothing would answer.", []string{bare, webhook("guard")}, "guard"},
		"APIService":  {"So it is.", []string{bare, "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.a.b}, spec: {service: {name: guard, namespace: apis}}}"}, "apis"},
		"Conversion":  {"So it is.", []string{bare, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.b.c}, spec: {conversion: {webhook: {clientConfig: {service: {name: guard, namespace: converters}}}}}}"}, "converters"},
		"Nothing":     {"Nothing calls it.", []string{bare}, "default"},
		"Named":       {"The reference to the Service has its namespace.", []string{bare, "{apiVersion: v1, kind: Service, metadata: {name: guard, namespace: guard}}", webhook("guard")}, "default"},
		"Elsewhere":   {"Another Service is called, which is not among them.", []string{"{apiVersion: v1, kind: Service, metadata: {name: other}}", webhook("guard")}, "default"},
		"Two":         {"It cannot be in both.", []string{bare, webhook("guard"), "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.a.b}, spec: {service: {name: guard, namespace: apis}}}"}, "default"},
		"Placeholder": {"An installer fills it in.", []string{bare, webhook("'${NAMESPACE}'")}, "default"},
		"Malformed":   {"What is no object says nothing.", []string{bare, "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [a, {clientConfig: b}, {clientConfig: {service: c}}]}"}, "default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []*unstructured.Unstructured
			for _, text := range tc.objects {
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
					t.Fatal(err)
				}
				objects = append(objects, o)
			}
			if got := homeOf(objects); got != tc.want {
				t.Errorf("%s: got namespace %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
