// Package manifests returns the facts about a cluster as manifests would change it.
package manifests

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/budgets"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/refusals"
)

// DefaultNamespace is kubectl's for objects without a namespace.
const DefaultNamespace = corev1.NamespaceDefault

// Set is manifests that are applied together.
type Set struct {
	Objects []*unstructured.Unstructured
	// Namespace of objects without one, such as a chart's release has; kubectl's by default.
	Namespace string
	// Elsewhere returns a namespace's workloads and autoscalers in other sets, for budgets that select none
	// here; it may be nil.
	Elsewhere func(namespace string) []*unstructured.Unstructured
	// Others and Owner are as in cluster.Manifests.
	Others func(catalog.Workload) bool
	Owner  func(finalizer, resource, owner string) string
}

// Apply returns the facts about a cluster after a set was applied: workloads have ready pods, their Services
// endpoints, APIServices with endpoints are available, and custom resources carry the finalizers that the
// catalog lists. Everything else is unknown. The cluster's writes are made in the objects.
func Apply(options cluster.Options, version string, set Set) (*cluster.World, error) {
	if options.Catalog == nil {
		options.Catalog = catalog.Default()
	}
	options.Manifests = &cluster.Manifests{Version: version, Others: set.Others, Owner: set.Owner}
	objects := set.Objects
	scopes := cluster.Defined(objects, "spec", "scope")
	for _, obj := range objects {
		for _, ours := range []string{refusals.Implied, budgets.Autoscaled} { // only this package writes these
			unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", ours)
		}
		// The API server drops it (k8s.io/apiserver, pkg/registry/rest/meta.go,
		// EnsureObjectNamespaceMatchesRequestNamespace).
		if obj.GetNamespace() != "" && cluster.ScopeOf(obj.GroupVersionKind(), scopes) == apiextensionsv1.ClusterScoped {
			unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
		}
	}
	p := player{containers: containersOf(objects), catalog: options.Catalog, resources: cluster.Resources(objects), namespaces: map[string]bool{}, scopes: scopes, fleet: fleet{autoscaled: map[string]int64{}}, others: map[string]fleet{}, in: set.Elsewhere, home: cmp.Or(set.Namespace, homeOf(objects))}
	for _, obj := range objects {
		p.place(obj)
		p.hooks = p.hooks || strings.HasSuffix(obj.GetKind(), "WebhookConfiguration")
		if isScaler(obj) {
			p.autoscaled[targetOf(obj, cmp.Or(obj.GetNamespace(), p.home))] = least(obj)
		}
	}
	all := slices.Clone(objects)
	for _, obj := range objects {
		all = append(all, p.apply(obj)...)
	}
	for _, obj := range objects {
		all = append(all, p.endpoints(obj)...)
	}
	for _, obj := range objects {
		p.disrupt(obj)
	}
	all = append(all, servedVolumes(objects)...)
	for _, namespace := range slices.Sorted(maps.Keys(p.namespaces)) {
		if p.hooks {
			all = append(all, made("v1", "ConfigMap", namespace, "kube-root-ca.crt", map[string]any{"data": map[string]any{"ca.crt": ""}}), made("v1", "ServiceAccount", namespace, "default", map[string]any{}))
		}
		if !p.namespaces[namespace] {
			all = append(all, made("v1", "Namespace", "", namespace, map[string]any{
				"metadata": map[string]any{"labels": map[string]any{corev1.LabelMetadataName: namespace}, "annotations": map[string]any{refusals.Implied: "true"}},
				"spec":     map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
			}))
		}
	}
	return cluster.FromObjects(options, all)
}

type player struct {
	catalog    *catalog.Catalog
	resources  map[schema.GroupVersionKind]cluster.Resource
	namespaces map[string]bool // of objects; true if the set has the Namespace
	scopes     map[schema.GroupKind]string
	pods       []*unstructured.Unstructured
	fleet
	others     map[string]fleet                                    // by namespace
	in         func(namespace string) []*unstructured.Unstructured // Set.Elsewhere
	containers []container
	hooks      bool // the set has webhooks, which see the objects that the cluster creates
	home       string
}

// homeOf returns the namespace of objects without one: default, unless a client of the API server calls a
// Service of the set in another, which users name in kubectl apply -n, or the calls never succeed.
func homeOf(objects []*unstructured.Unstructured) string {
	named, bare := map[string]bool{}, map[string]bool{}
	for _, obj := range objects {
		if obj.GetKind() != "Service" || obj.GetAPIVersion() != "v1" {
			continue
		}
		if ns := obj.GetNamespace(); ns != "" {
			named[ns+"/"+obj.GetName()] = true
		} else {
			bare[obj.GetName()] = true
		}
	}
	if len(bare) == 0 {
		return DefaultNamespace
	}
	homes := map[string]bool{}
	for _, obj := range objects {
		for _, client := range clients(obj) {
			service, _ := client["service"].(map[string]any)
			name, _ := service["name"].(string)
			namespace, _ := service["namespace"].(string)
			if bare[name] && !named[namespace+"/"+name] && len(validation.IsDNS1123Label(namespace)) == 0 {
				homes[namespace] = true
			}
		}
	}
	if len(homes) != 1 {
		return DefaultNamespace
	}
	return slices.Collect(maps.Keys(homes))[0]
}

// clients returns an object's configurations of the API server's clients.
func clients(obj *unstructured.Unstructured) (configs []map[string]any) {
	take := func(fields map[string]any, path ...string) {
		value, _, _ := unstructured.NestedFieldNoCopy(fields, path...)
		if client, ok := value.(map[string]any); ok {
			configs = append(configs, client)
		}
	}
	switch obj.GetKind() {
	case "APIService":
		take(obj.Object, "spec")
	case "CustomResourceDefinition":
		take(obj.Object, "spec", "conversion", "webhook", "clientConfig")
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		for _, hook := range cluster.Items(obj.Object, "webhooks") {
			take(hook, "clientConfig")
		}
	}
	return configs
}

// place sets the namespace that kubectl would.
func (p *player) place(obj *unstructured.Unstructured) {
	// Exported from a cluster: the API server ignores it.
	unstructured.RemoveNestedField(obj.Object, "metadata", "deletionTimestamp")
	for _, client := range clients(obj) { // an installer replaces placeholders by a certificate, such as caBundle: ${CA_BUNDLE}
		if bundle, ok := client["caBundle"]; ok {
			text, isText := bundle.(string) // caBundle: [paste it here] is a list
			if _, err := base64.StdEncoding.DecodeString(text); err != nil || !isText {
				delete(client, "caBundle")
			}
		}
	}
	gvk := obj.GroupVersionKind()
	if gvk.Kind == "Namespace" && gvk.Group == "" {
		p.namespaces[obj.GetName()] = true
		return
	}
	if obj.GetNamespace() == "" && (p.resources[gvk].Namespaced || cluster.ScopeOf(gvk, p.scopes) == apiextensionsv1.NamespaceScoped) {
		obj.SetNamespace(p.home)
	}
	if ns := obj.GetNamespace(); ns != "" {
		if _, exists := p.namespaces[ns]; !exists {
			p.namespaces[ns] = false
		}
	}
}

// apply makes the cluster's changes to an object, and returns the objects that it creates.
func (p *player) apply(obj *unstructured.Unstructured) []*unstructured.Unstructured {
	res := p.resources[obj.GroupVersionKind()].String()
	switch res {
	case "namespaces":
		set(obj, "Active", "status", "phase")
		set(obj, obj.GetName(), "metadata", "labels", corev1.LabelMetadataName)
		if spec, _, _ := unstructured.NestedSlice(obj.Object, "spec", "finalizers"); len(spec) == 0 {
			set(obj, []any{"kubernetes"}, "spec", "finalizers")
		}
	case "deployments.apps", "statefulsets.apps", "daemonsets.apps":
		return p.run(obj, res)
	case "nodes":
		set(obj, []any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions")
	case "pods":
		runs(obj)
		p.pods = append(p.pods, obj)
	case "apiservices.apiregistration.k8s.io":
		set(obj, []any{map[string]any{"type": "Available", "status": "True", "reason": "Passed", "message": "the manifests are assumed to work"}}, "status", "conditions")
	default:
		p.finalize(obj, res)
	}
	return nil
}

func (p *player) run(obj *unstructured.Unstructured, res string) []*unstructured.Unstructured {
	if replicas, set, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "replicas"); set && (replicas == int64(0) || replicas == float64(0)) {
		return nil
	}
	set(obj, int64(1), "status", "readyReplicas")
	if res == "daemonsets.apps" {
		set(obj, int64(1), "status", "desiredNumberScheduled")
		set(obj, int64(1), "status", "numberReady")
	}
	template, _, _ := unstructured.NestedMap(obj.Object, "spec", "template")
	spec, _ := template["spec"].(map[string]any)
	metadata, _ := template["metadata"].(map[string]any)
	podLabels, _ := metadata["labels"].(map[string]any)
	pod := made("v1", "Pod", obj.GetNamespace(), obj.GetName()+"-0", map[string]any{
		"metadata": map[string]any{"labels": podLabels}, "spec": spec,
	})
	runs(pod)
	if spec != nil && spec["nodeName"] == nil {
		spec["nodeName"] = "any" // without a node it would stop at once
	}
	p.pods = append(p.pods, pod)
	if res != "daemonsets.apps" {
		p.workloads = append(p.workloads, workload{obj.GetNamespace(), obj.GetName(), pod.GetLabels(), replicas(obj)})
	}
	made := []*unstructured.Unstructured{pod}
	if p.hooks && res == "deployments.apps" {
		made = append(made, replicaSet(obj, podLabels))
	}
	return made
}

func replicaSet(deployment *unstructured.Unstructured, podLabels map[string]any) *unstructured.Unstructured {
	return made("apps/v1", "ReplicaSet", deployment.GetNamespace(), deployment.GetName()+"-0", map[string]any{
		"metadata": map[string]any{"labels": podLabels},
	})
}

func runs(pod *unstructured.Unstructured) {
	set(pod, "Running", "status", "phase")
	set(pod, []any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions")
}

// servedVolumes returns the volumes of claims whose StorageClass names their server, as those for NFS do.
func servedVolumes(objects []*unstructured.Unstructured) (volumes []*unstructured.Unstructured) {
	classes, servers := map[string]map[string]any{}, map[string]string{}
	for _, obj := range objects {
		if server, _, _ := unstructured.NestedString(obj.Object, "parameters", "server"); server != "" && obj.GetKind() == "StorageClass" {
			classes[obj.GetName()], servers[obj.GetName()] = obj.Object, server
		}
	}
	for _, obj := range objects {
		class, _, _ := unstructured.NestedString(obj.Object, "spec", "storageClassName")
		if obj.GetKind() != "PersistentVolumeClaim" || classes[class] == nil {
			continue
		}
		name := obj.GetNamespace() + "-" + obj.GetName()
		volumes = append(volumes, made("v1", "PersistentVolume", "", name, map[string]any{
			"spec": map[string]any{
				"csi":          map[string]any{"driver": classes[class]["provisioner"], "volumeHandle": name, "volumeAttributes": map[string]any{"server": servers[class]}},
				"claimRef":     map[string]any{"namespace": obj.GetNamespace(), "name": obj.GetName()},
				"mountOptions": classes[class]["mountOptions"],
			},
			"status": map[string]any{"phase": "Bound"},
		}))
	}
	return volumes
}

func (p *player) endpoints(obj *unstructured.Unstructured) []*unstructured.Unstructured {
	if p.resources[obj.GroupVersionKind()].String() != "services" {
		return nil
	}
	matchLabels, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "selector")
	selector := labels.SelectorFromSet(matchLabels)
	if len(matchLabels) == 0 || !slices.ContainsFunc(p.pods, func(pod *unstructured.Unstructured) bool {
		return pod.GetNamespace() == obj.GetNamespace() && selector.Matches(labels.Set(pod.GetLabels()))
	}) {
		return nil
	}
	return []*unstructured.Unstructured{made("discovery.k8s.io/v1", "EndpointSlice", obj.GetNamespace(), obj.GetName(), map[string]any{
		"metadata":    map[string]any{"labels": map[string]any{"kubernetes.io/service-name": obj.GetName()}},
		"addressType": "IPv4", "endpoints": []any{map[string]any{"addresses": []any{"192.0.2.1"}, "conditions": map[string]any{"ready": true}}},
	})}
}

// container decides which finalizers a controller sets.
type container struct {
	image string
	args  []string // with those of its command
}

func containersOf(objects []*unstructured.Unstructured) (containers []container) {
	for _, obj := range objects {
		for _, fields := range cluster.Items(obj.Object, "spec", "template", "spec", "containers") {
			image, _ := fields["image"].(string)
			command, _, _ := unstructured.NestedStringSlice(fields, "command")
			args, _, _ := unstructured.NestedStringSlice(fields, "args")
			containers = append(containers, container{image, append(command, args...)})
		}
	}
	return containers
}

func (p *player) sets(by catalog.Set) bool {
	return slices.ContainsFunc(p.containers, func(c container) bool { return by.By(c.image, c.args) })
}

func (p *player) finalize(obj *unstructured.Unstructured, res string) {
	finalizers := obj.GetFinalizers()
	for _, carried := range p.catalog.Carried(res, obj.GetKind(), p.sets) {
		if !slices.Contains(finalizers, carried) {
			finalizers = append(finalizers, carried)
		}
	}
	if len(finalizers) > 0 {
		obj.SetFinalizers(finalizers)
	}
}

func set(obj *unstructured.Unstructured, value any, path ...string) {
	node := obj.Object
	for _, key := range path[:len(path)-1] {
		next, ok := node[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			node[key] = next
		}
		node = next
	}
	node[path[len(path)-1]] = value
}

func made(apiVersion, kind, namespace, name string, object map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: object}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetName(name)
	if namespace != "" {
		obj.SetNamespace(namespace)
	}
	return obj
}
