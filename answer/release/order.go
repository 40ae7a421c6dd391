package release

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// order is helm uninstall's order of kinds (UninstallOrder in pkg/release/v1/util). Others come last, by
// name: all custom resources and, before Helm 4, the first two (helm/helm#30701).
var order = []string{
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService", "Ingress",
	"IngressClass", "Service", "CronJob", "Job", "StatefulSet", "HorizontalPodAutoscaler",
	"Deployment", "ReplicaSet", "ReplicationController", "Pod", "DaemonSet", "RoleBindingList",
	"RoleBinding", "RoleList", "Role", "ClusterRoleBindingList", "ClusterRoleBinding",
	"ClusterRoleList", "ClusterRole", "CustomResourceDefinition", "PersistentVolumeClaim",
	"PersistentVolume", "StorageClass", "ConfigMap", "SecretList", "Secret", "ServiceAccount",
	"PodDisruptionBudget", "PodSecurityPolicy", "LimitRange", "ResourceQuota", "NetworkPolicy",
	"Namespace", "PriorityClass",
}

// Uninstall lists the effects of helm uninstall.
type Uninstall struct {
	// Deletes are in groups of a kind. Helm does not wait for the deletions.
	Deletes [][]*unstructured.Unstructured
	// Kept have the annotation helm.sh/resource-policy: keep.
	Kept []*unstructured.Unstructured
	// Hooks are of this or earlier operations, and not deleted with the rest.
	Hooks []Hook
	// Definitions are in the chart's folder crds: no uninstall deletes them.
	Definitions []string
}

// separator is where Helm splits manifests (SplitManifests).
var separator = regexp.MustCompile(`(?m)^---[ \t]*`)

// Order returns the effects for rendered manifests; the order before Helm 4 blocks more.
func Order(manifests string, helm4 bool) (Uninstall, error) {
	order := order
	if !helm4 {
		order = order[2:]
	}
	var u Uninstall
	var all []*unstructured.Unstructured
	for i, text := range separator.Split(manifests, -1) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			return Uninstall{}, fmt.Errorf("document %d of the manifest: %w", i, err)
		}
		if len(object.Object) == 0 { // comments
			continue
		}
		annotations := object.GetAnnotations()
		if events, hook := annotations["helm.sh/hook"]; hook {
			u.Hooks = append(u.Hooks, Hook{
				Name: object.GetName(), Kind: object.GetKind(),
				Events: listed(events), DeletePolicies: listed(annotations["helm.sh/hook-delete-policy"]),
			})
			continue
		}
		if policy, set := annotations["helm.sh/resource-policy"]; set {
			// Another value than keep is neither kept nor deleted (filterManifestsToKeep).
			if slices.Equal(listed(policy), []string{"keep"}) {
				u.Kept = append(u.Kept, object)
			}
			continue
		}
		all = append(all, object)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return compare(order, a.GetKind(), b.GetKind()) })
	last := ""
	for _, object := range all {
		objects, err := Items(object)
		if err != nil {
			return Uninstall{}, fmt.Errorf("read a list in the manifest: %w", err)
		}
		for _, object := range objects {
			if kind := object.GetKind(); len(u.Deletes) == 0 || kind != last {
				u.Deletes, last = append(u.Deletes, nil), kind
			}
			u.Deletes[len(u.Deletes)-1] = append(u.Deletes[len(u.Deletes)-1], object)
		}
	}
	return u, nil
}

// Items returns the objects of a list, or the object itself.
func Items(object *unstructured.Unstructured) (items []*unstructured.Unstructured, err error) {
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, nil
	}
	err = object.EachListItem(func(item runtime.Object) error {
		if item, ok := item.(*unstructured.Unstructured); ok {
			items = append(items, item)
		}
		return nil
	})
	return items, err
}

// compare orders kinds as helm uninstall does (lessByKind).
func compare(order []string, a, b string) int {
	place := func(kind string) int {
		if at := slices.Index(order, kind); at >= 0 {
			return at
		}
		return len(order)
	}
	if place(a) == len(order) && place(b) == len(order) {
		return strings.Compare(a, b)
	}
	return place(a) - place(b)
}

func listed(value string) []string {
	var values []string
	for v := range strings.SplitSeq(value, ",") {
		values = append(values, strings.ToLower(strings.TrimSpace(v)))
	}
	return values
}

// definitionsIn leaves out unreadable documents, which stay in any case.
func definitionsIn(text string) []string {
	var names []string
	for _, doc := range separator.Split(text, -1) {
		var object unstructured.Unstructured
		if yaml.Unmarshal([]byte(doc), &object.Object) == nil && object.GetKind() == "CustomResourceDefinition" {
			names = append(names, object.GetName())
		}
	}
	return names
}

// Sentences say which objects stay, and which run around the uninstall.
func (u Uninstall) Sentences() []string {
	var sentences []string
	say := func(format string, what []string) {
		if len(what) > 0 {
			sentences = append(sentences, fmt.Sprintf(format, strings.Join(what, ", ")))
		}
	}
	var kept, before, after, stay []string
	for _, object := range u.Kept {
		kept = append(kept, called(object.GetKind(), object.GetName()))
	}
	for _, hook := range u.Hooks {
		name := called(hook.Kind, hook.Name)
		if slices.Contains(hook.Events, "pre-delete") {
			before = append(before, name)
		}
		if slices.Contains(hook.Events, "post-delete") {
			after = append(after, name)
		}
		if !slices.Contains(hook.DeletePolicies, "hook-succeeded") || hook.Kind == "CustomResourceDefinition" {
			stay = append(stay, name)
		}
	}
	say("hooks run before anything is deleted: %s. If one fails, nothing is deleted. The objects that hooks delete are unknown", before)
	say("hooks run after everything else: %s", after)
	say("it leaves objects that hooks created: %s", stay)
	say("it leaves objects that helm.sh/resource-policy keeps: %s", kept)
	say("it leaves the CustomResourceDefinitions of the chart's folder crds, and all objects of them: %s", u.Definitions)
	return sentences
}

func called(kind, name string) string { return strings.ToLower(kind) + "/" + name }
