package answer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestFind(t *testing.T) {
	var types Types
	add := func(gv schema.GroupVersion, preferred bool, api metav1.APIResource) { types.add(gv, api, preferred) }
	core, apps := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	add(core, true, metav1.APIResource{Name: "services", SingularName: "service", Kind: "Service", Namespaced: true, ShortNames: []string{"svc"}})
	add(apps, true, metav1.APIResource{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}})
	add(schema.GroupVersion{Group: "apps", Version: "v1beta1"}, false, metav1.APIResource{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true})
	add(schema.GroupVersion{Group: "serving.knative.dev", Version: "v1"}, true, metav1.APIResource{Name: "services", SingularName: "service", Kind: "Service", Namespaced: true, ShortNames: []string{"ksvc"}})
	for _, group := range []string{"a.io", "b.io"} {
		add(schema.GroupVersion{Group: group, Version: "v1"}, true, metav1.APIResource{Name: "backups", SingularName: "backup", Kind: "Backup", ShortNames: []string{"bk"}})
	}
	for _, tt := range []struct{ reason, name, want string }{
		{"plural", "deployments", "apps/v1, Resource=deployments"},
		{"singular", "deployment", "apps/v1, Resource=deployments"},
		{"kind, in any case", "Deployment", "apps/v1, Resource=deployments"},
		{"short name", "deploy", "apps/v1, Resource=deployments"},
		{"with group", "deployments.apps", "apps/v1, Resource=deployments"},
		{"with version and group", "deployment.v1beta1.apps", "apps/v1beta1, Resource=deployments"},
		{"short name with group", "svc", "/v1, Resource=services"},
		{"Kubernetes' own come first", "service", "/v1, Resource=services"},
		{"the other one by its group", "services.serving.knative.dev", "serving.knative.dev/v1, Resource=services"},
		{"one of two", "backup.b.io", "b.io/v1, Resource=backups"},
	} {
		got, err := types.Find(tt.name)
		if err != nil || got.GroupVersionResource.String() != tt.want {
			t.Errorf("%s: Find(%q) = %v, %v; want %s", tt.reason, tt.name, got.GroupVersionResource, err, tt.want)
		}
	}
	types.lost = []string{"metrics.k8s.io/v1beta1"}
	for _, tt := range []struct{ reason, name, want string }{
		{"ambiguous plural", "backups", `type "backups" is ambiguous: say which of backups.a.io, backups.b.io is meant`},
		{"ambiguous short name", "bk", `type "bk" is ambiguous: say which of backups.a.io, backups.b.io is meant`},
		{"unknown, with what may hide it", "deploymint", `type "deploymint" not found (these APIs do not answer: metrics.k8s.io/v1beta1); did you mean "deployment"? (see: kubectl api-resources)`},
		{"unknown version", "deployments.v7.apps", `type "deployments.v7.apps" not found (these APIs do not answer: metrics.k8s.io/v1beta1); did you mean "deployments.apps"? (see: kubectl api-resources)`},
	} {
		if _, err := types.Find(tt.name); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got error %v, want %s", tt.reason, err, tt.want)
		}
	}
}
