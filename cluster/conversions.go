package cluster

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"
	kubeversion "k8s.io/apimachinery/pkg/version"
)

// conversionFailure is part of what the API server says of a custom resource that
// is not stored in the version asked for and that nobody converts (apiextensions-
// apiserver, pkg/apiserver/conversion/webhook_converter.go).
const conversionFailure = "conversion webhook for "

// uncached is part of its answer while it cannot fill its cache of a resource, as
// long as one object of it cannot be converted (apiserver, pkg/storage/cacher/ready.go).
const uncached = "storage is (re)initializing"

// conversionFails tells whether an error is of that kind.
func conversionFails(err error) bool {
	return err != nil && strings.Contains(err.Error(), conversionFailure)
}

// deletionVersion is the version that the namespace controller and the garbage
// collector ask for: of those that are served, the one that discovery puts first.
func deletionVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	found := ""
	for _, v := range crd.Spec.Versions {
		if v.Served && (found == "" || kubeversion.CompareKubeAwareVersionStrings(v.Name, found) > 0) {
			found = v.Name
		}
	}
	return found
}

// storageVersion is the version that objects are written in from now on.
func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// listsFromCache tells whether the API server of a version answers every list of
// a namespace from a cache of the whole resource, and refuses it while that
// cannot be filled: ConsistentListFromCache and ResilientWatchCacheInitialization
// are on from 1.31 (apiserver, pkg/features/kube_features.go).
func listsFromCache(git string) bool {
	v, err := version.ParseGeneric(git)
	return err != nil || v.AtLeast(version.MajorMinor(1, 31))
}

// refreshConversions brings up to date which definitions have objects that
// nobody converts: those with a conversion webhook whose backend is down, or whose
// objects cannot be listed for want of it.
func (w *World) refreshConversions() {
	if !w.conversionsDirty {
		return
	}
	w.conversionsDirty = false
	unconverted := map[string]any{}
	for name, facts := range w.converted {
		failure := w.listErrors[name]
		backend, _ := facts["backend"].(map[string]any)
		if e, called := w.converters[name]; called && backend["state"] == "up" {
			if why := w.distrusted(e); why != "" {
				backend = map[string]any{"state": "down", "reason": why}
			}
		}
		if failure == "" && backend["state"] != "down" {
			continue
		}
		facts := maps.Clone(facts)
		facts["backend"] = backend
		facts["listError"], facts["refused"], facts["instances"] = failure, strings.Contains(failure, uncached), 0
		if r := w.resources[name]; r != nil {
			n := 0
			for _, count := range r.counts {
				n += count
			}
			facts["instances"] = n
		}
		unconverted[name] = facts
	}
	w.doc["unconverted"] = unconverted
}

// keepConversion records who converts the objects of a definition.
func (w *World) keepConversion(o *apiextensionsv1.CustomResourceDefinition, conversion map[string]any) {
	w.conversionsDirty = true
	delete(w.converted, o.Name)
	delete(w.converters, o.Name)
	if conversion["strategy"] != string(apiextensionsv1.WebhookConverter) {
		return
	}
	facts := map[string]any{
		"namespaced": o.Spec.Scope == apiextensionsv1.NamespaceScoped, "version": deletionVersion(o), "storage": storageVersion(o),
		"storedVersions": anys(o.Status.StoredVersions),
		"backend":        map[string]any{"state": "unknown", "reason": "it is called by URL, which says nothing about its state"},
	}
	for _, key := range []string{"service", "backend"} {
		if known, found := conversion[key]; found {
			facts[key] = known
		}
	}
	w.converted[o.Name] = facts
	if c := o.Spec.Conversion.Webhook; c != nil && c.ClientConfig != nil && c.ClientConfig.Service != nil {
		s := c.ClientConfig.Service
		w.converters[o.Name] = endpoint{service: s.Namespace + "/" + s.Name, port: ptrOr(s.Port, 443), caBundle: string(c.ClientConfig.CABundle)}
	}
}

func (w *World) forgetConversion(name string) {
	delete(w.converted, name)
	delete(w.converters, name)
	w.conversionsDirty = true
}

// setListError records why the objects of a custom resource cannot be listed in
// the version that deletions ask for; "" withdraws it.
func (w *World) setListError(resource, message string) {
	if w.listErrors[resource] == message {
		return
	}
	w.listErrors[resource] = message
	if message == "" {
		delete(w.listErrors, resource)
	}
	w.conversionsDirty = true
}

// unconvertedResources are those of definitions that may have objects that nobody
// converts to the version that deletions ask for: some may be stored in another,
// and the conversion webhook, if it runs at all, may be one that is not trusted.
func (w *World) unconvertedResources() []Resource {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var found []Resource
	for _, name := range slices.Sorted(maps.Keys(w.converted)) {
		facts := w.converted[name]
		v, _ := facts["version"].(string)
		stored, _ := facts["storedVersions"].([]any)
		if !slices.ContainsFunc(stored, func(s any) bool { return s != v }) {
			continue
		}
		plural, group, _ := strings.Cut(name, ".")
		namespaced, _ := facts["namespaced"].(bool)
		res := Resource{Namespaced: namespaced}
		res.Group, res.Version, res.Resource = group, v, plural
		found = append(found, res)
	}
	return found
}

// impatient answers at once where a list fails for want of a conversion. The API
// server says 429 and asks to try again later, which the client would do ten times
// (client-go, rest/with_retry.go): minutes, in which nobody knows more.
type impatient struct{ http.RoundTripper }

func (t impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // a Status
	if err != nil {
		response.Body.Close()
		return nil, err
	}
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(conversionFailure)) {
		response.Header.Del("Retry-After")
	}
	return response, nil
}
