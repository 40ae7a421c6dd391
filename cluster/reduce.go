package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// ours are the labels and annotations that the facts keep of a namespace.
const ours = "termguard.dev/"

// specFinalizers are a namespace's spec.finalizers; none of anything else.
func specFinalizers(obj runtime.Object) []string {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil
	}
	finalizers := make([]string, len(ns.Spec.Finalizers))
	for i, f := range ns.Spec.Finalizers {
		finalizers[i] = string(f)
	}
	return finalizers
}

// keep reduces an object to what policies and ownership read of it, and tells
// whether there is anything to forget when it goes.
func (w *World) keep(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.Namespace:
		child(w.doc, "namespaces")[o.Name] = namespaceFacts(o)
		w.namespaceLabels[o.Name] = o.Labels
		w.touched[o.Name] = true
		w.keepNamespaceTrouble(o)
	case *corev1.Pod:
		w.keepPod(o)
	case *corev1.Node:
		w.keepNode(o)
	case *corev1.Event:
		return w.keepEvent(o)
	case *corev1.PersistentVolume:
		w.keepVolume(o)
	case *storagev1.CSINode:
		w.keepCSINode(o)
	case *storagev1.CSIDriver:
		child(w.doc, "csidrivers")[o.Name] = map[string]any{"attachRequired": ptrOr(o.Spec.AttachRequired, true)}
		w.ownersDirty = true
	case *corev1.Service:
		w.keepService(o)
	case *discoveryv1.EndpointSlice:
		w.keepSlice(o)
	case *corev1.ServiceAccount:
		w.account(o.Namespace + "/" + o.Name).exists = true
		w.ownersDirty = true
	case *appsv1.Deployment:
		w.keepTemplate("deployments.apps", types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.Spec.Template.Labels)
		w.keepWorkload("Deployment", &o.ObjectMeta, o.Spec.Template.Spec, ptrOr(o.Spec.Replicas, 1), o.Status.ReadyReplicas, refusedReplicas(o))
	case *appsv1.StatefulSet:
		w.keepTemplate("statefulsets.apps", types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.Spec.Template.Labels)
		w.keepWorkload("StatefulSet", &o.ObjectMeta, o.Spec.Template.Spec, ptrOr(o.Spec.Replicas, 1), o.Status.ReadyReplicas, "")
	case *appsv1.DaemonSet:
		w.keepTemplate("daemonsets.apps", types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.Spec.Template.Labels)
		w.keepWorkload("DaemonSet", &o.ObjectMeta, o.Spec.Template.Spec, o.Status.DesiredNumberScheduled, o.Status.NumberReady, "")
		if affinity := requiredNodeAffinity(o.Spec.Template.Spec.Affinity); len(affinity) > 0 {
			child(w.doc, "daemonsets", o.Namespace)[o.Name] = map[string]any{"nodeAffinity": affinity}
		} else {
			prune(w.doc, "daemonsets", o.Namespace, o.Name)
		}
	case *rbacv1.Role:
		w.keepRole(o.Namespace+"/"+o.Name, o.Labels, o.Rules)
	case *rbacv1.ClusterRole:
		w.keepRole("/"+o.Name, o.Labels, o.Rules)
	case *rbacv1.RoleBinding:
		w.keepBinding(o.Namespace, o.Name, o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		w.keepBinding("", o.Name, o.RoleRef, o.Subjects)
	case *aggregation.APIService:
		w.keepAPIService(o)
	case *apiextensionsv1.CustomResourceDefinition:
		facts := w.crdFacts(o)
		child(w.doc, "crds")[o.Name] = facts
		w.keepConversion(o, child(facts, "conversion"))
		w.ownersDirty = true
	case *admissionv1.ValidatingWebhookConfiguration:
		w.forgetWebhooks("validating", o.Name)
		for _, hook := range o.Webhooks {
			w.keepWebhook("validating", o.ObjectMeta, hook, hook)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		w.forgetWebhooks("mutating", o.Name)
		for _, hook := range o.Webhooks {
			w.keepWebhook("mutating", o.ObjectMeta, validating(hook), hook)
		}
	case *admissionv1.ValidatingAdmissionPolicy:
		w.keepPolicy(o)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		w.keepPolicyBinding(o)
	default:
		return false
	}
	return true
}

// forget undoes keep.
func (w *World) forget(res Resource, key types.NamespacedName) {
	name := key.Namespace + "/" + key.Name
	switch res.String() {
	case "namespaces":
		prune(w.doc, "namespaces", key.Name)
		delete(w.namespaceLabels, key.Name)
		w.setTrouble(key, trouble{}, false)
		w.touched[key.Name] = true
	case "pods":
		w.forgetPod(key)
	case "nodes":
		prune(w.doc, "nodes", key.Name)
		prune(w.doc, "notReady", key.Name)
		prune(w.doc, "buggy", key.Name)
		w.placedDirty[key.Name] = true
		w.restrand(key.Name)
		delete(w.clouds, key.Name)
		w.ownersDirty = true
	case eventsResource.String():
		w.forgetEvent(key)
	case "persistentvolumes":
		w.forgetVolume(key.Name)
	case "csinodes.storage.k8s.io":
		w.forgetCSINode(key.Name)
	case "csidrivers.storage.k8s.io":
		prune(w.doc, "csidrivers", key.Name)
		w.ownersDirty = true
	case "services":
		w.forgetService(name)
	case "endpointslices.discovery.k8s.io":
		w.forgetSlice(name)
	case "serviceaccounts":
		w.account(name).exists = false
		w.dropAccount(name)
	case "deployments.apps":
		w.forgetTemplate("deployments.apps", key)
		w.forgetWorkload("Deployment", name)
	case "statefulsets.apps":
		w.forgetTemplate("statefulsets.apps", key)
		w.forgetWorkload("StatefulSet", name)
	case "daemonsets.apps":
		w.forgetTemplate("daemonsets.apps", key)
		w.forgetWorkload("DaemonSet", name)
		prune(w.doc, "daemonsets", key.Namespace, key.Name)
	case "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io":
		delete(w.roles, name)
		w.grantsDirty = true
	case "rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io":
		delete(w.bindings, name)
		w.grantsDirty = true
	case "apiservices.apiregistration.k8s.io":
		prune(w.doc, "apiservices", key.Name)
	case "customresourcedefinitions.apiextensions.k8s.io":
		prune(w.doc, "crds", key.Name)
		w.forgetConversion(key.Name)
		w.ownersDirty = true
	case "validatingwebhookconfigurations.admissionregistration.k8s.io":
		w.forgetWebhooks("validating", key.Name)
	case "mutatingwebhookconfigurations.admissionregistration.k8s.io":
		w.forgetWebhooks("mutating", key.Name)
	case "validatingadmissionpolicies.admissionregistration.k8s.io":
		w.forgetPolicy(key.Name)
	case "validatingadmissionpolicybindings.admissionregistration.k8s.io":
		w.forgetPolicyBinding(key.Name)
	}
}

func namespaceFacts(ns *corev1.Namespace) map[string]any {
	facts := map[string]any{
		"phase":          string(ns.Status.Phase),
		"finalizers":     anys(ns.Finalizers),
		"specFinalizers": anys(specFinalizers(ns)),
	}
	if ns.DeletionTimestamp != nil {
		facts["deletionTimestamp"] = timestamp(*ns.DeletionTimestamp)
	}
	if labels := ownKeys(ns.Labels); len(labels) > 0 {
		facts["labels"] = labels
	}
	if annotations := ownKeys(ns.Annotations); len(annotations) > 0 {
		facts["annotations"] = annotations
	}
	if len(ns.Status.Conditions) > 0 {
		conditions := map[string]any{}
		for _, c := range ns.Status.Conditions {
			conditions[string(c.Type)] = map[string]any{"status": string(c.Status), "reason": c.Reason, "message": c.Message}
		}
		facts["conditions"] = conditions
	}
	return facts
}

// keepPod records a pod, and which node's kubelet it needs to go.
func (w *World) keepPod(pod *corev1.Pod) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	w.forgetPod(key)
	facts := map[string]any{"phase": w.intern(string(pod.Status.Phase))}
	if pod.Spec.NodeName != "" {
		facts["node"] = w.intern(pod.Spec.NodeName)
	}
	if grace := graceSeconds(pod); grace != corev1.DefaultTerminationGracePeriodSeconds {
		facts["gracePeriodSeconds"] = int(grace)
	}
	if pod.DeletionTimestamp != nil {
		facts["deletionTimestamp"] = timestamp(*pod.DeletionTimestamp)
	}
	if len(pod.Finalizers) > 0 {
		facts["finalizers"] = anys(pod.Finalizers)
	}
	if found := hazards(pod); len(found) > 0 {
		facts["hazards"] = anys(found)
	}
	if controller := metav1.GetControllerOf(pod); controller != nil {
		facts["owner"] = map[string]any{"kind": w.intern(controller.Kind), "name": controller.Name}
	}
	child(w.doc, "pods", pod.Namespace)[pod.Name] = facts
	for _, path := range podIndexes(pod) {
		w.index(pod.Name, path...)
		w.podPaths[key] = append(w.podPaths[key], path)
	}
	w.occupy(w.podPaths[key], 1)
	w.runPod(key, pod)
	w.strand(key, pod.Spec.NodeName)
	w.leave(pod)
	w.mount(key, pod)
}

// podIndexes are the groups that a pod is found by.
func podIndexes(pod *corev1.Pod) [][]string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	var paths [][]string
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if _, leaves := leavingOf(pod); finished && leaves {
		// Its containers have ended since it was deleted: its node has to clean up.
		paths = append(paths, []string{"podsByNode", pod.Namespace, pod.Spec.NodeName})
	}
	if !finished {
		// Its delete waits for its node: pods that are unscheduled, have
		// finished or have no grace period the API server removes at once
		// (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
		if graceSeconds(pod) > 0 {
			paths = append(paths, []string{"podsByNode", pod.Namespace, pod.Spec.NodeName}, []string{"podsByGrace", pod.Namespace, strconv.FormatInt(stopSeconds(pod), 10)})
			for _, hazard := range hazards(pod) {
				paths = append(paths, []string{"hazards", pod.Namespace, hazard, pod.Spec.NodeName})
			}
		}
	}
	if dir, ok := registrar(pod); ok {
		paths = append(paths, []string{"registrars", pod.Spec.NodeName, dir, pod.Namespace})
	}
	// Even a finished pod holds its claims, if a node ran it
	// (pkg/controller/volume/pvcprotection/pvc_protection_controller.go).
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			paths = append(paths, []string{"storage", "claims", pod.Namespace, v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			paths = append(paths, []string{"storage", "claims", pod.Namespace, pod.Name + "-" + v.Name})
		}
	}
	return paths
}

func (w *World) forgetPod(key types.NamespacedName) {
	w.stopPod(key)
	w.stay(key)
	w.unmount(key)
	w.occupy(w.podPaths[key], -1)
	for _, path := range w.podPaths[key] {
		if w.unindex(key.Name, path...); path[0] == "owners" {
			w.chain(types.UID(path[1]))
		}
	}
	delete(w.podPaths, key)
	prune(w.doc, "pods", key.Namespace, key.Name)
}

func (w *World) keepNode(node *corev1.Node) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated"}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c
		}
	}
	taints := make([]any, len(node.Spec.Taints))
	outOfService := false
	for i, taint := range node.Spec.Taints {
		taints[i] = taint.Key
		outOfService = outOfService || taint.Key == corev1.TaintNodeOutOfService
	}
	facts := map[string]any{
		"ready":        string(ready.Status),
		"reason":       ready.Reason,
		"message":      ready.Message,
		"since":        timestamp(ready.LastTransitionTime),
		"outOfService": outOfService,
		"taints":       taints,
		"kubelet":      node.Status.NodeInfo.KubeletVersion,
		"runtime":      node.Status.NodeInfo.ContainerRuntimeVersion,
	}
	if full := pressure(node, corev1.NodeDiskPressure); full != nil {
		facts["diskPressure"] = full
	}
	if bugs := nodeBugs(node); len(bugs) > 0 {
		facts["bugs"] = bugs
		child(w.doc, "buggy")[node.Name] = facts
	} else {
		prune(w.doc, "buggy", node.Name)
	}
	child(w.doc, "nodes")[node.Name] = facts
	w.placedDirty[node.Name] = true
	_, wasNotReady := child(w.doc, "notReady")[node.Name]
	if ready.Status == corev1.ConditionTrue {
		prune(w.doc, "notReady", node.Name)
	} else {
		child(w.doc, "notReady")[node.Name] = facts
	}
	if wasNotReady != (ready.Status != corev1.ConditionTrue) {
		w.restrand(node.Name)
	}
	if cloud, had := inCloud(node.Spec.ProviderID), w.clouds[node.Name]; cloud != had {
		delete(w.clouds, node.Name)
		if cloud {
			w.clouds[node.Name] = true
		}
		w.ownersDirty = true
	}
}

// inCloud tells whether a provider ID (PROVIDER://…) tells of something that may
// have a cloud controller: k3s and kind have theirs where no workload shows it.
func inCloud(id string) bool {
	provider, _, _ := strings.Cut(id, "://")
	return !slices.Contains([]string{"", "kubemark"}, provider)
}

// keepAPIService records an APIService that a Service backs. Those that the API
// server serves itself cannot become unavailable on their own.
func (w *World) keepAPIService(o *aggregation.APIService) {
	if o.Spec.Service == nil {
		prune(w.doc, "apiservices", o.Name)
		return
	}
	facts := map[string]any{
		"group":     o.Spec.Group,
		"version":   o.Spec.Version,
		"service":   map[string]any{"namespace": o.Spec.Service.Namespace, "name": o.Spec.Service.Name},
		"backend":   w.backend(o.Spec.Service.Namespace + "/" + o.Spec.Service.Name),
		"available": string(aggregation.ConditionUnknown),
		"reason":    "NotChecked",
		"message":   "the API server has not checked it yet",
		"stale":     w.stale[o.Name],
		"listError": "",
	}
	for _, c := range o.Status.Conditions {
		if c.Type == aggregation.Available {
			facts["available"], facts["reason"], facts["message"] = string(c.Status), c.Reason, c.Message
		}
	}
	if before, found := lookup(w.doc, "apiservices", o.Name).(map[string]any); found {
		facts["listError"] = before["listError"]
	}
	child(w.doc, "apiservices")[o.Name] = facts
}

// SetServed records what discovery answered: the API groups that are served,
// and the group versions ("v1beta1.metrics.k8s.io") that could not be read.
func (w *World) SetServed(groups []string, stale map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = map[string]bool{}
	for _, group := range groups {
		w.groups[group] = true
	}
	w.stale = stale
	for name, node := range child(w.doc, "apiservices") {
		if facts, ok := node.(map[string]any); ok {
			facts["stale"] = stale[name]
		}
	}
	w.ownersDirty = true
}

// SetListError records why the objects of a resource cannot be listed, for those
// of an aggregated API that counts as available, and for custom resources that
// nobody converts; "" withdraws it.
func (w *World) SetListError(res Resource, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if facts, ok := lookup(w.doc, "apiservices", res.Version+"."+res.Group).(map[string]any); ok {
		facts["listError"] = message
		return
	}
	w.setListError(res.String(), message)
}

func (w *World) crdFacts(o *apiextensionsv1.CustomResourceDefinition) map[string]any {
	versions := make([]any, len(o.Spec.Versions))
	for i, v := range o.Spec.Versions {
		versions[i] = map[string]any{"name": v.Name, "served": v.Served, "storage": v.Storage}
	}
	conditions := map[string]any{}
	for _, c := range o.Status.Conditions {
		conditions[string(c.Type)] = map[string]any{"status": string(c.Status), "reason": c.Reason, "message": c.Message}
	}
	conversion := map[string]any{"strategy": string(apiextensionsv1.NoneConverter)}
	if c := o.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		conversion["strategy"] = string(c.Strategy)
		if c.Webhook != nil && c.Webhook.ClientConfig != nil && c.Webhook.ClientConfig.Service != nil {
			s := c.Webhook.ClientConfig.Service
			conversion["service"] = map[string]any{"namespace": s.Namespace, "name": s.Name}
			conversion["backend"] = w.backend(s.Namespace + "/" + s.Name)
		}
	}
	return map[string]any{
		"group":          o.Spec.Group,
		"kind":           o.Spec.Names.Kind,
		"scope":          string(o.Spec.Scope),
		"versions":       versions,
		"storedVersions": anys(o.Status.StoredVersions),
		"conversion":     conversion,
		"deleting":       o.DeletionTimestamp != nil,
		"conditions":     conditions,
	}
}

// keepWebhook records one webhook of a configuration: the fields that decide
// what it matches as the API writes them, and the state of its backend.
func (w *World) keepWebhook(kind string, configuration metav1.ObjectMeta, hook admissionv1.ValidatingWebhook, whole any) {
	facts, err := asMap(whole)
	if err != nil {
		return // cannot happen: a typed webhook is JSON
	}
	delete(facts, "clientConfig")
	facts["type"], facts["configuration"] = kind, configuration.Name
	if s := hook.ClientConfig.Service; s != nil {
		facts["service"] = map[string]any{"namespace": s.Namespace, "name": s.Name}
		facts["backend"] = w.backend(s.Namespace + "/" + s.Name)
	} else if url := hook.ClientConfig.URL; url != nil {
		facts["url"] = *url
		facts["backend"] = map[string]any{"state": "unknown", "reason": "it is called by URL, which says nothing about its state"}
	}
	key := kind + "/" + configuration.Name + "/" + hook.Name
	child(w.doc, "webhooks")[key] = facts
	w.hooksDirty = true
	if h := newHook(hook); h != nil {
		for _, m := range configuration.ManagedFields {
			if m.Time != nil && m.Time.After(h.changed) {
				h.changed = m.Time.Time
			}
		}
		w.hooks[key] = h
	}
}

func (w *World) forgetWebhooks(kind, configuration string) {
	hooks := child(w.doc, "webhooks")
	for key := range hooks {
		if strings.HasPrefix(key, kind+"/"+configuration+"/") {
			delete(hooks, key)
			delete(w.hooks, key)
			w.hooksDirty = true
		}
	}
}

// refusedReplicas tells why no pod of a Deployment can be created.
func refusedReplicas(o *appsv1.Deployment) string {
	for _, c := range o.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return shorten(c.Message, maxSymptomText)
		}
	}
	return ""
}

// requiredNodeAffinity lists the expressions of a pod template's required node
// affinity, each with its path in a DaemonSet.
func requiredNodeAffinity(affinity *corev1.Affinity) []any {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	const path = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].%s[%d].values"
	var found []any
	for i, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for field, requirements := range map[string][]corev1.NodeSelectorRequirement{"matchExpressions": term.MatchExpressions, "matchFields": term.MatchFields} {
			for j, r := range requirements {
				found = append(found, map[string]any{"field": fmt.Sprintf(path, i, field, j), "key": r.Key, "operator": string(r.Operator), "values": anys(r.Values)})
			}
		}
	}
	return found
}

func ptrOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func anys[T ~string](values []T) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

func ownKeys(m map[string]string) map[string]any {
	found := map[string]any{}
	for key, value := range m {
		if strings.HasPrefix(key, ours) {
			found[key] = value
		}
	}
	return found
}

func timestamp(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func asMap(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(data, &m)
}
