package policies

import "slices"

// Resources that decide whether a finalizer has an owner that runs.
var ownerResources = []string{
	"pods",
	"deployments.apps",
	"statefulsets.apps",
	"daemonsets.apps",
	"roles.rbac.authorization.k8s.io",
	"clusterroles.rbac.authorization.k8s.io",
	"rolebindings.rbac.authorization.k8s.io",
	"clusterrolebindings.rbac.authorization.k8s.io",
}

// Resources that decide whether what a deletion needs is refused.
var refusers = []string{
	"validatingwebhookconfigurations.admissionregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io",
}

// unseen are the hidden resources that the answer to a request depends on: for
// a namespace everything that may be in it and what blocks every namespace, its
// content or its pods; for a definition its instances; for another object its own kind, a pod's node, and, where
// it has finalizers, what tells who removes them and what refuses that. Events are evidence that comes on
// top: most clusters are fine without, so nothing depends on them.
func unseen(input, doc map[string]any) []string {
	hidden, _ := doc["unseen"].([]any)
	if len(hidden) == 0 {
		return nil
	}
	request := child(input, "request")
	target := resourceName(child(request, "resource"))
	finalizers, _ := child(child(request, "oldObject"), "metadata")["finalizers"].([]any)
	guarded := len(finalizers) > 0 || len(child(input, "ownership")) > 0
	var relevant []string
	for _, item := range hidden {
		u, _ := item.(map[string]any)
		resource, _ := u["resource"].(string)
		namespaced, _ := u["namespaced"].(bool)
		elsewhere := u["reason"] == "elsewhere" // but not in the namespace in question
		matters := resource == target && !elsewhere
		switch target {
		case "namespaces":
			matters = matters || namespaced && !elsewhere && resource != "events" || slices.Contains(refusers, resource) ||
				resource == "nodes" || resource == "apiservices.apiregistration.k8s.io"
		case "customresourcedefinitions.apiextensions.k8s.io": // its instances go with it
			matters = matters || resource == child(child(request, "oldObject"), "metadata")["name"] || slices.Contains(refusers, resource)
		case "pods":
			matters = matters || resource == "nodes"
		}
		if guarded && (slices.Contains(ownerResources, resource) || slices.Contains(refusers, resource)) {
			matters = true
		}
		if matters {
			reason, _ := u["reason"].(string)
			relevant = append(relevant, resource+": "+reason)
		}
	}
	slices.Sort(relevant)
	return slices.Compact(relevant)
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

// resourceName is plural, or plural.group.
func resourceName(gvr map[string]any) string {
	name, _ := gvr["resource"].(string)
	if group, _ := gvr["group"].(string); group != "" {
		name += "." + group
	}
	return name
}
