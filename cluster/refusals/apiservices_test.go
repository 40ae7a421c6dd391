package refusals

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/termguard/termguard/cluster/facts"
)

const metrics = "v1beta1.metrics.k8s.io"

// TestAPIServices reads an APIService, and the results of listing and discovery, in any order.
func TestAPIServices(t *testing.T) {
	served := func(status aggregation.ConditionStatus, reason string) *aggregation.APIService {
		o := &aggregation.APIService{ObjectMeta: metav1.ObjectMeta{Name: metrics}, Spec: aggregation.APIServiceSpec{Group: "metrics.k8s.io", Version: "v1beta1", Service: &aggregation.ServiceReference{Namespace: "kube-system", Name: "metrics-server"}}}
		if status != "" {
			o.Status.Conditions = []aggregation.APIServiceCondition{{Type: aggregation.Available, Status: status, Reason: reason}}
		}
		return o
	}
	local := served("True", "Local")
	local.Spec.Service = nil
	type condition struct {
		Available, Reason, ListError string
		Stale                        bool
	}
	cases := map[string]struct {
		reason string
		do     func(p *Part)
		want   *condition // nil where nothing is said of it
	}{
		"Unavailable":  {"the API server's check is in its condition", func(p *Part) { keepAPIService(p, served("False", "MissingEndpoints")) }, &condition{Available: "False", Reason: "MissingEndpoints"}},
		"NotChecked":   {"unknown without a condition", func(p *Part) { keepAPIService(p, served("", "")) }, &condition{Available: "Unknown", Reason: "NotChecked"}},
		"Local":        {"an API that the API server itself serves cannot fail alone", func(p *Part) { keepAPIService(p, local) }, nil},
		"BecomesLocal": {"and one that becomes so is forgotten", func(p *Part) { keepAPIService(p, served("False", "x")); keepAPIService(p, local) }, nil},
		"StaleBefore":  {"discovery failed before the object arrived", func(p *Part) { p.SetStale(map[string]bool{metrics: true}); keepAPIService(p, served("True", "Passed")) }, &condition{"True", "Passed", "", true}},
		"StaleAfter":   {"discovery failed after it", func(p *Part) { keepAPIService(p, served("True", "Passed")); p.SetStale(map[string]bool{metrics: true}) }, &condition{"True", "Passed", "", true}},
		"ErrorBefore": {"a list failed before it arrived", func(p *Part) {
			p.SetAPIServiceError(metrics, "pods", "503")
			keepAPIService(p, served("True", "Passed"))
		}, &condition{"True", "Passed", "503", false}},
		"OneOfTwoLists": {"one resource that can be listed is no proof of the others", func(p *Part) {
			keepAPIService(p, served("True", "Passed"))
			p.SetAPIServiceError(metrics, "nodes", "first")
			p.SetAPIServiceError(metrics, "pods", "second")
			p.SetAPIServiceError(metrics, "nodes", "")
		}, &condition{"True", "Passed", "second", false}},
		"Recreated": {"its list was not tried again", func(p *Part) {
			p.SetAPIServiceError(metrics, "pods", "503")
			forgetAPIService(p)
			keepAPIService(p, served("True", "Passed"))
		}, &condition{"True", "Passed", "503", false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			doc := facts.Document{}
			tc.do(New(doc, Options{}))
			var got *condition
			if record, kept := facts.Lookup(doc, "apiservices", metrics).(map[string]any); kept {
				got = &condition{record["available"].(string), record["reason"].(string), record["listError"].(string), record["stale"].(bool)}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func apiServices(p *Part) facts.Keeper {
	all := p.Keepers()
	return all[slices.IndexFunc(all, func(k facts.Keeper) bool { return k.Resource == "apiservices.apiregistration.k8s.io" })]
}

func keepAPIService(p *Part, o *aggregation.APIService) { apiServices(p).Keep(o) }

func forgetAPIService(p *Part) { apiServices(p).Forget(named(metrics)) }
