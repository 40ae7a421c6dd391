// Package doctor checks an installation of termguard: the installed objects, whether the API server reaches
// the webhook, and whether the users' configuration is in effect.
package doctor

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// Options locate the installation.
type Options struct {
	Namespace     string // termguard's
	Configuration string // name of the ValidatingWebhookConfiguration
	// Version is the caller's, to detect replicas of other versions. Defaults to unknown.
	Version string
	// Now returns the time, for certificates. Defaults to time.Now.
	Now func() time.Time
}

// Result is the outcome of a check.
type Result string

const (
	OK      Result = "ok"
	Warning Result = "warning" // works, but needs attention
	Failed  Result = "failed"
	Unseen  Result = "unseen" // could not be checked
)

// Check is the result of one check.
type Check struct {
	Name   string   `json:"name"` // as in docs/doctor.md
	Result Result   `json:"result"`
	Says   string   `json:"says"`           // what was found
	Also   []string `json:"also,omitempty"` // details
	Do     string   `json:"do,omitempty"`   // the next step
	More   string   `json:"more,omitempty"` // URL of its documentation
}

// Report is the output of termguard doctor -o json.
type Report struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Healthy    bool    `json:"healthy"` // replicas answer and no check failed
	Checks     []Check `json:"checks"`
}

const pageURL = "https://github.com/termguard/termguard/blob/main/docs/doctor.md#"

const (
	minVersion    = "1.30"              // first version with every field of the webhook's configuration
	caWarning     = 14 * 24 * time.Hour // the embedded authority is renewed after two thirds of a year
	leafWarning   = 24 * time.Hour      // the embedded certificate is renewed after two thirds of a week
	maxNamespaces = 10                  // namespaces listed for their labels
	pageSize      = 500
	attempts      = 3 // attempts while no replica answers within the second that the API server waits
)

type examination struct {
	Options
	client   kubernetes.Interface
	warnings *warnings // warnings of the API server
	report   Report

	hooks          *admissionregistrationv1.ValidatingWebhookConfiguration // nil if absent or not readable
	status         webhook.Status
	hasStatus      bool
	neverRan       bool     // no pod has run yet, so there are no logs
	customPolicies []string // ids of the policies that are not built in
}

type warnings struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (t *warnings) HandleWarningHeader(_ int, _, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, text)
}

func (t *warnings) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	return lines
}

// Examine checks the installation in a cluster. It only reads, except for one dry run. It fails only if the
// cluster does not answer at all.
func Examine(ctx context.Context, cluster *rest.Config, options Options) (Report, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	cluster = rest.CopyConfig(cluster)
	e := &examination{Options: options, warnings: &warnings{}, report: Report{APIVersion: "termguard.dev/v1", Kind: "Doctor", Checks: []Check{}}}
	cluster.WarningHandler, cluster.WarningHandlerWithContext = e.warnings, nil
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return e.report, fmt.Errorf("connect: %w", err)
	}
	e.client = client
	serverVersion, err := client.Discovery().ServerVersion()
	if err != nil {
		return e.report, fmt.Errorf("ask the API server for its version: %w", err)
	}
	e.checkAPIServer(serverVersion.GitVersion)
	if e.notInstalled(ctx) {
		return e.report, nil
	}
	for _, check := range []func(context.Context){e.checkInstalled, e.checkReachable, e.checkReplicas, e.checkCertificate, e.checkFacts, e.checkPolicies, e.checkConfiguration, e.checkLabels, e.checkFailOpen} {
		check(ctx)
		if err := ctx.Err(); err != nil {
			return e.report, err
		}
	}
	e.report.Healthy = e.hasStatus && !slices.ContainsFunc(e.report.Checks, func(c Check) bool { return c.Result == Failed })
	return e.report, nil
}

func (e *examination) add(c Check) {
	if c.Result != OK {
		c.More = pageURL + c.Name
	}
	e.report.Checks = append(e.report.Checks, c)
}

// addUnreadable reports that something could not be read.
func (e *examination) addUnreadable(name, what, verb, resource string, err error) {
	c := Check{Name: name, Result: Unseen, Says: fmt.Sprintf("%s cannot be read: %v", what, err)}
	if apierrors.IsForbidden(err) {
		c.Says = what + " may not be read by you"
		c.Do = fmt.Sprintf("ask for the verb %s on %s", verb, resource)
	}
	e.add(c)
}

func (e *examination) checkAPIServer(gitVersion string) {
	c := Check{Name: "api-server", Result: OK, Says: gitVersion}
	if v, err := version.ParseGeneric(gitVersion); err == nil && v.LessThan(version.MustParseGeneric(minVersion)) {
		c.Result, c.Says, c.Do = Failed, fmt.Sprintf("%s is older than %s", gitVersion, minVersion), "upgrade the cluster"
	}
	e.add(c)
}

// notInstalled reports whether neither the webhook nor the workload exists; if so, that is the only check in
// the report.
func (e *examination) notInstalled(ctx context.Context) bool {
	_, err := e.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, e.Configuration, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return false
	}
	if _, err = e.client.AppsV1().Deployments(e.Namespace).Get(ctx, "termguard", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return false
	}
	e.report.Checks = []Check{{Name: "installed", Result: Failed, Says: fmt.Sprintf("termguard is not installed in this cluster: there is no ValidatingWebhookConfiguration %s and no Deployment termguard in namespace %s; docs/install.md tells how, and check, scan and delete need nothing installed", e.Configuration, e.Namespace)}}
	return true
}

// hookNames are the webhooks of the configuration in deploy/.
var hookNames = []string{"delete.termguard.dev", "finalizer-edit.termguard.dev", "finalize.termguard.dev"}

func (e *examination) checkInstalled(ctx context.Context) {
	const name, install = "installed", "install termguard, as docs/install.md says"
	hooks, err := e.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, e.Configuration, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(Check{Name: name, Result: Failed, Says: fmt.Sprintf("there is no ValidatingWebhookConfiguration %s, so the API server does not ask termguard", e.Configuration), Do: install})
		return
	case err != nil:
		e.addUnreadable(name, "ValidatingWebhookConfiguration "+e.Configuration, "get", "validatingwebhookconfigurations", err)
		return
	}
	e.hooks = hooks
	missing := slices.Clone(hookNames)
	var foreign []string
	for _, h := range hooks.Webhooks {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == h.Name })
		if s := h.ClientConfig.Service; s == nil || s.Namespace != e.Namespace {
			foreign = append(foreign, h.Name)
		}
	}
	c := Check{Name: name, Result: OK, Says: fmt.Sprintf("%d webhooks call Service %s in namespace %s", len(hooks.Webhooks), e.service(), e.Namespace)}
	switch {
	case len(missing) > 0:
		c.Result, c.Says, c.Do = Failed, fmt.Sprintf("ValidatingWebhookConfiguration %s has no webhook %s", e.Configuration, strings.Join(missing, ", ")), "apply the manifests of your version again"
	case len(foreign) > 0:
		c.Result, c.Says, c.Do = Failed, fmt.Sprintf("%s does not call a Service in namespace %s", strings.Join(foreign, ", "), e.Namespace), "name the namespace that termguard runs in: --namespace"
	}
	e.add(c)
}

// service returns the name of the Service that the API server calls.
func (e *examination) service() string {
	if e.hooks != nil {
		for _, h := range e.hooks.Webhooks {
			if h.ClientConfig.Service != nil {
				return h.ClientConfig.Service.Name
			}
		}
	}
	return "termguard"
}

func (e *examination) checkReplicas(ctx context.Context) {
	const name = "replicas"
	deployment, err := e.client.AppsV1().Deployments(e.Namespace).Get(ctx, "termguard", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(Check{Name: name, Result: Failed, Says: fmt.Sprintf("there is no Deployment termguard in namespace %s", e.Namespace), Do: "install termguard, or name its namespace: --namespace"})
		return
	case err != nil:
		e.addUnreadable(name, "Deployment termguard", "get", "deployments in namespace "+e.Namespace, err)
		return
	}
	selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
	pods, err := e.client.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		e.addUnreadable(name, "pods of Deployment termguard", "list", "pods in namespace "+e.Namespace, err)
		return
	}
	e.neverRan = !slices.ContainsFunc(pods.Items, hasRun)
	e.add(e.newReplicasCheck(deployment, pods.Items))
}

// newReplicasCheck reports how many replicas are ready, and their versions.
func (e *examination) newReplicasCheck(deployment *appsv1.Deployment, pods []corev1.Pod) Check {
	desired, ready := int32(1), deployment.Status.ReadyReplicas
	if deployment.Spec.Replicas != nil {
		desired = *deployment.Spec.Replicas
	}
	images := map[string]bool{}
	var problems []string
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		for _, container := range pod.Spec.Containers {
			images[container.Image] = true
		}
		if why := notReadyReason(pod); why != "" {
			if age := e.Now().Sub(pod.CreationTimestamp.Time); !pod.CreationTimestamp.IsZero() && age < startupTime {
				why += fmt.Sprintf(" (made %d s ago)", int(max(0, age.Seconds())))
			}
			problems = append(problems, fmt.Sprintf("pod %s: %s", pod.Name, why))
		}
	}
	c := Check{Name: "replicas", Result: OK, Says: fmt.Sprintf("%d of %d are ready", ready, desired), Also: problems}
	if len(images) == 1 {
		c.Says += ", all of " + slices.Collect(maps.Keys(images))[0]
	}
	switch {
	case ready == 0 && !e.hasStatus:
		c.Result, c.Do = Failed, "kubectl -n "+e.Namespace+" describe pods -l app.kubernetes.io/name=termguard"
	case ready < desired:
		c.Result, c.Do = Warning, "kubectl -n "+e.Namespace+" rollout status deployment/termguard"
	case len(images) > 1:
		c.Result, c.Says, c.Do = Warning, c.Says+", of several versions: "+strings.Join(slices.Sorted(maps.Keys(images)), ", "), "wait for the rollout: kubectl -n "+e.Namespace+" rollout status deployment/termguard"
	case desired < 2:
		c.Result, c.Says, c.Do = Warning, c.Says+": while it restarts, nothing is checked", "run two replicas"
	}
	return c
}

// startupTime is the age up to which a pod that is not ready may still be starting.
const startupTime = 2 * time.Minute

// hasRun reports whether a container of the pod ever ran, and so may have a log.
func hasRun(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning || slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
	})
}

// notReadyReason returns why a pod is not ready, "" if it is.
func notReadyReason(pod corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return strings.TrimSuffix("not scheduled yet: "+c.Message, ": ")
		}
	}
	if pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName == "" {
		return "not scheduled yet"
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Message != "" {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	return "not ready"
}

// checkReachable requests the status by the path that reviews take.
func (e *examination) checkReachable(ctx context.Context) {
	const name = "reachable"
	if e.hooks == nil {
		e.add(Check{Name: name, Result: Unseen, Says: "not tried, as the webhooks cannot be read"})
		return
	}
	patch := fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, webhook.StatusFinalizer)
	for range attempts {
		e.warnings.take()
		_, err := e.client.CoreV1().Services(e.Namespace).Patch(ctx, e.service(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case apierrors.IsNotFound(err):
			e.add(Check{Name: name, Result: Failed, Says: fmt.Sprintf("there is no Service %s in namespace %s, so the API server cannot reach termguard", e.service(), e.Namespace), Do: "apply the manifests of your version again"})
			return
		case apierrors.IsForbidden(err):
			e.addUnreadable(name, "the answer of termguard", "patch", "services in namespace "+e.Namespace+"; it is asked by a dry run", err)
			return
		case err != nil:
			e.add(Check{Name: name, Result: Failed, Says: fmt.Sprintf("a dry run in namespace %s fails: %v", e.Namespace, err)})
			return
		}
		if e.status, e.hasStatus = webhook.ParseStatus(e.warnings.take()); e.hasStatus {
			break
		}
	}
	if !e.hasStatus {
		e.add(Check{
			Name: name, Result: Failed, Says: "the API server asked, and got no answer: deletes are let through unchecked",
			Do: "look at the checks beside this one; then at the log: kubectl -n " + e.Namespace + " logs -l app.kubernetes.io/name=termguard",
		})
		return
	}
	c := Check{Name: name, Result: OK, Says: fmt.Sprintf("replica %s, version %s, answered", e.status.Replica, e.status.Version)}
	if e.Version != "" && e.Version != e.status.Version {
		c.Says += fmt.Sprintf(" (you run %s)", e.Version)
	}
	e.add(c)
}

func (e *examination) checkCertificate(context.Context) {
	const name = "certificate"
	if e.hooks == nil {
		e.add(Check{Name: name, Result: Unseen, Says: "the webhooks cannot be read"})
		return
	}
	c := Check{Name: name, Result: OK}
	until, err := trustedUntil(e.hooks.Webhooks)
	now := e.Now()
	switch {
	case err != nil:
		c.Result, c.Says, c.Do = Failed, err.Error(), "kubectl -n "+e.Namespace+" logs -l app.kubernetes.io/name=termguard: it tells why the caBundle was not written"
		if e.neverRan {
			c.Do = "see to the pods first (replicas, above): termguard writes the caBundle once it runs, and no pod has run yet"
		}
	case until.Before(now):
		c.Result, c.Says, c.Do = Failed, "the authority in the caBundle ended "+day(until), "restart termguard: kubectl -n "+e.Namespace+" rollout restart deployment/termguard"
	default:
		c.Says = "the authority holds until " + day(until)
		if until.Sub(now) < caWarning {
			c.Result, c.Do = Warning, "it is renewed by itself; if it is not, look at the log"
		}
	}
	if leaf := e.status.CertificateUntil; e.hasStatus && !leaf.IsZero() {
		c.Says += ", the certificate until " + day(leaf)
		if c.Result == OK && leaf.Sub(now) < leafWarning {
			c.Result, c.Do = Warning, "it is renewed by itself; if it is not, look at the log"
		}
	}
	e.add(c)
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// trustedUntil returns when the first of the webhooks stops trusting any authority.
func trustedUntil(hooks []admissionregistrationv1.ValidatingWebhook) (until time.Time, err error) {
	for _, h := range hooks {
		if len(h.ClientConfig.CABundle) == 0 {
			return until, fmt.Errorf("the caBundle of webhook %s is empty: the API server trusts no certificate", h.Name)
		}
		var last time.Time // one valid authority is enough
		for rest := h.ClientConfig.CABundle; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return until, fmt.Errorf("the caBundle of webhook %s: %w", h.Name, err)
			}
			if certificate.NotAfter.After(last) {
				last = certificate.NotAfter
			}
		}
		if last.IsZero() {
			return until, fmt.Errorf("the caBundle of webhook %s holds no certificate", h.Name)
		}
		if until.IsZero() || last.Before(until) {
			until = last
		}
	}
	if until.IsZero() {
		err = errors.New("there is no webhook")
	}
	return until, err
}

// addNoStatus reports that no replica answered, for checks that need one.
func (e *examination) addNoStatus(name string) bool {
	if !e.hasStatus {
		e.add(Check{Name: name, Result: Unseen, Says: "only a replica knows, and none answered"})
	}
	return !e.hasStatus
}

func (e *examination) checkFacts(context.Context) {
	const name = "facts"
	if e.addNoStatus(name) {
		return
	}
	switch {
	case e.status.Facts != "":
		e.add(Check{Name: name, Result: Failed, Says: e.status.Facts + ": deletes are let through unchecked until it is done", Do: "wait; if it does not end, look at the log: kubectl -n " + e.Namespace + " logs -l app.kubernetes.io/name=termguard"})
	case len(e.status.Unseen) > 0:
		e.add(Check{Name: name, Result: Warning, Says: "not all of the cluster is seen: where it matters, the answer is unknown", Also: e.status.Unseen, Do: "forbidden: grant list and watch; discovery or error: see what serves that API, kubectl get apiservices"})
	default:
		e.add(Check{Name: name, Result: OK, Says: "complete"})
	}
}

func (e *examination) checkPolicies(ctx context.Context) {
	const name = "policies"
	elsewhere, err := e.client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: config.PolicyLabel, Limit: pageSize})
	var ignored []string
	if err == nil {
		for _, cm := range elsewhere.Items {
			if cm.Namespace != e.Namespace {
				ignored = append(ignored, fmt.Sprintf("configmap %s/%s has the label %s and is not read: only those in %s are", cm.Namespace, cm.Name, config.PolicyLabel, e.Namespace))
			}
		}
	}
	if e.addNoStatus(name) {
		return
	}
	e.customPolicies = e.status.CustomPolicies
	c := Check{Name: name, Result: OK, Says: fmt.Sprintf("%d are in force, %d of them your own", e.status.Policies, len(e.customPolicies))}
	var refused []string
	for _, r := range e.status.Rejections {
		if !strings.HasPrefix(r, "configuration:") {
			refused = append(refused, r)
		}
	}
	switch {
	case len(refused) > 0:
		c.Result, c.Says, c.Also, c.Do = Failed, fmt.Sprintf("%d sources are refused; what was in force before stays", len(refused)), refused, "mend them; termguard policy test FOLDER says the same before they are in the cluster"
	case len(ignored) > 0:
		c.Result, c.Says, c.Also, c.Do = Warning, c.Says+"; some are not read", ignored, "move them to namespace "+e.Namespace
	}
	e.add(c)
}

func (e *examination) checkConfiguration(ctx context.Context) {
	const name = "configuration"
	if e.addNoStatus(name) {
		return
	}
	for _, r := range e.status.Rejections {
		if why, ours := strings.CutPrefix(r, "configuration:"); ours {
			e.add(Check{Name: name, Result: Failed, Says: "not all that is written is in force: " + strings.TrimSpace(why), Do: "mend ConfigMap termguard-config, or the values of the chart"})
			return
		}
	}
	cm, err := e.client.CoreV1().ConfigMaps(e.Namespace).Get(ctx, "termguard-config", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		e.addUnreadable(name, "ConfigMap termguard-config", "get", "configmaps in namespace "+e.Namespace, err)
		return
	}
	text, has := cm.Data["config.yaml"]
	fingerprint := ""
	if has {
		fingerprint = webhook.Fingerprint(sha256.Sum256([]byte(text)))
	}
	switch {
	case err == nil && !has:
		e.add(Check{Name: name, Result: Failed, Says: "ConfigMap termguard-config has no key config.yaml, so nothing of it is in force", Do: "move what it says to the key config.yaml"})
	case fingerprint != e.status.Configuration:
		e.add(Check{Name: name, Result: Warning, Says: "ConfigMap termguard-config says something else than what is in force", Do: "wait: the kubelet brings a change within a minute or so; then ask again"})
	case !has:
		e.add(Check{Name: name, Result: OK, Says: "there is no ConfigMap termguard-config: the defaults are in force"})
	default:
		e.add(Check{Name: name, Result: OK, Says: "ConfigMap termguard-config is in force"})
	}
}

// checkLabels finds labels and annotations of namespaces that have no effect.
func (e *examination) checkLabels(ctx context.Context) {
	const name = "labels"
	embedded, err := policies.Load(policies.Embedded())
	if err != nil {
		e.add(Check{Name: name, Result: Unseen, Says: err.Error()})
		return
	}
	// Only a replica knows the policies that are not built in; if its list is truncated, any label may be
	// valid.
	var ids []string
	if cut := len(e.customPolicies) > 0 && strings.HasSuffix(e.customPolicies[len(e.customPolicies)-1], "…"); e.hasStatus && !cut {
		ids = append(embedded.IDs(), e.customPolicies...)
	}
	var wrong []string
	for next := ""; ; {
		list, err := e.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if err != nil {
			e.addUnreadable(name, "the labels of namespaces", "list", "namespaces", err)
			return
		}
		for _, ns := range list.Items {
			for _, what := range misspelt(ns.ObjectMeta, ids) {
				wrong = append(wrong, "namespace "+ns.Name+": "+what)
			}
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	if len(wrong) == 0 {
		e.add(Check{Name: name, Result: OK, Says: "no label or annotation of a namespace is misspelt"})
		return
	}
	c := Check{Name: name, Result: Failed, Says: fmt.Sprintf("%d labels or annotations of namespaces have no effect", len(wrong)), Also: wrong[:min(maxNamespaces, len(wrong))], Do: "mend them: kubectl label namespace NAME WRONG- RIGHT=MODE"}
	if n := len(wrong) - maxNamespaces; n > 0 {
		c.Also = append(c.Also, fmt.Sprintf("and %d more", n))
	}
	e.add(c)
}

// misspelt lists the labels and annotations of an object that have no effect.
func misspelt(o metav1.ObjectMeta, ids []string) []string {
	wrong := config.Misspelt(o.Labels, ids)
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		if strings.HasPrefix(key, "termguard.dev/") && !config.IsEnforceLabel(key) {
			wrong = append(wrong, fmt.Sprintf("label %s is ignored: want %s, or %s.POLICY", key, config.EnforceLabel, config.EnforceLabel))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.Annotations)) {
		switch {
		case config.IsEnforceLabel(key):
			wrong = append(wrong, fmt.Sprintf("annotation %s is ignored: it has to be a label", key))
		case strings.HasPrefix(key, "termguard.dev/") && key != webhook.AllowAnnotation && key != "termguard.dev/finalizer-owner":
			wrong = append(wrong, fmt.Sprintf("annotation %s is ignored: want %s or termguard.dev/finalizer-owner", key, webhook.AllowAnnotation))
		}
	}
	return wrong
}

// checkFailOpen reads how often the API server let a request through because the webhook failed.
func (e *examination) checkFailOpen(ctx context.Context) {
	const name = "unasked"
	text, err := e.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		e.addUnreadable(name, "the API server's metrics", "get", "the non-resource URL /metrics", err)
		return
	}
	total := 0.0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "apiserver_admission_webhook_fail_open_count{") || !strings.Contains(line, ".termguard.dev\"") {
			continue
		}
		fields := strings.Fields(line)
		if n, err := strconv.ParseFloat(fields[len(fields)-1], 64); err == nil {
			total += n
		}
	}
	if total == 0 {
		e.add(Check{Name: name, Result: OK, Says: "this API server got an answer to every question since it started"})
		return
	}
	e.add(Check{Name: name, Result: Warning, Says: fmt.Sprintf("this API server let %.0f requests through without an answer since it started", total), Do: "watch the metric apiserver_admission_webhook_fail_open_count; the alert TermguardUnchecked does"})
}
