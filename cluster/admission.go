package cluster

import (
	"context"
	"maps"
	"regexp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// hook is a webhook that refuses what it matches while its backend is down:
// one with failurePolicy Fail.
type hook struct {
	accessor   webhook.WebhookAccessor
	backend    string // "namespace/name" of its Service, "" for a URL
	namespaces labels.Selector
	objects    labels.Selector
	conditions []condition
}

// condition is one matchCondition, with what it looks at.
type condition struct {
	matcher matchconditions.Matcher
	// readsObject and readsUser tell whether the outcome depends on the
	// object, its namespace, parameters or authorization, or on who calls.
	readsObject, readsUser bool
}

var (
	readsObject = regexp.MustCompile(`\b(object|oldObject|namespaceObject|params|authorizer)\b`)
	readsUser   = regexp.MustCompile(`\buserInfo\b`)
	conditions  = admissioncel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
)

// callers of the requests that a deletion needs, other than the person's own
// (cmd/kube-controller-manager with --use-service-account-credentials, and the
// kubelet's second DELETE of a pod).
var (
	namespaceController = &user.DefaultInfo{
		Name:   "system:serviceaccount:kube-system:namespace-controller",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
	apiServer = &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters", "system:authenticated"}}
	// Of which node a pod is makes no difference to conditions that are met in
	// practice: they look at the group, or at the name's prefix.
	kubelet            = &user.DefaultInfo{Name: "system:node:", Groups: []string{"system:nodes", "system:authenticated"}}
	namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// builtinOwners are the controllers that remove finalizers of Kubernetes itself
// (pkg/controller, cmd/kube-controller-manager/app; all run as service accounts
// of kube-system).
var builtinOwners = map[string]string{
	"kubernetes.io/pvc-protection":             "pvc-protection-controller",
	"kubernetes.io/pv-protection":              "pv-protection-controller",
	"kubernetes.io/vac-protection":             "volumeattributesclass-protection-controller",
	"batch.kubernetes.io/job-tracking":         "job-controller",
	"foregroundDeletion":                       "generic-garbage-collector",
	"orphan":                                   "generic-garbage-collector",
	"resource.kubernetes.io/delete-protection": "resource-claim-controller",
	"networking.k8s.io/service-cidr-finalizer": "service-cidrs-controller",
}

// owner is who removes a finalizer, nil where that is not known by name.
func owner(finalizer string) user.Info {
	name, known := builtinOwners[finalizer]
	if !known {
		return nil
	}
	return &user.DefaultInfo{Name: "system:serviceaccount:kube-system:" + name, Groups: namespaceController.Groups}
}

// newHook returns nil for a webhook that never refuses by being down.
func newHook(accessor webhook.WebhookAccessor, client admissionv1.WebhookClientConfig) *hook {
	if ptrOr(accessor.GetFailurePolicy(), admissionv1.Fail) != admissionv1.Fail || client.Service == nil {
		return nil
	}
	h := &hook{accessor: accessor, backend: client.Service.Namespace + "/" + client.Service.Name}
	var err error
	if h.namespaces, err = selector(accessor.GetNamespaceSelector()); err != nil {
		return nil // the API server does not call a webhook whose selector it cannot parse: it refuses the configuration
	}
	if h.objects, err = selector(accessor.GetObjectSelector()); err != nil {
		return nil
	}
	fail := admissionv1.Fail
	for _, c := range accessor.GetMatchConditions() {
		compiled := conditions.CompileCondition([]admissioncel.ExpressionAccessor{(*matchconditions.MatchCondition)(&c)},
			admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
		h.conditions = append(h.conditions, condition{
			matcher:     matchconditions.NewMatcher(compiled, &fail, "webhook", "validating", accessor.GetConfigurationName()),
			readsObject: readsObject.MatchString(c.Expression),
			readsUser:   readsUser.MatchString(c.Expression),
		})
	}
	return h
}

// selector is that of a webhook: none matches everything.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// certainty is how surely a webhook sees a request.
type certainty int

const (
	no certainty = iota
	may
	will
)

// matches tells whether the webhook sees a request for some object of a
// resource. caller is nil where it is not known who calls.
func (h *hook) matches(op admission.Operation, gvr schema.GroupVersionResource, subresource, namespace string, namespaceLabels map[string]string, caller user.Info) certainty {
	attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{Group: gvr.Group, Version: gvr.Version}, namespace, "", gvr, subresource, op, nil, false, caller)
	if !slices.ContainsFunc(h.accessor.GetRules(), func(rule admissionv1.RuleWithOperations) bool {
		if ptrOr(h.accessor.GetMatchPolicy(), admissionv1.Equivalent) == admissionv1.Equivalent {
			rule.APIVersions = []string{"*"} // a request in another version of the same resource is converted
		}
		matcher := rules.Matcher{Rule: rule, Attr: attributes}
		return matcher.Matches()
	}) {
		return no
	}
	if namespace != "" && !h.namespaces.Matches(labels.Set(namespaceLabels)) {
		return no
	}
	sure := will
	if !h.objects.Empty() {
		sure = may // which objects carry the label is not part of the facts
	}
	for _, c := range h.conditions {
		if c.readsObject || c.readsUser && caller == nil {
			sure = min(sure, may)
			continue
		}
		result := c.matcher.Match(context.Background(), &admission.VersionedAttributes{Attributes: attributes, VersionedKind: attributes.GetKind()}, nil, nil)
		if !result.Matches && result.Error == nil {
			return no
		}
	}
	return sure
}

// refreshBlocked works out anew which deletes in which namespaces run into a
// webhook that refuses because its backend is down, or will be once it has gone
// with the namespace.
func (w *World) refreshBlocked() {
	dead := map[string]*hook{}
	for key, h := range w.hooks {
		if w.backend(h.backend)["state"] == "down" {
			dead[key] = h
		}
	}
	if w.hooksDirty {
		w.hooksDirty = false
		w.doc["blocked"], w.doc["selfBlocked"], w.doc["denied"] = map[string]any{}, map[string]any{}, map[string]any{}
		clear(w.touched)
		if len(w.hooks) > 0 || len(w.policyBindings) > 0 {
			for namespace := range w.namespaceLabels {
				w.touched[namespace] = true
			}
			w.touched[""] = true
		}
	}
	deniers := w.deniers()
	for namespace := range w.touched {
		for _, section := range []string{"blocked", "selfBlocked", "denied"} {
			prune(w.doc, section, namespace)
		}
		for key, b := range deniers {
			if requests := w.blockedBy(b, namespace, namespaceController); len(requests) > 0 {
				child(w.doc, "denied", namespace)[key] = requests
			}
		}
		for key, h := range dead {
			if requests := w.blockedBy(h, namespace, namespaceController); len(requests) > 0 {
				child(w.doc, "blocked", namespace)[key] = requests
			}
		}
		for key, h := range w.hooks {
			if namespaceOf(h.backend) != namespace || w.backend(h.backend)["state"] != "up" {
				continue
			}
			// While it deletes pods, the backend is still there.
			if requests := w.blockedBy(h, namespace); len(requests) > 0 {
				child(w.doc, "selfBlocked", namespace)[key] = requests
			}
		}
	}
	clear(w.touched)
}

// blockedBy lists the requests that a deletion in a namespace needs and that a
// webhook or a policy refuses: the deletes of what is in it, the updates that remove
// finalizers, and those of the namespace itself. "" stands for cluster-scoped
// objects. deletesPods are those who delete pods, beside the kubelet, which does
// so once more when a pod has stopped.
func (w *World) blockedBy(h refuser, namespace string, deletesPods ...user.Info) []any {
	var requests []any
	add := func(op admission.Operation, res Resource, subresource string, count int, callers ...user.Info) {
		sure := no
		for _, caller := range callers {
			sure = max(sure, h.matches(op, res.GroupVersionResource, subresource, namespace, w.namespaceLabels[namespace], caller))
		}
		if sure == no {
			return
		}
		requests = append(requests, map[string]any{
			"operation": string(op), "resource": res.String(), "subresource": subresource, "count": count,
			"certainty": map[certainty]string{may: "may", will: "will"}[sure],
		})
	}
	owners := w.ownersIn(namespace)
	names := slices.Sorted(maps.Keys(w.resources))
	for _, name := range names {
		r := w.resources[name]
		if n := r.counts[namespace]; n > 0 && r.Namespaced == (namespace != "") {
			if namespace != "" {
				callers := []user.Info{namespaceController}
				if name == "pods" {
					callers = deletesPods
					if lookup(w.doc, "podsByNode", namespace) != nil {
						callers = append(slices.Clone(callers), kubelet)
					}
				}
				add(admission.Delete, r.Resource, "", n, callers...)
			}
			if held := r.heldIn[namespace]; held > 0 {
				add(admission.Update, r.Resource, "", held, owners[name]...)
				if name == "customresourcedefinitions.apiextensions.k8s.io" { // their cleanup finalizer goes by way of the status
					add(admission.Update, r.Resource, "status", held, apiServer)
				}
			}
		}
	}
	if namespace != "" {
		res := Resource{GroupVersionResource: namespacesResource}
		add(admission.Update, res, "finalize", 1, namespaceController)
		add(admission.Update, res, "status", 1, namespaceController)
		if own, _ := lookup(w.doc, "namespaces", namespace, "finalizers").([]any); len(own) > 0 {
			var callers []user.Info
			for _, finalizer := range own {
				callers = append(callers, owner(finalizer.(string)))
			}
			add(admission.Update, res, "", 1, callers...)
		}
	}
	return requests
}

// ownersIn are those who remove the finalizers of the objects in a namespace, by
// resource: nil is someone not known by name.
func (w *World) ownersIn(namespace string) map[string][]user.Info {
	owners := map[string][]user.Info{}
	held, _ := lookup(w.doc, "finalized", namespace).(map[string]any)
	for finalizer, resources := range held {
		resources, _ := resources.(map[string]any)
		for resource := range resources {
			owners[resource] = append(owners[resource], owner(finalizer))
		}
	}
	return owners
}
