// Package deploy_test checks the manifests in deploy.
package deploy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// rendered are manifests that equal the chart's output (checked in test/chart), by path.
var rendered = []string{base, "overlays/cert-manager/install.yaml", "testdata/full.golden.yaml"}

// base is the manifest for kubectl apply.
const base = "base/install.yaml"

// manifests decodes the documents of a file strictly, except kinds of the Prometheus operator, whose types
// this module does not import.
func manifests(t *testing.T, path string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, certmanagerv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &u.Object); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if len(u.Object) == 0 {
			continue // only comments
		}
		if u.GroupVersionKind().Group == "monitoring.coreos.com" {
			objects = append(objects, u)
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %s: %v", path, u.GetKind(), err)
		}
		objects = append(objects, object)
	}
}

func find[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	return named[T](t, objects, "")
}

// named returns the object of a type with a name, "" for any.
func named[T runtime.Object](t *testing.T, objects []runtime.Object, name string) T {
	t.Helper()
	for _, o := range objects {
		if object, ok := o.(T); ok && (name == "" || o.(metav1.Object).GetName() == name) {
			return object
		}
	}
	t.Fatalf("no %T %s", *new(T), name)
	return *new(T)
}

func TestManifests(t *testing.T) {
	for _, path := range rendered {
		for _, o := range manifests(t, path) {
			m := o.(metav1.Object)
			if m.GetLabels()["app.kubernetes.io/name"] != "termguard" {
				t.Errorf("%s: %T %s lacks termguard's label, by which it is uninstalled", path, o, m.GetName())
			}
			if len(m.GetFinalizers()) > 0 || len(m.GetOwnerReferences()) > 0 {
				t.Errorf("%s: %T %s could outstay its deletion", path, o, m.GetName())
			}
		}
	}
	one, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile("install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, other) {
		t.Errorf("kubectl apply -k base and kubectl apply -f install.yaml differ: run make docs")
	}
}

func TestChartKnowsThePolicies(t *testing.T) {
	const path = "chart/policies.txt"
	want := strings.Join(policies.EmbeddedIDs(), "\n") + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s differs from the binary (run: make docs): %v\n%s", path, err, cmp.Diff(want, string(got)))
	}
}

// TestSchemaKnowsTheConfig checks that the chart's values schema allows exactly the configuration that the
// binary reads: with less users could not set an option, with more pods would not start.
func TestSchemaKnowsTheConfig(t *testing.T) {
	text, err := os.ReadFile("chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Properties struct {
			Config struct {
				Properties map[string]struct {
					Properties map[string]any
				}
			}
		}
	}
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	fields := func(of reflect.Type, except ...string) (names []string) {
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.Anonymous && !slices.Contains(except, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	properties := values.Properties.Config.Properties
	if diff := cmp.Diff(fields(reflect.TypeFor[config.Config](), "apiVersion", "kind"), slices.Sorted(maps.Keys(properties))); diff != "" {
		t.Errorf("config: add it to deploy/chart/values.schema.json and values.yaml: -binary, +schema:\n%s", diff)
	}
	if diff := cmp.Diff(fields(reflect.TypeFor[config.Enforcement]()), slices.Sorted(maps.Keys(properties["enforcement"].Properties))); diff != "" {
		t.Errorf("config.enforcement: -binary, +schema:\n%s", diff)
	}
}

func TestConfigIsRead(t *testing.T) {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range set.Policies() {
		ids = append(ids, p.ID)
	}
	const full = "testdata/full.golden.yaml"
	if _, err := config.Read(strings.NewReader(named[*corev1.ConfigMap](t, manifests(t, full), "termguard-config").Data["config.yaml"]), ids); err != nil {
		t.Errorf("%s: %v", full, err)
	}
	text, err := os.ReadFile("chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Config config.Config }
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if mode := values.Config.Enforcement.Default; mode != config.Warn {
		t.Errorf("shipped default is %q, want only warnings", mode)
	}
}

// TestConfigIsLeftAlone checks that the manifests contain no configuration, which kubectl apply would reset
// at each upgrade. Pods start without one.
func TestConfigIsLeftAlone(t *testing.T) {
	const name = "termguard-config"
	for _, path := range []string{base, "overlays/cert-manager/install.yaml"} {
		objects := manifests(t, path)
		for _, o := range objects {
			if m, ok := o.(*corev1.ConfigMap); ok && m.Name == name {
				t.Errorf("%s has ConfigMap %s", path, name)
			}
		}
		for _, v := range find[*appsv1.Deployment](t, objects).Spec.Template.Spec.Volumes {
			if v.Name == "config" && (v.ConfigMap == nil || v.ConfigMap.Name != name || v.ConfigMap.Optional == nil || !*v.ConfigMap.Optional) {
				t.Errorf("%s: pods wait for %+v", path, v.ConfigMap)
			}
		}
	}
}

// TestRightsToWrite lists every right beyond reading.
func TestRightsToWrite(t *testing.T) {
	objects := manifests(t, base)
	got := map[string]string{}
	note := func(where string, list []rbacv1.PolicyRule) {
		for _, r := range list {
			if slices.Contains(r.Resources, "*") && !slices.Equal(r.Verbs, []string{"list", "watch"}) {
				t.Errorf("%s: %q of everything reaches nodes/proxy and the like", where, r.Verbs)
			}
			for _, verb := range r.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					got[where+" "+verb+" "+strings.Join(r.APIGroups, ",")+"/"+strings.Join(r.Resources, ",")] = strings.Join(r.ResourceNames, ",")
				}
			}
		}
	}
	for _, o := range objects {
		switch role := o.(type) {
		case *rbacv1.ClusterRole:
			note("everywhere", role.Rules)
		case *rbacv1.Role:
			note("at home", role.Rules)
		}
	}
	want := map[string]string{
		"everywhere create /events": "",
		"everywhere patch /events":  "",
		"everywhere patch admissionregistration.k8s.io/validatingwebhookconfigurations": "termguard",
		"at home create /secrets":    "",
		"at home update /secrets":    "termguard-ca",
		"at home create /configmaps": "",
		"at home update /configmaps": "termguard-learned",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights to write: -want, +got:\n%s", diff)
	}
}

func TestNamesAgree(t *testing.T) {
	objects := manifests(t, base)
	deployment := find[*appsv1.Deployment](t, objects)
	service := find[*corev1.Service](t, objects)
	if diff := cmp.Diff(service.Spec.Selector, deployment.Spec.Template.Labels); diff != "" {
		t.Errorf("the Service selects other pods: -selector, +labels:\n%s", diff)
	}
	if !*deployment.Spec.Template.Spec.SecurityContext.RunAsNonRoot || !*deployment.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the pod has rights that it does not need")
	}
	for _, w := range find[*admissionv1.ValidatingWebhookConfiguration](t, objects).Webhooks {
		s := w.ClientConfig.Service
		if s == nil || s.Namespace != service.Namespace || s.Name != service.Name || *s.Path != webhook.Path || *s.Port != service.Spec.Ports[0].Port {
			t.Errorf("%s calls %+v", w.Name, w.ClientConfig)
		}
		if *w.FailurePolicy != admissionv1.Ignore || *w.TimeoutSeconds != 1 || *w.SideEffects != admissionv1.SideEffectClassNoneOnDryRun || *w.MatchPolicy != admissionv1.Equivalent {
			t.Errorf("%s is not harmless", w.Name)
		}
	}
}

// Users who send the requests.
var (
	person              = &user.DefaultInfo{Name: "ann", Groups: []string{"system:authenticated"}}
	admin               = &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}}
	kubelet             = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}
	apiserver           = &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters"}}
	controllerManager   = &user.DefaultInfo{Name: "system:kube-controller-manager", Groups: []string{"system:authenticated"}}
	namespaceController = account("kube-system", "namespace-controller")
	garbageCollector    = account("kube-system", "generic-garbage-collector")
	termguard           = account("termguard-system", "termguard")
	addon               = account("kube-system", "metrics-server")
	lookalike           = account("kube-systems", "namespace-controller")
)

func account(namespace, name string) user.Info {
	return &user.DefaultInfo{
		Name:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

func object(pairs ...any) *unstructured.Unstructured {
	metadata := map[string]any{"name": "x"}
	for i := 0; i < len(pairs); i += 2 {
		metadata[pairs[i].(string)] = pairs[i+1]
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
}

func TestSelectsExactlyWhatMatters(t *testing.T) {
	const (
		onDelete   = "delete.termguard.dev"
		onEdit     = "finalizer-edit.termguard.dev"
		onFinalize = "finalize.termguard.dev"
	)
	plain, held, null := object(), object("finalizers", []any{"a/b"}), object("finalizers", nil)
	labelled := object("labels", map[string]any{"a": "b"})
	dying := object("finalizers", []any{"a/b"}, "deletionTimestamp", "2026-11-21T07:00:00Z")
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	kialis := schema.GroupVersionResource{Group: "kiali.io", Version: "v1alpha1", Resource: "kialis"}
	knative := schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
	deployments := appsv1.SchemeGroupVersion.WithResource("deployments")
	foreground, background := metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
	cases := map[string]struct {
		who         user.Info
		operation   admission.Operation
		resource    schema.GroupVersionResource
		subresource string
		old, now    *unstructured.Unstructured
		options     runtime.Object
		want        []string
	}{
		"person deletes namespace":                       {who: person, operation: admission.Delete, resource: core("namespaces"), old: plain, want: []string{onDelete}},
		"admin deletes namespace":                        {who: admin, operation: admission.Delete, resource: core("namespaces"), old: plain, want: []string{onDelete}},
		"person deletes namespace without options":       {who: person, operation: admission.Delete, resource: core("namespaces"), old: plain, options: noOptions, want: []string{onDelete}},
		"person deletes pod":                             {who: person, operation: admission.Delete, resource: core("pods"), old: plain, want: []string{onDelete}},
		"person deletes pod again":                       {who: person, operation: admission.Delete, resource: core("pods"), old: dying},
		"person forces pod that is being deleted":        {who: person, operation: admission.Delete, resource: core("pods"), old: dying, options: &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, want: []string{onDelete}},
		"kubelet deletes pod":                            {who: kubelet, operation: admission.Delete, resource: core("pods"), old: dying, options: &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}},
		"kubelet deletes pod of its own":                 {who: kubelet, operation: admission.Delete, resource: core("pods"), old: plain, options: &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}},
		"person deletes deployment":                      {who: person, operation: admission.Delete, resource: deployments, old: plain, want: []string{onDelete}},
		"add-on in kube-system deletes deployment":       {who: addon, operation: admission.Delete, resource: deployments, old: plain, want: []string{onDelete}},
		"garbage collector deletes deployment":           {who: garbageCollector, operation: admission.Delete, resource: deployments, old: plain},
		"namespace controller deletes held object":       {who: namespaceController, operation: admission.Delete, resource: kialis, old: held},
		"controller of a lookalike deletes held object":  {who: lookalike, operation: admission.Delete, resource: kialis, old: held, want: []string{onDelete}},
		"controller manager deletes pod":                 {who: controllerManager, operation: admission.Delete, resource: core("pods"), old: plain},
		"API server deletes APIService":                  {who: apiserver, operation: admission.Delete, resource: schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, old: plain},
		"termguard deletes namespace":                    {who: termguard, operation: admission.Delete, resource: core("namespaces"), old: plain},
		"person deletes configmap":                       {who: person, operation: admission.Delete, resource: core("configmaps"), old: plain},
		"person deletes configmap in the background":     {who: person, operation: admission.Delete, resource: core("configmaps"), old: plain, options: &metav1.DeleteOptions{PropagationPolicy: &background}},
		"person deletes configmap in the foreground":     {who: person, operation: admission.Delete, resource: core("configmaps"), old: plain, options: &metav1.DeleteOptions{PropagationPolicy: &foreground}, want: []string{onDelete}},
		"person deletes configmap with finalizer":        {who: person, operation: admission.Delete, resource: core("configmaps"), old: held, want: []string{onDelete}},
		"person deletes it again":                        {who: person, operation: admission.Delete, resource: core("configmaps"), old: dying},
		"person deletes custom resource":                 {who: person, operation: admission.Delete, resource: kialis, old: plain},
		"person deletes custom resource with finalizer":  {who: person, operation: admission.Delete, resource: kialis, old: held, want: []string{onDelete}},
		"person deletes what owns an operator":           {who: person, operation: admission.Delete, resource: schema.GroupVersionResource{Group: "kafka.strimzi.io", Version: "v1", Resource: "kafkas"}, old: plain, want: []string{onDelete}},
		"person deletes service of another API":          {who: person, operation: admission.Delete, resource: knative, old: plain},
		"person evicts pod":                              {who: person, operation: admission.Create, resource: core("pods"), subresource: "eviction", now: plain, options: &metav1.CreateOptions{}, want: []string{onDelete}},
		"taint eviction evicts pod":                      {who: account("kube-system", "node-controller"), operation: admission.Create, resource: core("pods"), subresource: "eviction", now: plain, options: &metav1.CreateOptions{}},
		"person creates pod":                             {who: person, operation: admission.Create, resource: core("pods"), now: plain, options: &metav1.CreateOptions{}},
		"person creates configmap with finalizer":        {who: person, operation: admission.Create, resource: core("configmaps"), now: held, options: &metav1.CreateOptions{}},
		"person runs a command in pod":                   {who: person, operation: admission.Connect, resource: core("pods"), subresource: "exec", now: plain, options: noOptions},
		"person labels configmap":                        {who: person, operation: admission.Update, resource: core("configmaps"), old: plain, now: labelled, options: &metav1.UpdateOptions{}},
		"person labels object with finalizer":            {who: person, operation: admission.Update, resource: kialis, old: held, now: object("finalizers", []any{"a/b"}, "labels", map[string]any{"a": "b"}), options: &metav1.UpdateOptions{}},
		"person removes finalizer":                       {who: person, operation: admission.Update, resource: kialis, old: held, now: plain, options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"person removes finalizer of Terminating object": {who: person, operation: admission.Update, resource: kialis, old: dying, now: object("deletionTimestamp", "2026-11-21T07:00:00Z"), options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"person adds finalizer":                          {who: person, operation: admission.Update, resource: core("configmaps"), old: plain, now: held, options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"operator removes its finalizer":                 {who: account("kiali", "operator"), operation: admission.Update, resource: kialis, old: dying, now: object("deletionTimestamp", "2026-11-21T07:00:00Z"), options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"garbage collector removes foregroundDeletion":   {who: garbageCollector, operation: admission.Update, resource: deployments, old: held, now: plain, options: &metav1.UpdateOptions{}},
		"PVC protection removes its finalizer":           {who: account("kube-system", "pvc-protection-controller"), operation: admission.Update, resource: core("persistentvolumeclaims"), old: held, now: plain, options: &metav1.UpdateOptions{}},
		"kubelet renews its lease":                       {who: kubelet, operation: admission.Update, resource: schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, old: plain, now: plain, options: &metav1.UpdateOptions{}},
		"status update":                                  {who: person, operation: admission.Update, resource: kialis, subresource: "status", old: held, now: plain, options: &metav1.UpdateOptions{}},
		"person updates object with null finalizers":     {who: person, operation: admission.Update, resource: kialis, old: null, now: null, options: &metav1.UpdateOptions{}},
		"person removes null for finalizers":             {who: person, operation: admission.Update, resource: kialis, old: null, now: plain, options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"person removes an empty list of finalizers":     {who: person, operation: admission.Update, resource: kialis, old: object("finalizers", []any{}), now: plain, options: &metav1.UpdateOptions{}},
		"person reorders finalizers":                     {who: person, operation: admission.Update, resource: kialis, old: object("finalizers", []any{"a/b", "c/d"}), now: object("finalizers", []any{"c/d", "a/b"}), options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"user without groups removes finalizer":          {who: &user.DefaultInfo{Name: "ann"}, operation: admission.Update, resource: kialis, old: held, now: plain, options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"kubelet removes finalizer":                      {who: kubelet, operation: admission.Update, resource: core("pods"), old: held, now: plain, options: &metav1.UpdateOptions{}},
		"kubelet's lookalike removes finalizer":          {who: &user.DefaultInfo{Name: "system:node:n1"}, operation: admission.Update, resource: core("pods"), old: held, now: plain, options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"controller manager removes finalizer":           {who: controllerManager, operation: admission.Update, resource: core("pods"), old: held, now: plain, options: &metav1.UpdateOptions{}},
		"termguard removes finalizer":                    {who: termguard, operation: admission.Update, resource: kialis, old: held, now: plain, options: &metav1.UpdateOptions{}},
		"termguard of another namespace removes it":      {who: account("team", "termguard"), operation: admission.Update, resource: kialis, old: held, now: plain, options: &metav1.UpdateOptions{}, want: []string{onEdit}},
		"termguard finalizes namespace":                  {who: termguard, operation: admission.Update, resource: core("namespaces"), subresource: "finalize", old: dying, now: dying, options: &metav1.UpdateOptions{}},
		"person finalizes namespace":                     {who: person, operation: admission.Update, resource: core("namespaces"), subresource: "finalize", old: dying, now: dying, options: &metav1.UpdateOptions{}, want: []string{onFinalize}},
		"namespace controller finalizes namespace":       {who: namespaceController, operation: admission.Update, resource: core("namespaces"), subresource: "finalize", old: dying, now: dying, options: &metav1.UpdateOptions{}},
		"namespace controller updates namespace status":  {who: namespaceController, operation: admission.Update, resource: core("namespaces"), subresource: "status", old: dying, now: dying, options: &metav1.UpdateOptions{}},
		"person updates namespace without finalizers":    {who: person, operation: admission.Update, resource: core("namespaces"), old: plain, now: labelled, options: &metav1.UpdateOptions{}},
		"person takes finalizer from namespace metadata": {who: person, operation: admission.Update, resource: core("namespaces"), old: dying, now: object("deletionTimestamp", "2026-11-21T07:00:00Z"), options: &metav1.UpdateOptions{}, want: []string{onEdit}},
	}
	configuration := find[*admissionv1.ValidatingWebhookConfiguration](t, manifests(t, base))
	compiler := admissioncel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	matchers := map[string]matchconditions.Matcher{}
	fail := admissionv1.Fail // an expression that fails must not count as no match
	for _, w := range configuration.Webhooks {
		var conditions []admissioncel.ExpressionAccessor
		for _, c := range w.MatchConditions {
			conditions = append(conditions, (*matchconditions.MatchCondition)(&c))
		}
		matchers[w.Name] = matchconditions.NewMatcher(
			compiler.CompileCondition(conditions, admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions),
			&fail, "webhook", "validating", w.Name)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.options == nil {
				tc.options = &metav1.DeleteOptions{}
			}
			if tc.options == noOptions {
				tc.options = nil
			}
			kind := schema.GroupVersionKind{Group: tc.resource.Group, Version: tc.resource.Version, Kind: "X"}
			attributes := admission.NewAttributesRecord(orNil(tc.now), orNil(tc.old), kind, "demo", "x", tc.resource, tc.subresource, tc.operation, tc.options, false, tc.who)
			versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(orNil(tc.now)), VersionedOldObject: admission.NewLazyObject(orNil(tc.old))}
			var got []string
			for _, w := range configuration.Webhooks {
				if !slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool {
					matcher := rules.Matcher{Rule: r, Attr: attributes}
					return matcher.Matches()
				}) {
					continue
				}
				result := matchers[w.Name].Match(context.Background(), versioned, nil, nil)
				if result.Error != nil {
					t.Errorf("%s: %v", w.Name, result.Error)
				}
				if result.Matches {
					got = append(got, w.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("webhooks called: -want, +got:\n%s", diff)
			}
		})
	}
	if want := slices.Sorted(maps.Keys(matchers)); !slices.Equal(want, []string{onDelete, onFinalize, onEdit}) {
		t.Errorf("webhooks: %q", want)
	}
}

var noOptions runtime.Object = &metav1.Status{}

// orNil returns nil for a nil pointer, which would otherwise become a non-nil interface.
func orNil(u *unstructured.Unstructured) runtime.Object {
	if u == nil {
		return nil
	}
	return u
}

// TestHeadlampLock checks that every package of the Headlamp plugin is pinned by hash.
func TestHeadlampLock(t *testing.T) {
	text, err := os.ReadFile("headlamp/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Resolved, Integrity string
			Link, InBundle      bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	if len(lock.Packages) < 100 {
		t.Errorf("only %d packages are locked", len(lock.Packages))
	}
	for name, p := range lock.Packages {
		if p.Resolved != "" || name != "" && !p.Link && !p.InBundle && p.Integrity == "" {
			t.Errorf("%q: resolved %q, integrity %q: run npm install with deploy/headlamp/.npmrc", name, p.Resolved, p.Integrity)
		}
	}
}
