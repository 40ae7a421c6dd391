package refusals

import (
	"k8s.io/apimachinery/pkg/types"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type listing struct{ service, resource string }

// apiService is an APIService with a Service.
type apiService struct {
	group, version             string
	service                    types.NamespacedName
	available, reason, message string
}

// apiServiceOf omits local APIServices, which cannot become unavailable on their own.
func apiServiceOf(o *aggregation.APIService) (s apiService, kept bool) {
	if o.Spec.Service == nil {
		return s, false
	}
	s = apiService{
		o.Spec.Group, o.Spec.Version, types.NamespacedName{Namespace: o.Spec.Service.Namespace, Name: o.Spec.Service.Name},
		string(aggregation.ConditionUnknown), "NotChecked", "the API server has not checked it yet",
	}
	for _, c := range o.Status.Conditions {
		if c.Type == aggregation.Available {
			s.available, s.reason, s.message = string(c.Status), c.Reason, c.Message
		}
	}
	return s, true
}

// publishAPIServices writes all: they are few, and each review reads them.
func (p *Part) publishAPIServices() {
	all := make(map[string]any, len(p.apiServices))
	for key, s := range p.apiServices {
		all[key.Name] = map[string]any{
			"group": s.group, "version": s.version, "service": serviceFacts(s.service), "backend": p.backend(s.service).facts,
			"available": s.available, "reason": s.reason, "message": s.message,
			"stale": p.stale[key.Name], "listError": p.apiError(key.Name),
		}
	}
	p.doc["apiservices"] = all
}

// SetStale sets the APIServices (VERSION.GROUP) that discovery cannot read.
func (p *Part) SetStale(stale map[string]bool) {
	p.stale = stale
	p.publishAPIServices()
}

// SetAPIServiceError records why one resource of an APIService cannot be listed, "" if it can.
func (p *Part) SetAPIServiceError(name, resource, message string) {
	of := listing{name, resource}
	if p.apiErrors[of] == message {
		return
	}
	if p.apiErrors[of] = message; message == "" {
		delete(p.apiErrors, of)
	}
	p.publishAPIServices()
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
