package refusals

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// state of a backend that the API server calls.
type state string

const (
	up      state = "up"
	down    state = "down"
	unknown state = "unknown"
)

// backend is the state of a Service that the API server calls: for a webhook, an APIService or the conversion
// of a CustomResourceDefinition.
type backend struct {
	state  state
	reason string
	facts  map[string]any
}

func (b *backend) set(s state, reason string) {
	b.state, b.reason = s, reason
	b.facts["state"], b.facts["reason"] = string(s), reason
}

// byURL returns the facts about a backend that is no Service.
func byURL() map[string]any {
	return map[string]any{"state": string(unknown), "reason": "it is called by URL, which says nothing about its state"}
}

type service struct {
	external bool
	address  string // its ClusterIP, or ""
	selector map[string]string
}

// podTemplate is the kept part of a workload's pod template.
type podTemplate struct {
	labels  map[string]string
	secrets []string // that its pods mount, and do not start without
}

// maxMounts bounds the Secrets that are kept of a workload.
const maxMounts = 16

type slice struct {
	service string // "namespace/name"
	ready   bool   // at least one ready endpoint
}

// backend returns a Service as a backend, which is kept up to date.
func (p *Part) backend(name string) *backend {
	b, found := p.backends[name]
	if !found {
		b = &backend{facts: map[string]any{}}
		p.backends[name] = b
		p.refreshBackend(name)
	}
	return b
}

func (p *Part) refreshBackend(name string) {
	b, wanted := p.backends[name]
	if !wanted {
		return
	}
	state, reason := down, "Service "+name+" does not exist"
	delete(b.facts, "workloads")
	delete(b.facts, "secrets")
	if s, exists := p.services[name]; exists {
		reason = "Service " + name + " has no ready endpoint"
		for _, slice := range p.slices {
			if slice.service == name && slice.ready {
				state, reason = up, "Service "+name+" has ready endpoints"
			}
		}
		if s.external {
			state, reason = unknown, "Service "+name+" is an ExternalName"
		}
		if workloads, secrets := p.behind(name, s); len(workloads) > 0 {
			b.facts["workloads"] = workloads
			if len(secrets) > 0 {
				b.facts["secrets"] = secrets
			}
		}
	}
	if state == down && p.hides(facts.NamespaceOf(name)) {
		state, reason = unknown, "rights hide whether Service "+name+" has ready endpoints"
	}
	if b.state != state || b.reason != reason {
		p.conversionsDirty = true
	}
	p.touched[facts.NamespaceOf(name)] = true // its pods may be a webhook's
	b.set(state, reason)
}

// Resight updates which resources are hidden.
func (p *Part) Resight() {
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

// hides reports whether rights hide the Services of a namespace, or their endpoints.
func (p *Part) hides(namespace string) bool {
	return slices.ContainsFunc(p.hidden[:], func(reason string) bool {
		return reason == facts.UnseenForbidden || reason == facts.UnseenElsewhere && namespace != p.reading.within
	})
}

// behind returns the workloads whose pods a Service selects, as resource and name, and the Secrets that these
// mount, each with such a workload: all are in its namespace.
func (p *Part) behind(name string, s service) (workloads []any, secrets map[string]any) {
	if len(s.selector) == 0 {
		return nil, nil
	}
	selector, secrets := labels.SelectorFromSet(s.selector), map[string]any{}
	templates := p.templates[facts.NamespaceOf(name)]
	for _, key := range slices.Sorted(maps.Keys(templates)) {
		if selector.Matches(labels.Set(templates[key].labels)) {
			resource, workload, _ := strings.Cut(key, "/")
			workloads = append(workloads, map[string]any{"resource": resource, "name": workload})
			for _, secret := range templates[key].secrets {
				secrets[secret] = key
			}
		}
	}
	return workloads, secrets
}

// KeepService adds a Service.
func (p *Part) KeepService(o *corev1.Service) bool {
	name := o.Namespace + "/" + o.Name
	s := service{external: o.Spec.Type == corev1.ServiceTypeExternalName, selector: o.Spec.Selector}
	if !s.external && o.Spec.ClusterIP != corev1.ClusterIPNone {
		s.address = o.Spec.ClusterIP
	}
	p.services[name] = s
	p.refreshBackend(name)
	return true
}

// ForgetService undoes KeepService.
func (p *Part) ForgetService(key types.NamespacedName) {
	delete(p.services, key.String())
	p.refreshBackend(key.String())
}

// KeepEndpointSlice adds endpoints of a Service.
func (p *Part) KeepEndpointSlice(o *discoveryv1.EndpointSlice) bool {
	s := slice{o.Namespace + "/" + o.Labels[discoveryv1.LabelServiceName], facts.AnyReady(o)}
	name := o.Namespace + "/" + o.Name
	if before, found := p.slices[name]; found && before.service != s.service {
		delete(p.slices, name)
		p.refreshBackend(before.service)
	}
	p.slices[name] = s
	p.refreshBackend(s.service)
	return true
}

// ForgetEndpointSlice undoes KeepEndpointSlice.
func (p *Part) ForgetEndpointSlice(key types.NamespacedName) {
	s := p.slices[key.String()]
	delete(p.slices, key.String())
	p.refreshBackend(s.service)
}

// KeepDeployment adds what a Deployment's pods have, for the Services that select them.
func (p *Part) KeepDeployment(o *appsv1.Deployment) bool {
	return p.keepTemplate("deployments.apps", o.Namespace, o.Name, o.Spec.Template)
}

// KeepStatefulSet is KeepDeployment for a StatefulSet.
func (p *Part) KeepStatefulSet(o *appsv1.StatefulSet) bool {
	return p.keepTemplate("statefulsets.apps", o.Namespace, o.Name, o.Spec.Template)
}

// KeepDaemonSet is KeepDeployment for a DaemonSet.
func (p *Part) KeepDaemonSet(o *appsv1.DaemonSet) bool {
	return p.keepTemplate("daemonsets.apps", o.Namespace, o.Name, o.Spec.Template)
}

// ForgetDeployment undoes KeepDeployment.
func (p *Part) ForgetDeployment(key types.NamespacedName) { p.forgetTemplate("deployments.apps", key) }

// ForgetStatefulSet undoes KeepStatefulSet.
func (p *Part) ForgetStatefulSet(key types.NamespacedName) {
	p.forgetTemplate("statefulsets.apps", key)
}

// ForgetDaemonSet undoes KeepDaemonSet.
func (p *Part) ForgetDaemonSet(key types.NamespacedName) { p.forgetTemplate("daemonsets.apps", key) }

func (p *Part) keepTemplate(resource, namespace, name string, pods corev1.PodTemplateSpec) bool {
	key, now := resource+"/"+name, podTemplate{labels: pods.Labels}
	for _, v := range pods.Spec.Volumes {
		if v.Secret != nil && !facts.Or(v.Secret.Optional, false) && len(now.secrets) < maxMounts {
			now.secrets = append(now.secrets, v.Secret.SecretName)
		}
	}
	known := p.templates[namespace]
	if before, found := known[key]; found && maps.Equal(before.labels, now.labels) && slices.Equal(before.secrets, now.secrets) {
		return true
	}
	if known == nil {
		known = map[string]podTemplate{}
		p.templates[namespace] = known
	}
	known[key] = now
	p.refreshBackendsIn(namespace)
	return true
}

func (p *Part) forgetTemplate(resource string, workload types.NamespacedName) {
	known := p.templates[workload.Namespace]
	if delete(known, resource+"/"+workload.Name); len(known) == 0 {
		delete(p.templates, workload.Namespace)
	}
	p.refreshBackendsIn(workload.Namespace)
}

func (p *Part) refreshBackendsIn(namespace string) {
	for name := range p.backends {
		if facts.NamespaceOf(name) == namespace {
			p.refreshBackend(name)
		}
	}
}
