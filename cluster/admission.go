package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// hook is a webhook that refuses what it matches while its backend is down:
// one with failurePolicy Fail.
type hook struct {
	admissionv1.ValidatingWebhook
	backend    endpoint
	namespaces labels.Selector
	objects    labels.Selector
	conditions expressions
	names      []string  // of the conditions
	changed    time.Time // when its configuration was, for the last time
}

// endpoint is what the API server calls, and how it knows it.
type endpoint struct {
	service  string // "namespace/name"
	port     int32
	caBundle string
}

// conditions compiles match conditions. What it is made of takes milliseconds.
var conditions = sync.OnceValue(func() admissioncel.ConditionCompiler {
	return admissioncel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

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

// validating is what a mutating webhook has in common with a validating one: all
// that decides what it sees, and who is called.
func validating(m admissionv1.MutatingWebhook) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: m.Name, ClientConfig: m.ClientConfig, Rules: m.Rules, FailurePolicy: m.FailurePolicy, MatchPolicy: m.MatchPolicy,
		NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector, SideEffects: m.SideEffects,
		TimeoutSeconds: m.TimeoutSeconds, AdmissionReviewVersions: m.AdmissionReviewVersions, MatchConditions: m.MatchConditions,
	}
}

// newHook returns nil for a webhook that never refuses by being down.
func newHook(of admissionv1.ValidatingWebhook) *hook {
	client := of.ClientConfig
	if ptrOr(of.FailurePolicy, admissionv1.Fail) != admissionv1.Fail || client.Service == nil {
		return nil
	}
	h := &hook{ValidatingWebhook: of, backend: endpoint{
		service: client.Service.Namespace + "/" + client.Service.Name, port: ptrOr(client.Service.Port, 443), caBundle: string(client.CABundle),
	}}
	var err error
	if h.namespaces, err = selector(of.NamespaceSelector); err != nil {
		return nil // the API server does not call a webhook whose selector it cannot parse: it refuses the configuration
	}
	if h.objects, err = selector(of.ObjectSelector); err != nil {
		return nil
	}
	if len(of.MatchConditions) == 0 {
		return h
	}
	var accessors []admissioncel.ExpressionAccessor
	for _, c := range of.MatchConditions {
		accessors = append(accessors, (*matchconditions.MatchCondition)(&c))
		h.names = append(h.names, c.Name)
	}
	h.conditions = compileExpressions(conditions(), accessors, admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, nil)
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

// sees tells how surely the webhook sees a request for some object of a
// resource, and which of its conditions fails on it, and how: the API server
// refuses such a request whatever the webhook would say (k8s.io/apiserver,
// pkg/admission/plugin/webhook/matchconditions). caller is nil where it is not
// known who calls.
func (h *hook) sees(op admission.Operation, gvr schema.GroupVersionResource, subresource, namespace string, namespaceLabels map[string]string, caller user.Info) (sure certainty, failing string) {
	attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{Group: gvr.Group, Version: gvr.Version}, namespace, "", gvr, subresource, op, nil, false, known(caller))
	if !slices.ContainsFunc(h.Rules, func(rule admissionv1.RuleWithOperations) bool {
		if ptrOr(h.MatchPolicy, admissionv1.Equivalent) == admissionv1.Equivalent {
			rule.APIVersions = []string{"*"} // a request in another version of the same resource is converted
		}
		matcher := rules.Matcher{Rule: rule, Attr: attributes}
		return matcher.Matches()
	}) {
		return no, ""
	}
	if namespace != "" && !h.namespaces.Matches(labels.Set(namespaceLabels)) {
		return no, ""
	}
	sure = will
	if !h.objects.Empty() {
		sure = may // which objects carry the label is not part of the facts
	}
	for i, outcome := range h.conditions.evaluate(attributes, caller != nil) {
		switch outcome.is {
		case isFalse:
			return no, ""
		case isError:
			failing = fmt.Sprintf("its matchCondition %q fails: %v", h.names[i], outcome.err)
		case depends:
			sure = may
		}
	}
	return sure, failing
}

// known is who calls, nobody in particular where that is not known.
func known(caller user.Info) user.Info {
	if caller == nil {
		return &user.DefaultInfo{}
	}
	return caller
}

// refusal is why a request is refused: cause is one of the words that the
// schema of the facts lists, why says it in words.
type refusal struct {
	sure       certainty
	cause, why string
	last       time.Time // when it was seen, of what was seen once
}

// ailing is a webhook that fails closed, with what keeps the API server from
// calling it, as far as anything does.
type ailing struct {
	*hook
	refusal
}

func (a ailing) refuses(op admission.Operation, gvr schema.GroupVersionResource, subresource, namespace string, namespaceLabels map[string]string, caller user.Info) refusal {
	if a.sure == no && len(a.names) == 0 {
		return refusal{} // nothing ails it
	}
	sure, failing := a.sees(op, gvr, subresource, namespace, namespaceLabels, caller)
	switch {
	case failing != "":
		return refusal{sure: sure, cause: "condition", why: failing}
	case a.cause == "refusing" && op != admission.Delete:
		return refusal{} // it was seen to refuse deletions
	}
	r := a.refusal
	r.sure = min(sure, r.sure)
	return r
}

// ailment tells what keeps the API server from calling a webhook.
func (w *World) ailment(h *hook) refusal {
	backend := w.backend(h.backend.service)
	if backend["state"] == "down" {
		return refusal{sure: will, cause: "down", why: backend["reason"].(string)}
	}
	if why := w.distrusted(h.backend); why != "" {
		return refusal{sure: will, cause: "untrusted", why: why}
	}
	if t, found := w.troubles.of(h.Name, h.backend.service); found && !t.last.Before(h.changed) {
		return refusal{sure: may, cause: t.cause, why: t.message, last: t.last}
	}
	return refusal{}
}

// refreshBlocked works out anew which deletes in which namespaces run into a
// webhook that refuses because its backend is down, or will be once it has gone
// with the namespace.
func (w *World) refreshBlocked() {
	hooks := map[string]ailing{}
	for key, h := range w.hooks {
		hooks[key] = ailing{h, w.ailment(h)}
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
		if _, exists := w.namespaceLabels[namespace]; !exists && namespace != "" {
			continue // it is gone, or not seen yet
		}
		for key, b := range deniers {
			if requests := w.blockedBy(b, namespace, namespaceController); len(requests) > 0 {
				child(w.doc, "denied", namespace)[key] = requests
			}
		}
		for key, h := range hooks {
			if requests := w.blockedBy(h, namespace, namespaceController); len(requests) > 0 {
				child(w.doc, "blocked", namespace)[key] = requests
			}
			if namespaceOf(h.backend.service) != namespace || w.backend(h.backend.service)["state"] != "up" {
				continue
			}
			gone := ailing{h.hook, refusal{sure: will, cause: "down", why: "Service " + h.backend.service + " goes with the namespace"}}
			// While it deletes pods, the backend is still there.
			if requests := w.blockedBy(gone, namespace); len(requests) > 0 {
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
		var r refusal
		for _, caller := range callers {
			if by := h.refuses(op, res.GroupVersionResource, subresource, namespace, w.namespaceLabels[namespace], caller); by.sure > r.sure {
				r = by
			}
		}
		if r.sure == no {
			return
		}
		request := map[string]any{
			"operation": string(op), "resource": res.String(), "subresource": subresource, "count": count,
			"certainty": map[certainty]string{may: "may", will: "will"}[r.sure], "cause": r.cause, "why": r.why,
		}
		if !r.last.IsZero() {
			request["last"] = r.last.UTC().Format(time.RFC3339)
		}
		requests = append(requests, request)
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
			}
			// The delete of a definition gives it a finalizer, which goes by way of the
			// status (apiextensions-apiserver, pkg/registry/customresourcedefinition/etcd.go).
			if name == "customresourcedefinitions.apiextensions.k8s.io" {
				add(admission.Update, r.Resource, "status", n, apiServer)
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
