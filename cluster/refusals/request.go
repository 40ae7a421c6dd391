package refusals

import (
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/termguard/termguard/question"
)

// Of returns the refusals of a request; "may" if they depend on unknown parts of the object or an unknown user.
func (p *Part) Of(request *question.Request) []any {
	if request.Operation != admissionv1.Delete && request.Operation != admissionv1.Update {
		return nil
	}
	attributes, callerKnown, admitted := attributesOf(request, p.options.Manifests), request.UserInfo.Username != "", request.UnderWay
	var refusals []any
	add := func(by string, sure certainty, cause, why string) {
		refusals = append(refusals, map[string]any{"by": by, "certainty": sure.String(), "cause": cause, "why": why})
	}
	namespace := attributes.GetNamespace()
	if attributes.GetResource() == namespacesResource && attributes.GetOperation() == admission.Delete && question.Immortal(namespace) && !admitted {
		add("apiserver", will, "protected", "the API server never deletes namespace "+namespace)
	}
	if rules.IsExemptAdmissionConfigurationResource(attributes) {
		return refusals
	}
	of := p.namespace(namespace).labels
	for _, key := range slices.Sorted(maps.Keys(p.hooks)) {
		h := p.hooks[key]
		if h.reach.sure == no && len(h.MatchConditions) == 0 || admitted && !strings.HasPrefix(key, validatingKind+"/") {
			continue
		}
		sure, failing := h.seesAs(input{attributes: attributes, callerKnown: callerKnown, manifest: p.options.Manifests}, of)
		switch {
		case failing != "":
			add("webhook/"+key, sure, "condition", failing)
		case min(sure, h.reach.sure) != no:
			add("webhook/"+key, min(sure, h.reach.sure), h.reach.cause, h.reach.why)
		}
	}
	if admitted {
		return refusals
	}
	deniers := p.deniers()
	for _, key := range slices.Sorted(maps.Keys(deniers)) {
		if sure := deniers[key].denies(attributes, of, callerKnown); sure != no {
			add("policy/"+key, sure, "denied", "the policy denies it")
		}
	}
	return refusals
}

// Once returns the refusals of a request after Services were deleted: gone reports whether a webhook's
// (TYPE/CONFIGURATION/NAME) was.
func (p *Part) Once(request *question.Request, gone func(key, namespace, name string) bool) (refusals []any) {
	for _, key := range p.callable(request, func(key string, h *hook) bool {
		return h.backend.service.Name != "" && gone(key, h.backend.service.Namespace, h.backend.service.Name)
	}) {
		refusals = append(refusals, map[string]any{"by": "webhook/" + key, "certainty": may.String(), "cause": "goes", "why": "its Service is deleted before"})
	}
	return refusals
}

// Guards returns the webhooks (TYPE/CONFIGURATION/NAME) whose answer is unknown in advance: a rule names
// exactly the request's operation and resource.
func (p *Part) Guards(request *question.Request) []string {
	resource := request.GroupResource()
	return p.callable(request, func(_ string, h *hook) bool {
		h.Rules = slices.DeleteFunc(slices.Clone(h.Rules), func(rule admissionregistrationv1.RuleWithOperations) bool {
			return !slices.Contains(rule.Resources, resource.Resource) || !slices.Contains(rule.APIGroups, resource.Group) ||
				!slices.Contains(rule.Operations, admissionregistrationv1.OperationType(request.Operation))
		})
		return true
	})
}

// callable returns the webhooks that see a request, fail closed and can be called, with the rules that selects
// leaves. An unknown namespace may have any labels.
func (p *Part) callable(request *question.Request, selects func(key string, h *hook) bool) (keys []string) {
	in := input{attributes: attributesOf(request, p.options.Manifests), callerKnown: request.UserInfo.Username != "", manifest: p.options.Manifests}
	if rules.IsExemptAdmissionConfigurationResource(in.attributes) {
		return nil
	}
	of, ok := p.namespaces[named(in.attributes.GetNamespace())]
	for _, key := range slices.Sorted(maps.Keys(p.closed)) {
		h := *p.closed[key]
		if b := p.backends[h.backend.service]; b != nil && b.state == down || !selects(key, &h) {
			continue
		}
		if !ok {
			h.namespaces = labels.Everything()
		}
		if sure, failing := h.seesAs(in, of.labels); sure != no && failing == "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func attributesOf(request *question.Request, manifest bool) admission.Attributes {
	key, namespace := request.Key(), request.Namespace
	gvr := schema.GroupVersionResource(request.Resource)
	if gvr.GroupResource() == question.Namespaces {
		gvr.Version, namespace = "v1", key.Name
	}
	info := request.UserInfo
	caller := user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups}
	return admission.NewAttributesRecord(whole(request.New(), manifest), whole(request.Old(), manifest), schema.GroupVersionKind(request.Kind),
		namespace, key.Name, gvr, request.SubResource, admission.Operation(request.Operation), options(request), false, &caller)
}

func options(request *question.Request) runtime.Object {
	if with := request.With(); with != nil {
		return &unstructured.Unstructured{Object: with}
	}
	return nil
}

// whole returns nil for an object that is neither a manifest nor as the API server holds it.
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
