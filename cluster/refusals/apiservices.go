package refusals

import (
	"k8s.io/apimachinery/pkg/types"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type listing struct{ service, resource string }

// KeepAPIService keeps an APIService with a Service: local ones cannot become unavailable on their own.
func (p *Part) KeepAPIService(o *aggregation.APIService) bool {
	if o.Spec.Service == nil {
		p.ForgetAPIService(types.NamespacedName{Name: o.Name})
		return true
	}
	backend := types.NamespacedName{Namespace: o.Spec.Service.Namespace, Name: o.Spec.Service.Name}
	found := map[string]any{
		"group":     o.Spec.Group,
		"version":   o.Spec.Version,
		"service":   serviceFacts(backend),
		"backend":   p.backend(backend).facts,
		"available": string(aggregation.ConditionUnknown),
		"reason":    "NotChecked",
		"message":   "the API server has not checked it yet",
		"stale":     p.stale[o.Name],
		"listError": p.apiError(o.Name),
	}
	for _, c := range o.Status.Conditions {
		if c.Type == aggregation.Available {
			found["available"], found["reason"], found["message"] = string(c.Status), c.Reason, c.Message
		}
	}
	p.doc.Child("apiservices")[o.Name] = found
	return true
}

// ForgetAPIService undoes KeepAPIService.
func (p *Part) ForgetAPIService(key types.NamespacedName) {
	p.doc.Prune("apiservices", key.Name)
}

// SetStale sets the APIServices (VERSION.GROUP) that discovery cannot read.
func (p *Part) SetStale(stale map[string]bool) {
	p.stale = stale
	for name := range p.doc.Child("apiservices") {
		p.record("apiservices", name)["stale"] = stale[name]
	}
}

// SetAPIServiceError records why one resource of an APIService cannot be listed, "" if it can.
func (p *Part) SetAPIServiceError(name, resource, message string) {
	if p.apiErrors[listing{name, resource}] = message; message == "" {
		delete(p.apiErrors, listing{name, resource})
	}
	if found := p.record("apiservices", name); found != nil {
		found["listError"] = p.apiError(name)
	}
}

// apiError returns the error of the first resource by name.
func (p *Part) apiError(name string) (message string) {
	first := ""
	for of, failure := range p.apiErrors {
		if of.service == name && (message == "" || of.resource < first) {
			first, message = of.resource, failure
		}
	}
	return message
}
