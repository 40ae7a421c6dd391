package sets

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// TestPastSince compares the removed versions with the types of Kubernetes, which record their
// release of removal.
func TestPastSince(t *testing.T) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiregistrationv1beta1.AddToScheme, apiextensionsv1beta1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	for old, removal := range removedVersions {
		apiVersion, kind, _ := strings.Cut(old, " ")
		object, err := types.New(schema.FromAPIVersionAndKind(apiVersion, kind))
		if err != nil {
			t.Errorf("%s: %v", old, err)
			continue
		}
		removed, ok := object.(interface{ APILifecycleRemoved() (int, int) })
		if !ok {
			t.Errorf("%s does not say when it was removed", old)
			continue
		}
		if major, minor := removed.APILifecycleRemoved(); fmt.Sprintf("%d.%d", major, minor) != removal.release {
			t.Errorf("%s is not served since %d.%d, not since %s", old, major, minor, removal.release)
		}
	}
}
