package refusals

import (
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubeversion "k8s.io/apimachinery/pkg/version"

	"github.com/termguard/termguard/cluster/facts"
)

// ConversionFailure is part of the API server's error for an unconvertible custom resource
// (apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go).
const ConversionFailure = "conversion webhook for "

// uncached is part of its error while such an object keeps it from filling its cache (apiserver,
// pkg/storage/cacher/ready.go).
const uncached = "storage is (re)initializing"

func ConversionFails(err error) bool {
	return err != nil && strings.Contains(err.Error(), ConversionFailure)
}

// converter is a definition's conversion to the version that deletions request.
type converter struct {
	namespaced bool
	// version is the one that the namespace controller and the garbage collector request, the first served one
	// in discovery; "" if none is served.
	version, storage string
	stored           []string
	called           *called // nil if called by URL
}

// possible returns the storage version if there is no status, as in manifests.
func (c *converter) possible() []string {
	if len(c.stored) == 0 {
		return []string{c.storage}
	}
	return c.stored
}

func (c *converter) converts(stored []string) bool {
	return slices.ContainsFunc(stored, func(version string) bool { return version != c.version })
}

// settleConversions also updates, by a backend's namespace, the definitions whose deletion needs it.
func (p *Part) settleConversions(cluster Cluster, yield func()) {
	if !p.conversionsDirty {
		return
	}
	p.conversionsDirty = false
	unconverted, served := map[string]any{}, map[string]any{}
	for name, c := range p.converters {
		yield()
		failure, home := p.listErrors[name], ""
		backend, fails := byURL(), false
		if c.called != nil {
			b := p.backend(c.called.service)
			home, backend, fails = c.called.service.Namespace, b.facts, b.state == down
			if why, sure := p.distrusted(*c.called); sure == will && b.state == up {
				backend, fails = map[string]any{"state": string(down), "reason": why}, true
			}
		}
		if c.version != "" && c.converts(c.possible()) {
			facts.Document(served).Child(home)[name] = map[string]any{
				"version": c.version, "storedVersions": facts.List(c.possible()), "backend": backend, "instances": cluster.Total(name),
			}
		}
		if failure == "" && !fails {
			continue
		}
		record := map[string]any{
			"namespaced": c.namespaced, "version": c.version, "storage": c.storage, "storedVersions": facts.List(c.stored), "backend": backend,
			"listError": failure, "refused": strings.Contains(failure, uncached), "instances": cluster.Total(name),
		}
		if c.called != nil {
			record["service"] = serviceFacts(c.called.service)
		}
		unconverted[name] = record
	}
	p.doc["unconverted"], p.doc["conversionsFrom"] = unconverted, served
}

type definition struct {
	facts.Definition
	converter *converter // nil for none
	record    map[string]any
}

func definitionOf(o *apiextensionsv1.CustomResourceDefinition) (d definition, kept bool) {
	names := o.Spec.Names
	d.Definition = facts.Definition{Kind: names.Kind, Singular: names.Singular, Short: names.ShortNames, Namespaced: o.Spec.Scope == apiextensionsv1.NamespaceScoped}
	versions := make([]any, len(o.Spec.Versions))
	version, storage := "", ""
	for i, v := range o.Spec.Versions {
		versions[i] = map[string]any{"name": v.Name, "served": v.Served, "storage": v.Storage}
		if v.Storage {
			storage = v.Name
		}
		if !v.Served {
			continue
		}
		d.Served = append(d.Served, v.Name)
		if version == "" || kubeversion.CompareKubeAwareVersionStrings(v.Name, version) > 0 {
			version = v.Name
		}
	}
	conditions := map[string]any{}
	for _, c := range o.Status.Conditions {
		conditions[string(c.Type)] = map[string]any{"status": string(c.Status), "reason": c.Reason, "message": c.Message}
	}
	strategy := apiextensionsv1.NoneConverter
	if spec := o.Spec.Conversion; spec != nil && spec.Strategy == apiextensionsv1.WebhookConverter {
		strategy = spec.Strategy
		d.converter = &converter{namespaced: d.Namespaced, version: version, storage: storage, stored: o.Status.StoredVersions}
		if spec.Webhook != nil && spec.Webhook.ClientConfig != nil && spec.Webhook.ClientConfig.Service != nil {
			s := spec.Webhook.ClientConfig.Service
			at := calledAt(s.Namespace, s.Name, s.Port, spec.Webhook.ClientConfig.CABundle, injectedFrom(o.Annotations))
			d.converter.called = &at
		}
	}
	d.record = map[string]any{
		"group":          o.Spec.Group,
		"kind":           names.Kind,
		"scope":          string(o.Spec.Scope),
		"versions":       versions,
		"storedVersions": facts.List(o.Status.StoredVersions),
		"conversion":     map[string]any{"strategy": string(strategy)},
		"deleting":       o.DeletionTimestamp != nil,
		"conditions":     conditions,
	}
	facts.Set(d.record, "names", facts.List(append([]string{names.Singular}, names.ShortNames...)),
		len(names.ShortNames) > 0 || names.Singular != "" && names.Singular != strings.ToLower(names.Kind))
	return d, true
}

func (p *Part) definitionChanged(key types.NamespacedName, _, now definition) {
	p.conversionsDirty = true
	delete(p.converters, key.Name)
	if now.converter != nil {
		p.converters[key.Name] = now.converter
	}
	if s := now.service(); s.Name != "" {
		p.backend(s)
	}
}

// service returns the Service that converts, if any.
func (d definition) service() (s types.NamespacedName) {
	if d.converter != nil && d.converter.called != nil {
		s = d.converter.called.service
	}
	return s
}

func (p *Part) definitionFacts(_ string, d definition) any {
	s := d.service()
	if s.Name == "" {
		return d.record
	}
	record := maps.Clone(d.record)
	record["conversion"] = map[string]any{"strategy": string(apiextensionsv1.WebhookConverter), "service": serviceFacts(s), "backend": p.backends[s].facts}
	return record
}

func (p *Part) Definition(resource string) (facts.Definition, bool) {
	d, exists := p.definitions[named(resource)]
	return d.Definition, exists
}

// SetListError records why a resource, of an aggregated API or unconvertible, cannot be listed in the version
// that deletions request; "" withdraws it.
func (p *Part) SetListError(res facts.Resource, message string) {
	service := res.Version + "." + res.Group
	p.SetAPIServiceError(service, res.String(), message) // it may become known later
	if _, aggregated := p.apiServices[named(service)]; aggregated {
		return
	}
	p.SetConversionError(res.String(), message)
}

// SetConversionError is SetListError for a custom resource.
func (p *Part) SetConversionError(resource, message string) {
	p.conversionsDirty = p.conversionsDirty || p.listErrors[resource] != message
	if p.listErrors[resource] = message; message == "" {
		delete(p.listErrors, resource)
	}
}

func (p *Part) Converts(definition string) bool { return p.converters[definition] != nil }

// ConvertsFrom reports whether deletions anywhere may need a conversion webhook in this namespace.
func (p *Part) ConvertsFrom(namespace string) bool {
	served, _ := p.doc["conversionsFrom"].(map[string]any)
	return served[namespace] != nil
}

func (p *Part) Unconverted() (resources []facts.Resource) {
	for _, name := range slices.Sorted(maps.Keys(p.converters)) {
		if c := p.converters[name]; c.converts(c.stored) {
			resource := schema.ParseGroupResource(name).WithVersion(c.version)
			resources = append(resources, facts.Resource{GroupVersionResource: resource, Namespaced: c.namespaced})
		}
	}
	return resources
}
