package refusals

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

// hook is a webhook with failurePolicy Fail.
type hook struct {
	admissionv1.ValidatingWebhook
	backend    called
	namespaces labels.Selector
	objects    labels.Selector
	conditions expressions
	changed    time.Time // last change of its configuration
	reach      reach     // at the last Settle
}

type reach struct {
	refusal
	up bool
}

// conditions compiles match conditions. Creating it takes milliseconds.
var conditions = sync.OnceValue(func() admissioncel.Compiler {
	return admissioncel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// Callers of the requests that a deletion needs, other than the user (cmd/kube-controller-manager with
// --use-service-account-credentials, and the kubelet's second DELETE of a pod).
var (
	namespaceController = controller("namespace-controller")
	jobController       = controller("job-controller")            // removes its finalizer from the pods of a Job that it has counted
	garbageCollector    = controller("generic-garbage-collector") // removes foregroundDeletion
	apiServer           = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	// The node does not matter to conditions in practice: they check the group, or the name's prefix.
	kubeletUser        = &user.DefaultInfo{Name: "system:node:", Groups: []string{user.NodesGroup, user.AllAuthenticated}}
	namespacesResource = corev1.SchemeGroupVersion.WithResource("namespaces")
	podsResource       = corev1.SchemeGroupVersion.WithResource("pods")
)

func controller(name string) user.Info {
	return &user.DefaultInfo{
		Name:   serviceaccount.MakeUsername(metav1.NamespaceSystem, name),
		Groups: append(serviceaccount.MakeGroupNames(metav1.NamespaceSystem), user.AllAuthenticated),
	}
}

func compileHook(of admissionv1.ValidatingWebhook) (h *hook, err error) {
	h = &hook{ValidatingWebhook: of}
	if h.namespaces, err = selector(of.NamespaceSelector); err != nil {
		return nil, err
	}
	if h.objects, err = selector(of.ObjectSelector); err != nil {
		return nil, err
	}
	if len(of.MatchConditions) > 0 {
		h.conditions = compileConditions(conditions(), of.MatchConditions, admissioncel.OptionalVariableDeclarations{HasAuthorizer: true})
	}
	return h, nil
}

func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

func (h *hook) selects(of map[string]string) bool { return h.objects.Matches(labels.Set(of)) }

type certainty int

const (
	no certainty = iota
	may
	will
)

func (c certainty) String() string { return [...]string{"no", "may", "will"}[c] }

// sees is seesAs for some object.
func (h *hook) sees(a neededRequest) certainty {
	sure, _ := h.seesAs(input{attributes: a.attributes(nil, nil, ""), callerKnown: a.caller != nil}, a.namespaceLabels)
	return sure
}

// seesAs also returns the condition that fails on a request: the API server then refuses without a call
// (k8s.io/apiserver, pkg/admission/plugin/webhook/matchconditions).
func (h *hook) seesAs(in input, namespaceLabels map[string]string) (sure certainty, failing string) {
	if !h.rules(in.attributes) {
		return no, ""
	}
	if in.attributes.GetNamespace() != "" && !h.namespaces.Matches(labels.Set(namespaceLabels)) {
		return no, ""
	}
	if sure = selected(h.objects, in.attributes); sure == no {
		return no, ""
	}
	for i, outcome := range h.conditions.outcomes(in) {
		switch outcome.is {
		case isFalse:
			return no, ""
		case isError:
			failing = fmt.Sprintf("its matchCondition %q fails: %v", h.MatchConditions[i].Name, outcome.err)
		case depends:
			sure = may
		}
	}
	return sure, failing
}

func (h *hook) rules(attributes admission.Attributes) bool {
	return slices.ContainsFunc(h.Rules, func(rule admissionv1.RuleWithOperations) bool {
		if facts.Or(h.MatchPolicy, admissionv1.Equivalent) == admissionv1.Equivalent {
			rule.APIVersions = []string{"*"} // a request in another version is converted
		}
		matcher := rules.Matcher{Rule: rule, Attr: attributes}
		return matcher.Matches()
	})
}

// SeesUpdatesFrom reports whether a webhook that fails closed and sees updates is served from a namespace.
func (p *Part) SeesUpdatesFrom(namespace string) bool {
	for _, h := range p.hooks {
		if h.backend.service.Namespace == namespace && slices.ContainsFunc(h.Rules, func(r admissionv1.RuleWithOperations) bool {
			return slices.Contains(r.Operations, admissionv1.Update) || slices.Contains(r.Operations, admissionv1.OperationAll)
		}) {
			return true
		}
	}
	return false
}

func (h *hook) concerns(gvr schema.GroupVersionResource, namespace string, of map[string]string) bool {
	return h.selects(of) && slices.ContainsFunc([]admission.Operation{admission.Create, admission.Update, admission.Delete}, func(op admission.Operation) bool {
		return h.rules(neededRequest{op: op, resource: gvr, namespace: namespace}.attributes(nil, nil, ""))
	})
}

// refusal is why a request is refused: cause is a word from the schema of the facts, why a text.
type refusal struct {
	sure       certainty
	cause, why string
	last       time.Time // when it was observed, for an observation
	// about are the names of the affected objects, if all were read.
	about []string
}

type refusingHook struct {
	*hook
	refusal
	reading *reading
}

func (h refusingHook) refuses(a neededRequest) refusal {
	if h.sure == no && len(h.MatchConditions) == 0 {
		return refusal{} // it can be called
	}
	r := h.reading.judge(a, func(attributes admission.Attributes) refusal {
		sure, failing := h.seesAs(input{attributes: attributes, callerKnown: a.caller != nil, manifest: h.reading.manifests}, a.namespaceLabels)
		switch {
		case failing != "":
			return refusal{sure: sure, cause: "condition", why: failing}
		case h.sure == no && (attributes.GetOldObject() != nil || h.reading.within == ""):
			return refusal{} // no condition fails
		}
		return refusal{sure: sure}
	})
	switch {
	case r.cause != "":
		return r
	case h.cause == "refusing" && a.op != admission.Delete:
		return refusal{} // it was seen to refuse deletions
	}
	about := r.about
	sure := min(r.sure, h.sure)
	r = h.refusal
	r.sure, r.about = sure, about
	return r
}

func (p *Part) reachOf(h *hook) reach {
	b := p.backend(h.backend.service)
	r := reach{up: b.state == up}
	if b.state == down {
		r.refusal = refusal{sure: will, cause: "down", why: b.reason}
	} else if why, sure := p.distrusted(h.backend); sure != no {
		r.refusal = refusal{sure: sure, cause: "untrusted", why: why}
	}
	return r
}

// stated returns a refusal that was observed since the webhook's last change.
func stated(h *hook, at place) refusal {
	if t := newest(at.observed[h.Name], h.backend.service.String(), at.name); t.webhook != "" && !t.last.Before(h.changed) {
		return refusal{sure: may, cause: t.cause, why: t.message, last: t.last}
	}
	return refusal{}
}

// settleBlocked updates the refused requests: in changed namespaces, and for changed webhooks in all.
func (p *Part) settleBlocked(cluster Cluster, yield func()) {
	p.reading.podLabels = cluster.PodLabels
	for key, h := range p.hooks {
		if now := p.reachOf(h); !reflect.DeepEqual(now, h.reach) {
			h.reach, p.changed[key] = now, true
		}
	}
	if p.hooksDirty {
		p.hooksDirty = false
		p.reading.wanting = map[Lookup]bool{} // the remaining ones are added again
		p.touched[""] = true
		for namespace := range p.namespaces {
			p.touched[namespace.Name] = true
		}
		for key := range p.hooks {
			p.changed[key] = true
		}
	}
	// Changes during this run are for the next one.
	touched, changed := p.touched, p.changed
	p.touched, p.changed = map[string]bool{}, map[string]bool{}
	for key, h := range p.hooks {
		if changed[key] || touched[h.backend.service.Namespace] {
			p.settleOwn(key, h)
			yield()
		}
	}
	// Readers during this run see the previous lookups.
	defer func() { p.reading.lookups = maps.Clone(p.reading.wanting) }()
	observed, deniers := p.statements.byWebhook(), p.deniers()
	settle := func(namespace string) {
		at, blocked, selfBlocked, denied := p.place(cluster, namespace, observed), map[string]any{}, map[string]any{}, map[string]any{}
		sections, hooks := map[string]map[string]any{"blocked": blocked, "selfBlocked": selfBlocked}, maps.Keys(changed)
		if touched[namespace] {
			sections["denied"], hooks = denied, maps.Keys(p.hooks)
		} else {
			for section := range sections {
				maps.Copy(sections[section], p.record(section, namespace))
				maps.DeleteFunc(sections[section], func(key string, _ any) bool { return changed[key] })
			}
		}
		if at.exists {
			for key, b := range deniers {
				if touched[namespace] {
					requests := p.blockedBy(b.refuses, at, namespaceController)
					facts.Set(denied, key, requests, len(requests) > 0)
					yield()
				}
			}
			for key := range hooks {
				if h := p.hooks[key]; h != nil {
					p.settleHook(at, key, h, blocked, selfBlocked)
					yield()
				}
			}
		}
		for section, requests := range sections {
			if p.doc.Prune(section, namespace); len(requests) > 0 {
				p.doc.Put(requests, section, namespace)
			}
		}
		yield()
	}
	for namespace := range touched {
		settle(namespace)
	}
	if len(changed) == 0 {
		return
	}
	for _, namespace := range append(slices.Collect(maps.Keys(p.namespaces)), named("")) {
		if !touched[namespace.Name] {
			settle(namespace.Name)
		}
	}
}

// place is a namespace, or "" for cluster-scoped objects.
type place struct {
	namespace
	name     string
	exists   bool
	contents func() []Content // slow, and few webhooks need it
	kubelet  bool
	observed map[string][]statement // by webhook
}

func (p *Part) place(cluster Cluster, name string, observed map[string][]statement) place {
	of, exists := p.namespaces[named(name)]
	return place{
		namespace: of, name: name, exists: exists || name == "", kubelet: cluster.NeedsKubelet(name), observed: observed,
		contents: sync.OnceValue(func() []Content { return cluster.Contents(name) }),
	}
}

// settleHook puts requests that a webhook refuses into blocked, and after the deletion of its backend with the
// place into selfBlocked.
func (p *Part) settleHook(at place, key string, h *hook, blocked, selfBlocked map[string]any) {
	now := refusingHook{h, h.reach.refusal, p.reading}
	if now.sure == no {
		now.refusal = stated(h, at)
	}
	if now.sure != no || len(h.MatchConditions) > 0 { // or it can be called
		requests := p.blockedBy(now.refuses, at, namespaceController)
		facts.Set(blocked, key, requests, len(requests) > 0)
	}
	if h.reach.up && h.backend.service.Namespace == at.name {
		var deletesPods []user.Info // while pods are deleted first, the backend still exists
		if p.podsAmong {
			deletesPods = append(deletesPods, namespaceController)
		}
		gone := refusingHook{h, refusal{sure: will, cause: "down", why: "Service " + h.backend.service.String() + " is deleted with the namespace"}, p.reading}
		requests := p.blockedBy(gone.refuses, at, deletesPods...)
		facts.Set(selfBlocked, key, requests, len(requests) > 0)
	}
}

// blockedBy lists the refused requests of a deletion. deletesPods are the callers that delete pods: the kubelet
// does so again when a pod has stopped.
func (p *Part) blockedBy(refuses func(neededRequest) refusal, at place, deletesPods ...user.Info) []any {
	if at.kubelet {
		deletesPods = append(deletesPods, kubeletUser)
	}
	var requests []any
	namespace := at.name
	add := func(op admission.Operation, res facts.Resource, subresource string, count int, callers ...user.Info) {
		var r refusal
		for _, caller := range callers {
			if by := refuses(neededRequest{op, res.GroupVersionResource, subresource, namespace, at.labels, caller}); by.sure > r.sure {
				r = by
			}
		}
		if r.sure == no {
			return
		}
		if r.about != nil {
			count = len(r.about)
		}
		request := map[string]any{
			"operation": string(op), "resource": res.String(), "subresource": subresource, "count": count,
			"certainty": r.sure.String(), "cause": r.cause, "why": r.why,
		}
		facts.Set(request, "names", facts.List(r.about), r.about != nil)
		facts.Set(request, "last", r.last.UTC().Format(time.RFC3339), !r.last.IsZero())
		requests = append(requests, request)
	}
	for _, c := range at.contents() {
		name := c.String()
		if namespace != "" {
			callers := []user.Info{namespaceController}
			if name == "pods" {
				callers = deletesPods
			}
			add(admission.Delete, c.Resource, "", c.Count, callers...)
		}
		if c.Held > 0 {
			add(admission.Update, c.Resource, "", c.Held, p.owners(c.Finalizers)...)
		}
		// The delete of a definition adds a finalizer, which an update of the status removes
		// (apiextensions-apiserver, pkg/registry/customresourcedefinition/etcd.go).
		if name == "customresourcedefinitions.apiextensions.k8s.io" {
			add(admission.Update, c.Resource, "status", c.Count, apiServer)
		}
	}
	if namespace != "" {
		res := facts.Resource{GroupVersionResource: namespacesResource}
		add(admission.Update, res, "finalize", 1, namespaceController)
		add(admission.Update, res, "status", 1, namespaceController)
		if len(at.finalizers) > 0 {
			add(admission.Update, res, "", 1, p.owners(at.finalizers)...)
		}
	}
	return requests
}

// owners includes nil for unknown ones.
func (p *Part) owners(finalizers []string) (owners []user.Info) {
	names := map[string]bool{}
	for _, finalizer := range finalizers {
		name := p.options.Owner(finalizer)
		switch {
		case names[name]:
		case name == "":
			owners = append(owners, nil)
		default:
			owners = append(owners, controller(name))
		}
		names[name] = true
	}
	return owners
}

func (p *Part) Webhooks() []string { return slices.Sorted(maps.Keys(p.doc.Child("webhooks"))) }

func (p *Part) Fronts() map[facts.Object][]facts.Object {
	fronts := map[facts.Object][]facts.Object{}
	for key, s := range p.apiServices {
		fronts[facts.Object{Resource: "apiservices.apiregistration.k8s.io", Name: key.Name}] = p.backends[s.service].workloads
	}
	for key, h := range p.hooks {
		kind, webhook, _ := strings.Cut(key, "/")
		configuration, _, _ := strings.Cut(webhook, "/")
		front := facts.Object{Resource: kind + "webhookconfigurations.admissionregistration.k8s.io", Name: configuration}
		fronts[front] = append(fronts[front], p.backends[h.backend.service].workloads...)
	}
	return fronts
}

type configuration struct {
	webhooks []admissionv1.ValidatingWebhook // a mutating one has their fields
	records  []map[string]any
	changed  time.Time
	injected []Source // of caBundle
}

func configurationOf[W any](m metav1.ObjectMeta, webhooks []W) (c configuration) {
	for i := range webhooks {
		record, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&webhooks[i])
		var hook admissionv1.ValidatingWebhook
		if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(record, &hook) != nil {
			continue // cannot happen: a typed webhook is JSON
		}
		delete(record, "clientConfig")
		c.webhooks, c.records = append(c.webhooks, hook), append(c.records, record)
	}
	for _, f := range m.ManagedFields {
		if f.Time != nil && f.Time.After(c.changed) {
			c.changed = f.Time.Time
		}
	}
	c.injected = injectedFrom(m.Annotations)
	return c
}

func (p *Part) configurationChanged(kind string) func(types.NamespacedName, configuration, configuration) {
	return func(of types.NamespacedName, before, now configuration) {
		for _, webhook := range before.webhooks {
			key := kind + "/" + of.Name + "/" + webhook.Name
			delete(p.closed, key)
			delete(p.hooks, key)
			p.doc.Prune("webhooks", key)
			p.changed[key] = true
		}
		for i, webhook := range now.webhooks {
			p.keepWebhook(kind, of.Name, webhook, maps.Clone(now.records[i]), now)
		}
	}
}

func (p *Part) keepWebhook(kind, name string, of admissionv1.ValidatingWebhook, record map[string]any, within configuration) {
	key, client := kind+"/"+name+"/"+of.Name, of.ClientConfig
	record["type"], record["configuration"] = kind, name
	p.doc.Put(record, "webhooks", key)
	p.changed[key] = true
	if client.URL != nil {
		record["url"], record["backend"] = *client.URL, byURL()
	}
	if client.Service != nil {
		name := types.NamespacedName{Namespace: client.Service.Namespace, Name: client.Service.Name}
		record["service"], record["backend"] = serviceFacts(name), p.backend(name).facts
	}
	h, err := compileHook(of)
	if err != nil || !failsClosed(of.FailurePolicy) {
		return // the API server rejects it, or it refuses nothing when it is down
	}
	p.closed[key] = h
	switch {
	case client.Service != nil:
		h.backend = calledAt(client.Service.Namespace, client.Service.Name, client.Service.Port, client.CABundle, within.injected)
		h.changed = within.changed
		p.hooks[key] = h
	case client.URL != nil:
		p.publishHeld(key, "everywhere", h.everywhere()) // wherever its backend is
	}
}

// settleOwn updates the effects of a webhook on its backend: if it sees the creation of its own pods, none can
// be created after all are deleted.
func (p *Part) settleOwn(key string, h *hook) {
	sure := p.seesOwnPods(h)
	delete(p.record("webhooks", key), "ownPods")
	facts.Set(p.record("webhooks", key), "ownPods", sure.String(), sure != no)
	home := h.backend.service.Namespace
	p.publishHeld(key, "everywhere", h.everywhere())
	p.publishHeld(key, "home", h.ownKinds(home, p.namespace(home).labels))
	p.publishHeld(key, "ownWorkloads", p.ownWorkloads(h, home))
}

// ownWorkloads returns the kinds behind a webhook whose updates it certainly sees: in a foreground deletion
// their pods are deleted first, and none answers when the garbage collector removes foregroundDeletion.
func (p *Part) ownWorkloads(h *hook, home string) (held []string) {
	if !h.selects(nil) || !p.foretells(h, home) {
		return nil
	}
	workloads, _ := p.behind(h.backend.service)
	for _, behind := range workloads {
		kinds := []string{behind.Resource}
		if behind.Resource == "deployments.apps" {
			kinds = append(kinds, "replicasets.apps")
		}
		for _, kind := range kinds {
			gvr := schema.ParseGroupResource(kind).WithVersion("v1")
			if h.sees(neededRequest{admission.Update, gvr, "", home, p.namespace(home).labels, garbageCollector}) == will && !slices.Contains(held, kind) {
				held = append(held, kind)
			}
		}
	}
	slices.Sort(held)
	return held
}

func (p *Part) publishHeld(key, section string, held []string) {
	delete(p.record("webhooks", key), section)
	facts.Set(p.record("webhooks", key), section, facts.List(held), len(held) > 0)
}

// everywhere returns the requests that fail in any namespace while the backend is down.
func (h *hook) everywhere() (held []string) {
	if !h.selects(nil) {
		return nil // it is for objects with its label
	}
	anything := schema.GroupVersionResource{Group: "any.example.com", Version: "v1", Resource: "anything"}
	anybody := &user.DefaultInfo{Name: "any", Groups: []string{user.AllAuthenticated}}
	for _, check := range []struct {
		holds, unless string
		op            admission.Operation
		resource      schema.GroupVersionResource
		subresource   string
		caller        user.Info
	}{
		{"pods", "", admission.Delete, podsResource, "", kubeletUser},
		{"namespaces", "", admission.Delete, namespacesResource, "", anybody},
		{"namespaces", "", admission.Delete, corev1.SchemeGroupVersion.WithResource("configmaps"), "", namespaceController},
		{"namespaces", "", admission.Delete, corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "", namespaceController},
		{"namespaces", "", admission.Update, namespacesResource, "finalize", namespaceController},
		{"everything", "", admission.Delete, anything, "", namespaceController},
		// Kinds that most namespaces have, and that are deleted routinely.
		{"daemonsets.apps", "everything", admission.Delete, appsv1.SchemeGroupVersion.WithResource("daemonsets"), "", namespaceController},
		{"deployments.apps", "everything", admission.Delete, appsv1.SchemeGroupVersion.WithResource("deployments"), "", namespaceController},
		{"replicasets.apps", "everything", admission.Delete, appsv1.SchemeGroupVersion.WithResource("replicasets"), "", namespaceController},
		{"statefulsets.apps", "everything", admission.Delete, appsv1.SchemeGroupVersion.WithResource("statefulsets"), "", namespaceController},
		{"cronjobs.batch", "everything", admission.Delete, batchv1.SchemeGroupVersion.WithResource("cronjobs"), "", namespaceController},
		{"jobs.batch", "everything", admission.Delete, batchv1.SchemeGroupVersion.WithResource("jobs"), "", namespaceController},
		{"finalizers", "", admission.Update, anything, "", anybody},
		{"jobs", "finalizers", admission.Update, podsResource, "", jobController},
	} {
		if slices.Contains(held, check.holds) || slices.Contains(held, check.unless) {
			continue
		}
		sure := h.sees(neededRequest{check.op, check.resource, check.subresource, "any", map[string]string{corev1.LabelMetadataName: "any"}, check.caller})
		// It sees objects without labels: as certainly as its conditions say.
		if sure == will || sure == may && len(h.MatchConditions) == 0 {
			held = append(held, check.holds)
		}
	}
	return held
}

// ownKinds returns the writes of custom resources that the webhook sees, and that the deletion of its
// backend's namespace needs, as "DELETE things.example.com". Such objects may not exist.
func (h *hook) ownKinds(home string, of map[string]string) (held []string) {
	if of == nil {
		of = map[string]string{corev1.LabelMetadataName: home}
	}
	if !h.selects(nil) {
		return nil
	}
	for _, rule := range h.Rules {
		for _, group := range rule.APIGroups {
			if !strings.Contains(group, ".") || !facts.Custom(group) {
				continue
			}
			for _, resource := range rule.Resources {
				if resource == "*/*" {
					resource = "*"
				}
				if resource != "*" && strings.ContainsAny(resource, "*/") || inNoNamespace(group, resource) || facts.Or(rule.Scope, admissionv1.AllScopes) == admissionv1.ClusterScope {
					continue
				}
				gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
				for op, caller := range map[admission.Operation]user.Info{admission.Delete: namespaceController, admission.Update: nil} {
					if h.sees(neededRequest{op, gvr, "", home, of, caller}) != no {
						held = append(held, string(op)+" "+gvr.GroupResource().String())
					}
				}
			}
		}
	}
	slices.Sort(held)
	return slices.Compact(held)
}

// foretells reports whether the webhook's selector has a known result. A namespace outside the manifests may
// get any label, as readmes instruct, unless Kubernetes creates it.
func (p *Part) foretells(h *hook, namespace string) bool {
	of := p.namespace(namespace).whole
	if !p.options.Manifests || of == nil || of.Annotations[Implied] == "" || question.Immortal(namespace) {
		return true
	}
	requirements, _ := h.namespaces.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
}

// seesOwnPods judges by the labels of templates.
func (p *Part) seesOwnPods(h *hook) certainty {
	service, ok := p.services[h.backend.service]
	if !ok || len(service.selector) == 0 {
		return no
	}
	namespace := h.backend.service.Namespace
	if !p.foretells(h, namespace) {
		return no
	}
	selected, sure := labels.SelectorFromSet(service.selector), no
	create := neededRequest{op: admission.Create, resource: podsResource, namespace: namespace, namespaceLabels: p.namespace(namespace).labels}
	for workload := range p.workloads[namespace] {
		of := p.template(workload)
		if !selected.Matches(labels.Set(of.labels)) || !h.selects(of.labels) {
			continue
		}
		seen, _ := h.seesAs(input{attributes: create.attributes(labeled(namespace, of.labels), nil, "")}, create.namespaceLabels)
		sure = max(sure, seen)
	}
	return sure
}
