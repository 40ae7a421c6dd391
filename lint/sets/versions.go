package sets

import (
	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
)

type removedVersion struct {
	replacement string
	release     string // the first without it
	// convert is nil if the versions are equal.
	convert func(map[string]any)
}

// removedVersions are by apiVersion and kind, for kinds that policies concern. Releases are each type's
// APILifecycleRemoved.
var removedVersions = map[string]removedVersion{
	"apiregistration.k8s.io/v1beta1 APIService":                             {replacement: "apiregistration.k8s.io/v1", release: "1.22"},
	"admissionregistration.k8s.io/v1beta1 ValidatingWebhookConfiguration":   {"admissionregistration.k8s.io/v1", "1.22", setIgnoreFailures},
	"admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration":     {"admissionregistration.k8s.io/v1", "1.22", setIgnoreFailures},
	"admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy":        {replacement: "admissionregistration.k8s.io/v1", release: "1.34"},
	"admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicyBinding": {replacement: "admissionregistration.k8s.io/v1", release: "1.34"},
	"apiextensions.k8s.io/v1beta1 CustomResourceDefinition":                 {"apiextensions.k8s.io/v1", "1.22", convertDefinition},
	"policy/v1beta1 PodDisruptionBudget":                                    {"policy/v1", "1.25", dropEmptySelector},
	"extensions/v1beta1 Deployment":                                         {"apps/v1", "1.16", setSelector},
	"extensions/v1beta1 DaemonSet":                                          {"apps/v1", "1.16", setSelector},
	"extensions/v1beta1 ReplicaSet":                                         {"apps/v1", "1.16", setSelector},
	"apps/v1beta1 Deployment":                                               {"apps/v1", "1.16", setSelector},
	"apps/v1beta1 StatefulSet":                                              {"apps/v1", "1.16", setSelector},
	"apps/v1beta2 Deployment":                                               {replacement: "apps/v1", release: "1.16"},
	"apps/v1beta2 StatefulSet":                                              {replacement: "apps/v1", release: "1.16"},
	"apps/v1beta2 DaemonSet":                                                {replacement: "apps/v1", release: "1.16"},
	"apps/v1beta2 ReplicaSet":                                               {replacement: "apps/v1", release: "1.16"},
	"batch/v1beta1 CronJob":                                                 {replacement: "batch/v1", release: "1.25"},
}

func servedVersion(apiVersion, kind string) string {
	if p, removed := removedVersions[apiVersion+" "+kind]; removed {
		return p.replacement
	}
	return apiVersion
}

func modernize(value map[string]any) {
	apiVersion, _ := value["apiVersion"].(string)
	kind, _ := value["kind"].(string)
	p, removed := removedVersions[apiVersion+" "+kind]
	if !removed {
		return
	}
	value["apiVersion"] = p.replacement
	if p.convert != nil {
		p.convert(value)
	}
}

// setIgnoreFailures sets the default failurePolicy of v1beta1.
func setIgnoreFailures(value map[string]any) {
	for _, hook := range cluster.Items(value, "webhooks") {
		if hook["failurePolicy"] == nil {
			hook["failurePolicy"] = "Ignore"
		}
	}
}

// dropEmptySelector removes an empty selector, which selects no pods in v1beta1.
func dropEmptySelector(value map[string]any) {
	spec, _ := value["spec"].(map[string]any)
	if selector, ok := spec["selector"].(map[string]any); ok && len(selector) == 0 {
		delete(spec, "selector")
	}
}

func setSelector(value map[string]any) {
	spec, _ := value["spec"].(map[string]any)
	if labels, ok, _ := unstructured.NestedFieldNoCopy(value, "spec", "template", "metadata", "labels"); ok && spec["selector"] == nil {
		spec["selector"] = map[string]any{"matchLabels": labels}
	}
}

func convertDefinition(value map[string]any) {
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

// oldestRelease is the oldest in use, assumed for an unknown cluster.
var oldestRelease = semver.MustParse("1.25.0")

// RemovedIn returns "" if some cluster may serve the object's version.
func RemovedIn(apiVersion, kind, cluster string) string {
	p, removed := removedVersions[apiVersion+" "+kind]
	if !removed {
		return ""
	}
	release := semver.MustParse(p.release + ".0")
	v, err := semver.ParseTolerant(cluster)
	if err == nil && v.GTE(release) || err != nil && release.LTE(oldestRelease) {
		return p.release
	}
	return ""
}
