package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/nearest"
)

// builtin are the types of Kubernetes that a snapshot, which holds no answer of
// discovery, can be asked about by any of their names.
var builtin = map[schema.GroupVersion][]metav1.APIResource{
	{Version: "v1"}: {
		{Name: "namespaces", Kind: "Namespace", ShortNames: []string{"ns"}},
		{Name: "nodes", Kind: "Node", ShortNames: []string{"no"}},
		{Name: "persistentvolumes", Kind: "PersistentVolume", ShortNames: []string{"pv"}},
		{Name: "pods", Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}},
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, ShortNames: []string{"cm"}},
		{Name: "endpoints", Kind: "Endpoints", Namespaced: true, ShortNames: []string{"ep"}},
		{Name: "limitranges", Kind: "LimitRange", Namespaced: true, ShortNames: []string{"limits"}},
		{Name: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true, ShortNames: []string{"pvc"}},
		{Name: "podtemplates", Kind: "PodTemplate", Namespaced: true},
		{Name: "replicationcontrollers", Kind: "ReplicationController", Namespaced: true, ShortNames: []string{"rc"}},
		{Name: "resourcequotas", Kind: "ResourceQuota", Namespaced: true, ShortNames: []string{"quota"}},
		{Name: "secrets", Kind: "Secret", Namespaced: true},
		{Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true, ShortNames: []string{"sa"}},
		{Name: "services", Kind: "Service", Namespaced: true, ShortNames: []string{"svc"}},
	},
	{Group: "apps", Version: "v1"}: {
		{Name: "daemonsets", Kind: "DaemonSet", Namespaced: true, ShortNames: []string{"ds"}},
		{Name: "deployments", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}},
		{Name: "replicasets", Kind: "ReplicaSet", Namespaced: true, ShortNames: []string{"rs"}},
		{Name: "statefulsets", Kind: "StatefulSet", Namespaced: true, ShortNames: []string{"sts"}},
	},
	{Group: "batch", Version: "v1"}: {
		{Name: "cronjobs", Kind: "CronJob", Namespaced: true, ShortNames: []string{"cj"}},
		{Name: "jobs", Kind: "Job", Namespaced: true},
	},
	{Group: "networking.k8s.io", Version: "v1"}: {
		{Name: "ingressclasses", Kind: "IngressClass"},
		{Name: "ingresses", Kind: "Ingress", Namespaced: true, ShortNames: []string{"ing"}},
		{Name: "ipaddresses", Kind: "IPAddress", ShortNames: []string{"ip"}},
		{Name: "networkpolicies", Kind: "NetworkPolicy", Namespaced: true, ShortNames: []string{"netpol"}},
		{Name: "servicecidrs", Kind: "ServiceCIDR"},
	},
	{Group: "apiextensions.k8s.io", Version: "v1"}: {
		{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition", ShortNames: []string{"crd", "crds"}},
	},
	{Group: "apiregistration.k8s.io", Version: "v1"}: {{Name: "apiservices", Kind: "APIService"}},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}: {
		{Name: "clusterrolebindings", Kind: "ClusterRoleBinding"},
		{Name: "clusterroles", Kind: "ClusterRole"},
		{Name: "rolebindings", Kind: "RoleBinding", Namespaced: true},
		{Name: "roles", Kind: "Role", Namespaced: true},
	},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {
		{Name: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration"},
		{Name: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy"},
		{Name: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding"},
		{Name: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration"},
	},
	{Group: "storage.k8s.io", Version: "v1"}: {
		{Name: "csidrivers", Kind: "CSIDriver"},
		{Name: "csinodes", Kind: "CSINode"},
		{Name: "storageclasses", Kind: "StorageClass", ShortNames: []string{"sc"}},
		{Name: "volumeattachments", Kind: "VolumeAttachment"},
		{Name: "volumeattributesclasses", Kind: "VolumeAttributesClass", ShortNames: []string{"vac"}},
	},
	{Group: "policy", Version: "v1"}:              {{Name: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true, ShortNames: []string{"pdb"}}},
	{Group: "autoscaling", Version: "v2"}:         {{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, ShortNames: []string{"hpa"}}},
	{Group: "discovery.k8s.io", Version: "v1"}:    {{Name: "endpointslices", Kind: "EndpointSlice", Namespaced: true}},
	{Group: "coordination.k8s.io", Version: "v1"}: {{Name: "leases", Kind: "Lease", Namespaced: true}},
	{Group: "scheduling.k8s.io", Version: "v1"}:   {{Name: "priorityclasses", Kind: "PriorityClass", ShortNames: []string{"pc"}}},
	{Group: "node.k8s.io", Version: "v1"}:         {{Name: "runtimeclasses", Kind: "RuntimeClass"}},
	{Group: "resource.k8s.io", Version: "v1"}: {
		{Name: "deviceclasses", Kind: "DeviceClass"},
		{Name: "resourceclaims", Kind: "ResourceClaim", Namespaced: true},
		{Name: "resourceclaimtemplates", Kind: "ResourceClaimTemplate", Namespaced: true},
		{Name: "resourceslices", Kind: "ResourceSlice"},
	},
}

// FromFacts finds an object in facts that were read before, as in a snapshot.
// They hold no whole objects: the subject is as much of it as they tell.
func FromFacts(world *cluster.World, name Name) (s Subject, err error) {
	world.Read(func(f cluster.Facts) { s, err = fromFacts(f, typesOf(f), name) })
	return s, err
}

// AllFromFacts finds several objects, as AllFromCluster does.
func AllFromFacts(world *cluster.World, names []Name) (subjects []Subject, missing []error, err error) {
	world.Read(func(f cluster.Facts) { subjects, missing, err = allFromFacts(f, names) })
	return subjects, missing, err
}

func allFromFacts(f cluster.Facts, names []Name) (subjects []Subject, missing []error, err error) {
	types := typesOf(f) // once: they take long to gather in a large cluster
	for _, name := range names {
		s, err := fromFacts(f, types, name)
		switch {
		case errors.As(err, new(missingError)), errors.As(err, new(noTypeError)):
			missing = append(missing, name.located(err))
		case err != nil:
			return nil, nil, err
		default:
			subjects = append(subjects, s)
		}
	}
	return subjects, missing, nil
}

func fromFacts(f cluster.Facts, types Types, name Name) (Subject, error) {
	s := Subject{Name: name.Name, Place: name.Place}
	var err error
	if s.Type, err = types.Find(name.Type); err != nil {
		return s, err
	}
	if s.Type.Namespaced {
		s.Namespace = name.Namespace
	}
	if err := s.describe(f); err != nil {
		return s, err
	}
	s.Unseen = append(s.Unseen, s.untold(f)...)
	return s, nil
}

// Described is an object of a resource as the facts tell of it, among them no more than of
// that resource: FromFacts gathers all types first, which takes long in a large cluster.
func Described(f cluster.Facts, resource, namespace, name string) (Subject, error) {
	typ, err := typeIn(f, schema.ParseGroupResource(resource), namespace != "")
	if err != nil {
		return Subject{}, err
	}
	s := Subject{Type: typ, Name: name, Namespace: namespace}
	err = s.describe(f)
	s.Unseen = append(s.Unseen, s.untold(f)...)
	return s, err
}

// typeIn is the type of a resource that the facts tell of.
func typeIn(f cluster.Facts, resource schema.GroupResource, namespaced bool) (Type, error) {
	var types Types
	for gv, list := range builtin {
		for _, api := range list {
			if gv.Group == resource.Group && api.Name == resource.Resource {
				types.add(gv, api, true)
			}
		}
	}
	if f.Defines(resource.String()) {
		types.define(f, resource.String())
	}
	if len(types.all) == 0 { // of an extension API server
		types.add(resource.WithVersion("v1").GroupVersion(), metav1.APIResource{Name: resource.Resource, Namespaced: namespaced}, true)
	}
	return types.Find(resource.String())
}

// bodies are the kinds of whose objects policies read what no snapshot holds, and what that
// is (TestParity).
var bodies = map[string]string{
	"daemonsets.apps":   "which nodes it may run on",
	"persistentvolumes": "whether it is bound",
}

// untold is what of the object, and of who asks, policies read and a snapshot does not hold.
func (s *Subject) untold(f cluster.Facts) (unseen []string) {
	resource := s.Type.GroupResource()
	what := bodies[resource.String()]
	switch _, builtin := builtin[s.Type.GroupVersion()]; {
	case !builtin && child(s.Object, "metadata")["finalizers"] != nil:
		what = "what its status says"
	case resource == pods && f.Pod(s.Namespace, s.Name).Undriven:
		what = "whether its containers have ended"
	}
	if what != "" {
		unseen = append(unseen, fmt.Sprintf("%s itself: a snapshot does not tell %s", s, what))
	}
	for hook := range f.Webhooks() {
		if hook.FailsClosed && hook.Down && hook.Conditional && hook.Concerns("DELETE", s.Type.Group, s.Type.Resource) {
			unseen = append(unseen, fmt.Sprintf("%s itself: a snapshot does not tell who asks, which webhook %s depends on", s, hook.Key))
		}
	}
	return unseen
}

// describe fills in of the object what the facts tell.
func (s *Subject) describe(f cluster.Facts) error {
	s.Object = bare(s.Type, s.Namespace, s.Name)
	resource := s.Type.GroupResource().String()
	recorded, hidden := f.Recorded(resource), f.Hides(resource)
	if recorded && !hidden && !f.Describe(resource, s.Object) {
		return missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, f.Names(resource, s.Namespace))))
	}
	return s.finalize(f, recorded || hidden)
}

// finalize sets the finalizers that the facts know the object by. They count objects, and
// name those with finalizers, or the first few of them: of one that is not known otherwise,
// that tells whether it is there.
func (s *Subject) finalize(f cluster.Facts, known bool) error {
	resource, metadata := s.Type.GroupResource().String(), child(s.Object, "metadata")
	finalizers, _ := metadata["finalizers"].([]any)
	finalizers = slices.Clone(finalizers)
	named, cut := map[string]bool{}, false
	for held := range f.Held(s.Namespace, resource) {
		if since, terminating := held.Terminating[s.Name]; terminating && metadata["deletionTimestamp"] == nil {
			metadata["deletionTimestamp"] = since
		}
		cut = cut || held.Count > len(held.Names)
		for _, name := range held.Names {
			named[name] = true
		}
		// Those of a namespace are on record, apart from those in its spec.
		if s.Type.GroupResource() != namespaces && slices.Contains(held.Names, s.Name) && !slices.Contains(finalizers, any(held.Finalizer)) {
			finalizers = append(finalizers, held.Finalizer)
		}
	}
	if len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	if known || named[s.Name] {
		return nil
	}
	if f.Count(s.Namespace, resource) <= len(named) {
		return missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, slices.Sorted(maps.Keys(named)))))
	}
	if cut {
		s.Unseen = append(s.Unseen, fmt.Sprintf("%s itself: the snapshot does not name all %s that have finalizers", s, resource))
	}
	return nil
}

// typesOf are the types that the facts tell of.
func typesOf(f cluster.Facts) Types {
	var types Types
	for _, gv := range slices.SortedFunc(maps.Keys(builtin), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
		for _, api := range builtin[gv] {
			api.SingularName = strings.ToLower(api.Kind)
			types.add(gv, api, true)
		}
	}
	for _, name := range f.Names(definitions.String(), "") {
		types.define(f, name)
	}
	for namespace, name := range f.Resources() {
		gr := schema.ParseGroupResource(name)
		if !slices.ContainsFunc(types.all, func(t Type) bool { return t.GroupResource() == gr }) {
			types.add(schema.GroupVersion{Group: gr.Group, Version: "v1"}, metav1.APIResource{Name: gr.Resource, Namespaced: namespace != ""}, true)
		}
	}
	return types
}

// define adds the type of a definition.
func (t *Types) define(f cluster.Facts, name string) {
	d, gr, version := f.Definition(name), schema.ParseGroupResource(name), ""
	if served := len(d.Served); served > 0 {
		version = d.Served[served-1]
	}
	singular := cmp.Or(d.Singular, strings.ToLower(d.Kind))
	api := metav1.APIResource{Name: gr.Resource, Kind: d.Kind, SingularName: singular, ShortNames: d.Short, Namespaced: d.Namespaced}
	t.add(gr.WithVersion(version).GroupVersion(), api, true)
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}
