package refusals

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestDeletionVersion(t *testing.T) {
	cases := map[string]struct {
		reason string
		served string
		want   string
	}{
		"Newest":    {"discovery puts the highest version first", "v1 v2", "v2"},
		"Stable":    {"stable versions sort before others, whatever the number", "v1 v2beta1 v3alpha1", "v1"},
		"Numbers":   {"numbers are compared as such", "v9 v10", "v10"},
		"NotServed": {"a version that is not served cannot be requested", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
			crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v99", Storage: true}}
			for _, v := range strings.Fields(tc.served) {
				crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true})
			}
			if d, _ := definitionOf(crd); d.converter.version != tc.want {
				t.Errorf("%s: of %q, deletions request %q, want %q", tc.reason, tc.served, d.converter.version, tc.want)
			}
		})
	}
}
