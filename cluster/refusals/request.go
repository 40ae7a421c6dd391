package refusals

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
)

// immortal are the namespaces whose deletion the API server refuses
// (k8s.io/apiserver, pkg/admission/plugin/namespace/lifecycle/admission.go, as
// kube-apiserver registers it).
var immortal = []string{"default", "kube-public", "kube-system"}

// Of tells what refuses one request, an AdmissionRequest, at once: webhooks that fail
// closed and cannot be called, admission policies that deny, and the API server
// itself. Where the object is not known whole, or who asks is not, what depends on it
// is "may". admitted says that the request is under way already: admission policies
// and webhooks that mutate have let it pass, and Of then only reads.
func (p *Part) Of(request map[string]any, admitted bool) []any {
	attributes, callerKnown, ok := attributesOf(request, p.options.Manifests)
	if !ok {
		return nil
	}
	var found []any
	add := func(by string, sure certainty, cause, why string) {
		found = append(found, map[string]any{"by": by, "certainty": sure.String(), "cause": cause, "why": why})
	}
	namespace := attributes.GetNamespace()
	if attributes.GetResource() == namespacesResource && attributes.GetOperation() == admission.Delete && slices.Contains(immortal, namespace) && !admitted {
		add("apiserver", will, "protected", "the API server never deletes namespace "+namespace)
	}
	if rules.IsExemptAdmissionConfigurationResource(attributes) {
		return found
	}
	labels := p.namespaces[namespace].labels
	for _, key := range slices.Sorted(maps.Keys(p.hooks)) {
		h := p.hooks[key]
		if h.reach.sure == no && len(h.names) == 0 || admitted && !strings.HasPrefix(key, validatingKind+"/") {
			continue
		}
		sure, failing := h.seesAs(input{attributes: attributes, callerKnown: callerKnown, manifest: p.options.Manifests}, labels)
		switch {
		case failing != "":
			add("webhook/"+key, sure, "condition", failing)
		case min(sure, h.reach.sure) != no:
			add("webhook/"+key, min(sure, h.reach.sure), h.reach.cause, h.reach.why)
		}
	}
	if admitted {
		return found
	}
	deniers := p.deniers()
	for _, key := range slices.Sorted(maps.Keys(deniers)) {
		if sure := deniers[key].denies(attributes, labels, callerKnown); sure != no {
			add("policy/"+key, sure, "denied", "the policy denies it")
		}
	}
	return found
}

// attributesOf is a request as admission sees it: a DELETE, or an UPDATE of an
// object, which may be a manifest.
func attributesOf(request map[string]any, manifest bool) (_ admission.Attributes, callerKnown, ok bool) {
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	part := func(key string) map[string]any { m, _ := request[key].(map[string]any); return m }
	op := admission.Operation(text(request, "operation"))
	if op != admission.Delete && op != admission.Update {
		return nil, false, false
	}
	resource, kind := part("resource"), part("kind")
	gvr := schema.GroupVersionResource{Group: text(resource, "group"), Version: text(resource, "version"), Resource: text(resource, "resource")}
	gvk := schema.GroupVersionKind{Group: text(kind, "group"), Version: text(kind, "version"), Kind: text(kind, "kind")}
	var caller user.DefaultInfo
	if info := part("userInfo"); info != nil {
		caller.Name, caller.UID = text(info, "username"), text(info, "uid")
		groups, _ := info["groups"].([]any)
		for _, group := range groups {
			if name, isText := group.(string); isText {
				caller.Groups = append(caller.Groups, name)
			}
		}
		callerKnown = caller.Name != ""
	}
	name, namespace := text(request, "name"), text(request, "namespace")
	old, object := whole(part("oldObject"), manifest), whole(part("object"), manifest)
	if named, is := old.(*unstructured.Unstructured); is && name == "" {
		name = named.GetName()
	}
	if gvr.Group == "" && gvr.Resource == "namespaces" {
		gvr.Version, namespace = "v1", name
	}
	return admission.NewAttributesRecord(object, old, gvk, namespace, name, gvr, text(request, "subResource"), op, nil, false, &caller), callerKnown, true
}

// whole is an object if it is known as the API server holds it, or is a manifest.
func whole(object map[string]any, manifest bool) runtime.Object {
	if len(object) == 0 {
		return nil
	}
	o := &unstructured.Unstructured{Object: object}
	if o.GetUID() == "" && !manifest {
		return nil
	}
	return o
}
