package lint

import (
	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// past is an API version that Kubernetes no longer serves.
type past struct {
	now   string // the version that replaces it
	since string // the first release without it
	// change converts an object to the new version, nil if they are equal.
	change func(map[string]any)
}

// versions are the removed API versions of kinds that policies concern, by apiVersion and kind. The releases
// are from APILifecycleRemoved of each type.
var versions = map[string]past{
	"apiregistration.k8s.io/v1beta1 APIService":                             {now: "apiregistration.k8s.io/v1", since: "1.22"},
	"admissionregistration.k8s.io/v1beta1 ValidatingWebhookConfiguration":   {"admissionregistration.k8s.io/v1", "1.22", failOpen},
	"admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration":     {"admissionregistration.k8s.io/v1", "1.22", failOpen},
	"admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy":        {now: "admissionregistration.k8s.io/v1", since: "1.34"},
	"admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicyBinding": {now: "admissionregistration.k8s.io/v1", since: "1.34"},
	"apiextensions.k8s.io/v1beta1 CustomResourceDefinition":                 {"apiextensions.k8s.io/v1", "1.22", definition},
	"policy/v1beta1 PodDisruptionBudget":                                    {"policy/v1", "1.25", selectNothing},
	"extensions/v1beta1 Deployment":                                         {"apps/v1", "1.16", selectOwn},
	"extensions/v1beta1 DaemonSet":                                          {"apps/v1", "1.16", selectOwn},
	"extensions/v1beta1 ReplicaSet":                                         {"apps/v1", "1.16", selectOwn},
	"apps/v1beta1 Deployment":                                               {"apps/v1", "1.16", selectOwn},
	"apps/v1beta1 StatefulSet":                                              {"apps/v1", "1.16", selectOwn},
	"apps/v1beta2 Deployment":                                               {now: "apps/v1", since: "1.16"},
	"apps/v1beta2 StatefulSet":                                              {now: "apps/v1", since: "1.16"},
	"apps/v1beta2 DaemonSet":                                                {now: "apps/v1", since: "1.16"},
	"apps/v1beta2 ReplicaSet":                                               {now: "apps/v1", since: "1.16"},
	"batch/v1beta1 CronJob":                                                 {now: "batch/v1", since: "1.25"},
}

// present returns the version that an object is read as.
func present(apiVersion, kind string) string {
	if p, old := versions[apiVersion+" "+kind]; old {
		return p.now
	}
	return apiVersion
}

// modernize converts an object to the served version.
func modernize(value map[string]any) {
	apiVersion, _ := value["apiVersion"].(string)
	kind, _ := value["kind"].(string)
	p, old := versions[apiVersion+" "+kind]
	if !old {
		return
	}
	value["apiVersion"] = p.now
	if p.change != nil {
		p.change(value)
	}
}

// failOpen sets the default failurePolicy of v1beta1.
func failOpen(value map[string]any) {
	hooks, _ := value["webhooks"].([]any)
	for _, hook := range hooks {
		if fields, ok := hook.(map[string]any); ok && fields["failurePolicy"] == nil {
			fields["failurePolicy"] = "Ignore"
		}
	}
}

// selectNothing removes an empty selector, which selects no pods in a v1beta1 budget.
func selectNothing(value map[string]any) {
	spec, _ := value["spec"].(map[string]any)
	if selector, ok := spec["selector"].(map[string]any); ok && len(selector) == 0 {
		delete(spec, "selector")
	}
}

// selectOwn sets the labels of its pods as the selector of a workload without one.
func selectOwn(value map[string]any) {
	spec, _ := value["spec"].(map[string]any)
	if labels, found, _ := unstructured.NestedFieldNoCopy(value, "spec", "template", "metadata", "labels"); found && spec["selector"] == nil {
		spec["selector"] = map[string]any{"matchLabels": labels}
	}
}

// definition moves fields that v1beta1 has in other places: the only version, the conversion webhook, and the
// default scope.
func definition(value map[string]any) {
	spec, ok := value["spec"].(map[string]any)
	if !ok {
		return
	}
	if spec["scope"] == nil {
		spec["scope"] = "Namespaced"
	}
	if version, ok := spec["version"].(string); ok && spec["versions"] == nil {
		spec["versions"] = []any{map[string]any{"name": version, "served": true, "storage": true}}
	}
	conversion, _ := spec["conversion"].(map[string]any)
	if client, ok := conversion["webhookClientConfig"]; ok && conversion["webhook"] == nil {
		conversion["webhook"] = map[string]any{"clientConfig": client, "conversionReviewVersions": conversion["conversionReviewVersions"]}
	}
}

// gone is the oldest release in use: without a known version, API versions removed before it cannot be
// applied.
var gone = semver.MustParse("1.25.0")

// unserved returns the release since which an object cannot be applied, or "" if some cluster may serve its
// version.
func unserved(apiVersion, kind, cluster string) string {
	p, old := versions[apiVersion+" "+kind]
	if !old {
		return ""
	}
	release := semver.MustParse(p.since + ".0")
	v, err := semver.ParseTolerant(cluster)
	if err == nil && v.GTE(release) || err != nil && release.LTE(gone) {
		return p.since
	}
	return ""
}
