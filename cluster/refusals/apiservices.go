package refusals

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// KeepAPIService adds an APIService with a Service. Local APIServices cannot become unavailable on their own.
func (p *Part) KeepAPIService(o *aggregation.APIService) bool {
	if o.Spec.Service == nil {
		p.ForgetAPIService(types.NamespacedName{Name: o.Name})
		return true
	}
	found := map[string]any{
		"group":     o.Spec.Group,
		"version":   o.Spec.Version,
		"service":   map[string]any{"namespace": o.Spec.Service.Namespace, "name": o.Spec.Service.Name},
		"backend":   p.backend(o.Spec.Service.Namespace + "/" + o.Spec.Service.Name).facts,
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
	p.apiServices[o.Name] = found
	p.doc.Child("apiservices")[o.Name] = found
	return true
}

// ForgetAPIService undoes KeepAPIService.
func (p *Part) ForgetAPIService(key types.NamespacedName) {
	delete(p.apiServices, key.Name)
	delete(p.apiErrors, key.Name)
	p.doc.Prune("apiservices", key.Name)
}

// SetStale sets the APIServices ("v1beta1.metrics.k8s.io") of groups that our discovery cannot read.
func (p *Part) SetStale(stale map[string]bool) {
	p.stale = stale
	for name, found := range p.apiServices {
		found["stale"] = stale[name]
	}
}

// SetAPIServiceError records why the objects of a resource of an APIService, known yet or not, cannot be
// listed; "" withdraws it. One listable resource does not prove the others.
func (p *Part) SetAPIServiceError(name, resource, message string) {
	if message == "" {
		delete(p.apiErrors[name], resource)
		if len(p.apiErrors[name]) == 0 {
			delete(p.apiErrors, name)
		}
	} else {
		if p.apiErrors[name] == nil {
			p.apiErrors[name] = map[string]string{}
		}
		p.apiErrors[name][resource] = message
	}
	if found := p.apiServices[name]; found != nil {
		found["listError"] = p.apiError(name)
	}
}

// apiError returns the error of the first unlistable resource of an APIService, by name.
func (p *Part) apiError(name string) string {
	for _, resource := range slices.Sorted(maps.Keys(p.apiErrors[name])) {
		return p.apiErrors[name][resource]
	}
	return ""
}
