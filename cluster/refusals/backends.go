package refusals

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

type state string

const (
	up      state = "up"
	down    state = "down"
	unknown state = "unknown"
)

type backend struct {
	state     state
	reason    string
	workloads []facts.Object
	facts     map[string]any
}

func (b *backend) set(s state, reason string) {
	b.state, b.reason = s, reason
	b.facts["state"], b.facts["reason"] = string(s), reason
}

func serviceFacts(name types.NamespacedName) map[string]any {
	return map[string]any{"namespace": name.Namespace, "name": name.Name}
}

func byURL() map[string]any {
	return map[string]any{"state": string(unknown), "reason": "it is called by URL, which says nothing about its state"}
}

type service struct {
	external bool
	address  string // ClusterIP, or ""
	selector map[string]string
}

type podTemplate struct {
	labels  map[string]string
	secrets []string // that its pods do not start without
}

const maxMounts = 16

type slice struct {
	service types.NamespacedName
	ready   bool
}

// backend returns a Service's backend, which stays up to date.
func (p *Part) backend(name types.NamespacedName) *backend {
	b, ok := p.backends[name]
	if !ok {
		b = &backend{facts: map[string]any{}}
		p.backends[name] = b
		p.refreshBackend(name)
	}
	return b
}

func (p *Part) refreshBackend(name types.NamespacedName) {
	b, ok := p.backends[name]
	if !ok {
		return
	}
	state, reason := down, "Service "+name.String()+" does not exist"
	b.workloads = nil
	delete(b.facts, "workloads")
	delete(b.facts, "secrets")
	if s, exists := p.services[name]; exists {
		reason = "Service " + name.String() + " has no ready endpoint"
		for _, slice := range p.slices {
			if slice.service == name && slice.ready {
				state, reason = up, "Service "+name.String()+" has ready endpoints"
			}
		}
		if s.external {
			state, reason = unknown, "Service "+name.String()+" is an ExternalName"
		}
		workloads, secrets := p.behind(name)
		var list []any
		for _, workload := range workloads {
			list = append(list, map[string]any{"resource": workload.Resource, "name": workload.Name})
		}
		b.workloads = workloads
		facts.Set(b.facts, "workloads", list, len(list) > 0)
		facts.Set(b.facts, "secrets", secrets, len(secrets) > 0)
	}
	if state == down && p.hides(name.Namespace) {
		state, reason = unknown, "rights hide whether Service "+name.String()+" has ready endpoints"
	}
	if b.state != state || b.reason != reason {
		p.conversionsDirty = true
	}
	p.touched[name.Namespace] = true // its pods may be a webhook's
	b.set(state, reason)
}

func (p *Part) UpdateVisibility() {
	before := p.hidden
	for i, resource := range []string{"services", "endpointslices.discovery.k8s.io"} {
		if p.hidden[i], _ = p.options.Sight.Hidden(resource); p.hidden[i] != facts.UnseenForbidden && p.hidden[i] != facts.UnseenElsewhere {
			p.hidden[i] = "" // earlier facts count
		}
	}
	if p.hidden != before {
		for name := range p.backends {
			p.refreshBackend(name)
		}
	}
}

func (p *Part) hides(namespace string) bool {
	return slices.ContainsFunc(p.hidden[:], func(reason string) bool {
		return reason == facts.UnseenForbidden || reason == facts.UnseenElsewhere && namespace != p.reading.within
	})
}

// behind returns a Service's workloads, and the Secrets that they mount, each with one of them.
func (p *Part) behind(name types.NamespacedName) (workloads []facts.Object, secrets map[string]any) {
	s := p.services[name]
	if len(s.selector) == 0 {
		return nil, nil
	}
	selector, secrets := labels.SelectorFromSet(s.selector), map[string]any{}
	for workload := range p.workloads[name.Namespace] {
		if selector.Matches(labels.Set(p.template(workload).labels)) {
			workloads = append(workloads, workload)
		}
	}
	slices.SortFunc(workloads, func(a, b facts.Object) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	for _, workload := range workloads {
		for _, secret := range p.template(workload).secrets {
			secrets[secret] = workload.Resource + "/" + workload.Name
		}
	}
	return workloads, secrets
}

func serviceOf(o *corev1.Service) (s service, kept bool) {
	s = service{external: o.Spec.Type == corev1.ServiceTypeExternalName, selector: o.Spec.Selector}
	if !s.external && o.Spec.ClusterIP != corev1.ClusterIPNone {
		s.address = o.Spec.ClusterIP
	}
	return s, true
}

func (p *Part) serviceChanged(name types.NamespacedName, _, _ service) { p.refreshBackend(name) }

func sliceOf(o *discoveryv1.EndpointSlice) (s slice, kept bool) {
	return slice{types.NamespacedName{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]}, facts.AnyReady(o)}, true
}

func (p *Part) sliceChanged(_ types.NamespacedName, before, now slice) {
	p.refreshBackend(before.service)
	p.refreshBackend(now.service)
}

func templateOf(pods corev1.PodTemplateSpec) (t podTemplate, kept bool) {
	t.labels = pods.Labels
	for _, v := range pods.Spec.Volumes {
		if v.Secret != nil && !facts.Or(v.Secret.Optional, false) && len(t.secrets) < maxMounts {
			t.secrets = append(t.secrets, v.Secret.SecretName)
		}
	}
	return t, true
}

func (p *Part) templateChanged(resource string) func(types.NamespacedName, podTemplate, podTemplate) {
	return func(workload types.NamespacedName, _, _ podTemplate) {
		_, exists := p.templates[resource][workload]
		p.workloads.Set(workload.Namespace, facts.Object{Resource: resource, Namespace: workload.Namespace, Name: workload.Name}, exists)
		for name := range p.backends {
			if name.Namespace == workload.Namespace {
				p.refreshBackend(name)
			}
		}
	}
}

func (p *Part) template(of facts.Object) podTemplate {
	return p.templates[of.Resource][types.NamespacedName{Namespace: of.Namespace, Name: of.Name}]
}
