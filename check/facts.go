package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/policies"
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
	world.View(func(doc map[string]any) { s, err = fromFacts(doc, typesOf(doc), name) })
	return s, err
}

// AllFromFacts finds several objects, as AllFromCluster does.
func AllFromFacts(world *cluster.World, names []Name) (subjects []Subject, missing []error, err error) {
	world.View(func(doc map[string]any) { subjects, missing, err = allFromFacts(doc, names) })
	return subjects, missing, err
}

func allFromFacts(doc map[string]any, names []Name) (subjects []Subject, missing []error, err error) {
	types := typesOf(doc) // once: they take long to gather in a large cluster
	for _, name := range names {
		s, err := fromFacts(doc, types, name)
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

func fromFacts(doc map[string]any, types Types, name Name) (Subject, error) {
	s := Subject{Name: name.Name, Place: name.Place}
	var err error
	if s.Type, err = types.Find(name.Type); err != nil {
		return s, err
	}
	if s.Type.Namespaced {
		s.Namespace = name.Namespace
	}
	if err := s.describe(doc); err != nil {
		return s, err
	}
	s.Unseen = append(s.Unseen, s.untold(doc)...)
	return s, nil
}

// bodies are the kinds of whose objects policies read what no snapshot holds, and what that
// is (TestParity).
var bodies = map[string]string{
	"daemonsets.apps":   "which nodes it may run on",
	"persistentvolumes": "whether it is bound",
}

// untold is what of the object, and of who asks, policies read and a snapshot does not hold.
func (s *Subject) untold(doc map[string]any) (unseen []string) {
	resource := s.Type.GroupResource()
	what := bodies[resource.String()]
	switch _, builtin := builtin[s.Type.GroupVersion()]; {
	case !builtin && child(s.Object, "metadata")["finalizers"] != nil:
		what = "what its status says"
	case resource == pods && len(anyList(policies.At(doc, "pods", s.Namespace, s.Name, "missingDrivers"))) > 0:
		what = "whether its containers have ended"
	}
	if what != "" {
		unseen = append(unseen, fmt.Sprintf("%s itself: a snapshot does not tell %s", s, what))
	}
	webhooks := child(doc, "webhooks")
	for _, key := range slices.Sorted(maps.Keys(webhooks)) {
		hook := child(webhooks, key)
		if hook["failurePolicy"] == "Fail" && child(hook, "backend")["state"] == "down" && len(anyList(hook["matchConditions"])) > 0 && slices.ContainsFunc(anyList(hook["rules"]), s.deletedBy) {
			unseen = append(unseen, fmt.Sprintf("%s itself: a snapshot does not tell who asks, which webhook %s depends on", s, key))
		}
	}
	return unseen
}

// deletedBy tells whether a rule of a webhook is about the deletion of the subject.
func (s *Subject) deletedBy(rule any) bool {
	r, _ := rule.(map[string]any)
	has := func(key, value string) bool {
		list := anyList(r[key])
		return slices.Contains(list, any("*")) || slices.Contains(list, any(value))
	}
	return has("operations", "DELETE") && has("apiGroups", s.Type.Group) && has("resources", s.Type.Resource)
}

// describe fills in of the object what the facts tell.
func (s *Subject) describe(doc map[string]any) error {
	s.Object = bare(s.Type, s.Namespace, s.Name)
	metadata := child(s.Object, "metadata")
	resource := s.Type.GroupResource()
	if records := recordsOf(*s); records != nil && !s.unseen(doc) {
		record, found := policies.At(doc, append(records, s.Name)...).(map[string]any)
		if !found {
			records, _ := policies.At(doc, records...).(map[string]any)
			return missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, slices.Sorted(maps.Keys(records)))))
		}
		for _, key := range []string{"deletionTimestamp", "finalizers", "labels", "annotations"} {
			if value, set := record[key]; set && value != "" {
				metadata[key] = value
			}
		}
		switch resource {
		case namespaces:
			s.Object["spec"] = map[string]any{"finalizers": anyList(record["specFinalizers"])}
			s.Object["status"] = map[string]any{"phase": record["phase"], "conditions": conditions(child(record, "conditions"))}
		case pods:
			spec := map[string]any{"nodeName": record["node"]}
			if grace, set := record["gracePeriodSeconds"]; set {
				spec["terminationGracePeriodSeconds"] = grace
				if metadata["deletionTimestamp"] != nil {
					metadata["deletionGracePeriodSeconds"] = grace
				}
			}
			s.Object["spec"], s.Object["status"] = spec, map[string]any{"phase": record["phase"]}
		}
	}
	return s.finalize(doc)
}

// finalize sets the finalizers that the facts know the object by. The facts
// count objects and name those with finalizers, or the first few of them.
func (s *Subject) finalize(doc map[string]any) error {
	resource := s.Type.GroupResource().String()
	finalizers := anyList(child(s.Object, "metadata")["finalizers"])
	named, cut := map[string]bool{}, false
	byFinalizer := child(child(doc, "finalized"), s.Namespace)
	for _, finalizer := range slices.Sorted(maps.Keys(byFinalizer)) {
		for _, bucket := range child(child(byFinalizer, finalizer), resource) {
			bucket, _ := bucket.(map[string]any)
			for _, held := range anyList(child(bucket, "terminating")["objects"]) {
				if held, _ := held.(map[string]any); held["name"] == s.Name && child(s.Object, "metadata")["deletionTimestamp"] == nil {
					child(s.Object, "metadata")["deletionTimestamp"] = held["since"]
				}
			}
			names := anyList(bucket["names"])
			cut = cut || number(bucket["count"]) > len(names)
			for _, name := range names {
				if name, ok := name.(string); ok {
					named[name] = true
				}
			}
			// Those of a namespace are on record, apart from those in its spec.
			if s.Type.GroupResource() != namespaces && slices.Contains(names, any(s.Name)) && !slices.Contains(finalizers, any(finalizer)) {
				finalizers = append(finalizers, finalizer)
			}
		}
	}
	if len(finalizers) > 0 {
		child(s.Object, "metadata")["finalizers"] = finalizers
	}
	if recordsOf(*s) != nil || named[s.Name] || s.unseen(doc) {
		return nil
	}
	count := number(child(child(doc, "counts"), s.Namespace)[resource])
	if count <= len(named) {
		return missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, slices.Sorted(maps.Keys(named)))))
	}
	if cut {
		s.Unseen = append(s.Unseen, fmt.Sprintf("%s itself: the snapshot does not name all %s that have finalizers", s, resource))
	}
	return nil
}

// recordsOf is the path to the records of a type by name, nil where the facts do not
// have one of every object.
func recordsOf(s Subject) []string {
	switch s.Type.GroupResource().String() {
	case "namespaces":
		return []string{"namespaces"}
	case "nodes":
		return []string{"nodes"}
	case "pods":
		return []string{"pods", s.Namespace}
	case "customresourcedefinitions.apiextensions.k8s.io":
		return []string{"crds"}
	}
	return nil
}

// unseen tells whether the facts could not see the subject's resource.
func (s *Subject) unseen(doc map[string]any) bool {
	resource := s.Type.GroupResource().String()
	return slices.ContainsFunc(anyList(doc["unseen"]), func(item any) bool {
		u, _ := item.(map[string]any)
		return u["resource"] == resource
	})
}

// typesOf are the types that the facts tell of.
func typesOf(doc map[string]any) Types {
	var types Types
	for _, gv := range slices.SortedFunc(maps.Keys(builtin), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
		for _, api := range builtin[gv] {
			api.SingularName = strings.ToLower(api.Kind)
			types.add(gv, api, true)
		}
	}
	crds := child(doc, "crds")
	for _, name := range slices.Sorted(maps.Keys(crds)) {
		crd := child(crds, name)
		kind, _ := crd["kind"].(string)
		gr, version := schema.ParseGroupResource(name), ""
		for _, v := range anyList(crd["versions"]) {
			if v, _ := v.(map[string]any); v["served"] == true {
				version, _ = v["name"].(string)
			}
		}
		api := metav1.APIResource{Name: gr.Resource, Kind: kind, SingularName: strings.ToLower(kind), Namespaced: crd["scope"] == "Namespaced"}
		for i, name := range anyList(crd["names"]) {
			if name, _ := name.(string); i > 0 {
				api.ShortNames = append(api.ShortNames, name)
			} else if name != "" {
				api.SingularName = name
			}
		}
		types.add(gr.WithVersion(version).GroupVersion(), api, true)
	}
	counts := child(doc, "counts")
	for _, namespace := range slices.Sorted(maps.Keys(counts)) {
		for _, name := range slices.Sorted(maps.Keys(child(counts, namespace))) {
			gr := schema.ParseGroupResource(name)
			if !slices.ContainsFunc(types.all, func(t Type) bool { return t.GroupResource() == gr }) {
				types.add(schema.GroupVersion{Group: gr.Group, Version: "v1"}, metav1.APIResource{Name: gr.Resource, Namespaced: namespace != ""}, true)
			}
		}
	}
	return types
}

// conditions are those of the facts, by type, as they stand in a status.
func conditions(byType map[string]any) []any {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		condition := maps.Clone(child(byType, name))
		condition["type"] = name
		list = append(list, condition)
	}
	return list
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

func anyList(value any) []any {
	list, _ := value.([]any)
	return slices.Clone(list)
}

// number reads a number of the facts: an int from a cluster, a float64 from a
// file.
func number(value any) int {
	switch n := value.(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}
