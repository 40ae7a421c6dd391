// Package doctor checks an installation of termguard.
package doctor

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// Options locate the installation.
type Options struct {
	Namespace     string // termguard's
	Configuration string // name of the ValidatingWebhookConfiguration
	// Version is the caller's, to detect replicas of other versions; "" if unknown.
	Version string
	// Now defaults to time.Now.
	Now func() time.Time
}

// Result is the outcome of a check.
type Result string

const (
	OK      Result = "ok"
	Warning Result = "warning" // works, but needs attention
	Failed  Result = "failed"
	Unseen  Result = "unseen"
)

// Check is the result of one check.
type Check struct {
	Name   string   `json:"name"` // as in docs/doctor.md
	Result Result   `json:"result"`
	Says   string   `json:"says"`           // what was found
	Also   []string `json:"also,omitempty"` // details
	Do     string   `json:"do,omitempty"`   // the next step
	More   string   `json:"more,omitempty"` // URL
}

// Report is the output of termguard doctor -o json.
type Report struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Healthy    bool    `json:"healthy"` // replicas answer and no check failed
	Checks     []Check `json:"checks"`
}

var tones = map[Result]page.Tone{OK: page.Good, Warning: page.Doubtful, Failed: page.Bad, Unseen: page.Doubtful}

// Page is the report for people.
func (r Report) Page() *page.Page {
	var p page.Page
	if len(r.Checks) == 1 { // not installed
		p.Line("%s", r.Checks[0].Says)
		return &p
	}
	failures := 0
	for _, c := range r.Checks {
		if c.Result == Failed {
			failures++
		}
		p.Marked(string(c.Result), tones[c.Result], fmt.Sprintf("%*s %-14s ", 8-len(c.Result), "", c.Name), c.Says)
		below := func(label, text string) { p.Item(strings.Repeat(" ", 24)+label, "%s", text) }
		for _, more := range c.Also {
			below("- ", more)
		}
		if c.Do != "" {
			below("next: ", c.Do)
		}
		if c.More != "" && c.Result != Unseen {
			below("more: ", c.More)
		}
	}
	p.Blank()
	switch {
	case failures > 0:
		p.Line("%d of %d checks failed", failures, len(r.Checks))
	case !r.Healthy:
		p.Line("unseen: whether termguard works")
	default:
		p.Line("termguard works")
	}
	return &p
}

const pageURL = "https://github.com/termguard/termguard/blob/main/docs/doctor.md#"

const (
	minVersion    = "1.30"              // the first with every field of the webhook's configuration
	caWarning     = 14 * 24 * time.Hour // renewed after two thirds of a year
	leafWarning   = 24 * time.Hour      // renewed after two thirds of a week
	maxNamespaces = 10                  // listed for their labels
	pageSize      = 500
	attempts      = 3 // each waits one second, as the API server does
)

type examination struct {
	Options
	client   kubernetes.Interface
	warnings warnings
	server   *apimachineryversion.Info

	// Or why it is unknown.
	hooks         *admissionregistrationv1.ValidatingWebhookConfiguration
	deployment    *appsv1.Deployment
	hooksErr      error
	deploymentErr error

	status         *webhook.Status // nil if no replica answered
	neverRan       bool            // so there are no logs
	customPolicies []string
}

// warnings needs no lock: requests are sent one after another.
type warnings []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// Examine only reads, except for one dry run, and fails only if the cluster does not answer at all.
func Examine(ctx context.Context, cluster *rest.Config, options Options) (Report, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	report := Report{APIVersion: "termguard.dev/v1", Kind: "Doctor", Checks: []Check{}}
	e := &examination{Options: options}
	cluster = rest.CopyConfig(cluster)
	cluster.WarningHandler, cluster.WarningHandlerWithContext = &e.warnings, nil
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return report, fmt.Errorf("connect: %w", err)
	}
	e.client = client
	if e.server, err = client.Discovery().ServerVersion(); err != nil {
		return report, fmt.Errorf("read the version of the API server: %w", err)
	}
	e.readInstalled(ctx)
	if apierrors.IsNotFound(e.hooksErr) && apierrors.IsNotFound(e.deploymentErr) {
		report.Checks = append(report.Checks, Check{Name: "installed", Result: Failed, Says: fmt.Sprintf("termguard is not installed in this cluster: ValidatingWebhookConfiguration %s not found, and Deployment termguard not found in namespace %s; docs/install.md shows how to install it, and check, scan and delete need nothing installed", e.Configuration, e.Namespace)})
		return report, nil
	}
	report.Checks = slices.Collect(e.run(ctx))
	report.Healthy = e.status != nil && !slices.ContainsFunc(report.Checks, func(c Check) bool { return c.Result == Failed })
	return report, ctx.Err()
}

func (e *examination) readInstalled(ctx context.Context) {
	e.hooks, e.hooksErr = e.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, e.Configuration, metav1.GetOptions{})
	e.deployment, e.deploymentErr = e.client.AppsV1().Deployments(e.Namespace).Get(ctx, "termguard", metav1.GetOptions{})
}

// run runs the checks in their order: some use results of earlier ones.
func (e *examination) run(ctx context.Context) iter.Seq[Check] {
	checks := []struct {
		name string
		run  func(context.Context) Check
	}{
		{"api-server", e.checkAPIServer},
		{"installed", e.checkInstalled},
		{"reachable", e.checkReachable},
		{"replicas", e.checkReplicas},
		{"certificate", e.checkCertificate},
		{"facts", e.checkFacts},
		{"policies", e.checkPolicies},
		{"configuration", e.checkConfiguration},
		{"labels", e.checkLabels},
		{"unasked", e.checkFailOpen},
	}
	return func(yield func(Check) bool) {
		for _, check := range checks {
			result := check.run(ctx)
			if result.Name = check.name; result.Result != OK {
				result.More = pageURL + check.name
			}
			if !yield(result) {
				return
			}
		}
	}
}

func ok(format string, args ...any) Check {
	return Check{Result: OK, Says: fmt.Sprintf(format, args...)}
}

func warning(do, format string, args ...any) Check {
	return Check{Result: Warning, Says: fmt.Sprintf(format, args...), Do: do}
}

func failed(do, format string, args ...any) Check {
	return Check{Result: Failed, Says: fmt.Sprintf(format, args...), Do: do}
}

func unseen(why string) Check { return Check{Result: Unseen, Says: why} }

func unreadable(what, verb, resource string, err error) Check {
	if apierrors.IsForbidden(err) {
		return Check{Result: Unseen, Says: "you may not read " + what, Do: fmt.Sprintf("request the verb %s on %s", verb, resource)}
	}
	return unseen(fmt.Sprintf("%s cannot be read: %v", what, err))
}

var noStatus = unseen("no replica answered")

func (e *examination) kubectl(command string) string {
	return "kubectl -n " + e.Namespace + " " + command
}

func (e *examination) logs() string { return e.kubectl("logs -l app.kubernetes.io/name=termguard") }

func (e *examination) checkAPIServer(context.Context) Check {
	if v, err := version.ParseGeneric(e.server.GitVersion); err == nil && v.LessThan(version.MustParseGeneric(minVersion)) {
		return failed("upgrade the cluster", "%s is older than %s", e.server, minVersion)
	}
	return ok("%s", e.server)
}

// hookNames are in deploy/.
var hookNames = []string{"delete.termguard.dev", "finalizer-edit.termguard.dev", "finalize.termguard.dev"}

func (e *examination) checkInstalled(context.Context) Check {
	switch {
	case apierrors.IsNotFound(e.hooksErr):
		return failed("install termguard: docs/install.md", "ValidatingWebhookConfiguration %s not found: the API server does not call termguard", e.Configuration)
	case e.hooksErr != nil:
		return unreadable("ValidatingWebhookConfiguration "+e.Configuration, "get", "validatingwebhookconfigurations", e.hooksErr)
	}
	missing := slices.Clone(hookNames)
	var foreign []string
	for _, h := range e.hooks.Webhooks {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == h.Name })
		if s := h.ClientConfig.Service; s == nil || s.Namespace != e.Namespace {
			foreign = append(foreign, h.Name)
		}
	}
	switch {
	case len(missing) > 0:
		return failed("apply the manifests of your version again", "ValidatingWebhookConfiguration %s has no webhook %s", e.Configuration, strings.Join(missing, ", "))
	case len(foreign) > 0:
		return failed("name the namespace that termguard runs in: --namespace", "%s does not call a Service in namespace %s", strings.Join(foreign, ", "), e.Namespace)
	}
	return ok("%d webhooks call Service %s in namespace %s", len(e.hooks.Webhooks), e.service(), e.Namespace)
}

func (e *examination) service() string {
	for _, h := range e.hooks.Webhooks {
		if h.ClientConfig.Service != nil {
			return h.ClientConfig.Service.Name
		}
	}
	return "termguard"
}

func (e *examination) checkReplicas(ctx context.Context) Check {
	switch {
	case apierrors.IsNotFound(e.deploymentErr):
		return failed("install termguard, or name its namespace: --namespace", "Deployment termguard not found in namespace %s", e.Namespace)
	case e.deploymentErr != nil:
		return unreadable("Deployment termguard", "get", "deployments in namespace "+e.Namespace, e.deploymentErr)
	}
	selector := metav1.FormatLabelSelector(e.deployment.Spec.Selector)
	pods, err := e.client.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return unreadable("pods of Deployment termguard", "list", "pods in namespace "+e.Namespace, err)
	}
	e.neverRan = !slices.ContainsFunc(pods.Items, hasRun)
	desired, ready := int32(1), e.deployment.Status.ReadyReplicas
	if e.deployment.Spec.Replicas != nil {
		desired = *e.deployment.Spec.Replicas
	}
	images := map[string]bool{}
	var problems []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		for _, container := range pod.Spec.Containers {
			images[container.Image] = true
		}
		if why := notReadyReason(pod); why != "" {
			if age := e.Now().Sub(pod.CreationTimestamp.Time); !pod.CreationTimestamp.IsZero() && age < startupTime {
				why += fmt.Sprintf(" (created %d s ago)", int(max(0, age.Seconds())))
			}
			problems = append(problems, fmt.Sprintf("pod %s: %s", pod.Name, why))
		}
	}
	all := slices.Sorted(maps.Keys(images))
	c := ok("%d of %d are ready", ready, desired)
	c.Also = problems
	if len(all) == 1 {
		c.Says += ", all of " + all[0]
	}
	switch {
	case ready == 0 && e.status == nil:
		c.Result, c.Do = Failed, e.kubectl("describe pods -l app.kubernetes.io/name=termguard")
	case ready < desired:
		c.Result, c.Do = Warning, e.kubectl("rollout status deployment/termguard")
	case len(all) > 1:
		c.Result, c.Says, c.Do = Warning, c.Says+", of several versions: "+strings.Join(all, ", "), "wait for the rollout: "+e.kubectl("rollout status deployment/termguard")
	case desired < 2:
		c.Result, c.Says, c.Do = Warning, c.Says+": while it restarts, requests are allowed unchecked", "run two replicas"
	}
	return c
}

const startupTime = 2 * time.Minute

func hasRun(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning || slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
	})
}

func notReadyReason(pod corev1.Pod) string {
	reason := func(reason, message string) string { return strings.TrimSuffix(reason+": "+message, ": ") }
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return reason("not scheduled yet", c.Message)
		}
	}
	if pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName == "" {
		return "not scheduled yet"
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return reason(w.Reason, w.Message)
		}
	}
	why := "not ready"
	for _, c := range slices.Backward(pod.Status.Conditions) {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return ""
		case c.Status != corev1.ConditionTrue && c.Message != "":
			why = reason(c.Reason, c.Message)
		}
	}
	return why
}

// checkReachable requests the status by the path of a review.
func (e *examination) checkReachable(ctx context.Context) Check {
	if e.hooksErr != nil {
		return unseen("not tried, because the webhook configuration is unseen")
	}
	patch := fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, webhook.StatusFinalizer)
	for range attempts {
		e.warnings = nil
		_, err := e.client.CoreV1().Services(e.Namespace).Patch(ctx, e.service(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case apierrors.IsNotFound(err):
			return failed("apply the manifests of your version again", "Service %s not found in namespace %s: the API server cannot reach termguard", e.service(), e.Namespace)
		case apierrors.IsForbidden(err):
			return unreadable("the answer of termguard", "patch", "services in namespace "+e.Namespace+", for a dry run", err)
		case err != nil:
			return failed("", "a dry run in namespace %s fails: %v", e.Namespace, err)
		}
		status, has := webhook.ParseStatus(e.warnings)
		if !has {
			continue
		}
		e.status = &status
		c := ok("replica %s, version %s, answered", status.Replica, status.Version)
		if e.Version != "" && e.Version != status.Version {
			c.Says += fmt.Sprintf(" (you run %s)", e.Version)
		}
		return c
	}
	return failed("see the other checks, then the log: "+e.logs(), "the API server got no answer: deletes are allowed unchecked")
}

func (e *examination) checkCertificate(context.Context) Check {
	if e.hooksErr != nil {
		return unseen("the webhook configuration is unseen")
	}
	until, err := trustedUntil(e.hooks.Webhooks)
	now := e.Now()
	switch {
	case err != nil && e.neverRan:
		return failed("repair the pods first (replicas, above): termguard writes the caBundle when it runs, and no pod has run yet", "%v", err)
	case err != nil:
		return failed("find the reason in the log: "+e.logs(), "%v", err)
	}
	c := ok("the authority is valid until %s", day(until))
	ending := until.Sub(now) < caWarning
	if until.Before(now) {
		c = failed("restart termguard: "+e.kubectl("rollout restart deployment/termguard"), "the authority in the caBundle expired on %s", day(until))
	}
	if e.status != nil && !e.status.CertificateUntil.IsZero() {
		leaf := e.status.CertificateUntil
		c.Says += ", the certificate until " + day(leaf)
		ending = ending || leaf.Sub(now) < leafWarning
	}
	if c.Result == OK && ending {
		c.Result, c.Do = Warning, "it is renewed automatically; if not, see the log: "+e.logs()
	}
	return c
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// trustedUntil returns when the first of the webhooks stops trusting any authority.
func trustedUntil(hooks []admissionregistrationv1.ValidatingWebhook) (until time.Time, err error) {
	for _, h := range hooks {
		if len(h.ClientConfig.CABundle) == 0 {
			return until, fmt.Errorf("the caBundle of webhook %s is empty: the API server trusts no certificate", h.Name)
		}
		certificates, err := cert.ParseCertsPEM(h.ClientConfig.CABundle)
		if err != nil {
			return until, fmt.Errorf("the caBundle of webhook %s: %w", h.Name, err)
		}
		last := slices.MaxFunc(certificates, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }) // one valid authority is enough
		if until.IsZero() || last.NotAfter.Before(until) {
			until = last.NotAfter
		}
	}
	if until.IsZero() {
		err = errors.New("the configuration has no webhook")
	}
	return until, err
}

func (e *examination) checkFacts(context.Context) Check {
	switch {
	case e.status == nil:
		return noStatus
	case e.status.Facts != "":
		return failed("wait; if it does not end, see the log: "+e.logs(), "%s: deletes are allowed unchecked until then", e.status.Facts)
	case len(e.status.Unseen) > 0:
		c := warning("forbidden: grant list and watch; discovery or error: repair what serves that API (kubectl get apiservices)", "some facts are unseen: a verdict that depends on them is unknown")
		c.Also = e.status.Unseen
		return c
	}
	return ok("complete")
}

func (e *examination) checkPolicies(ctx context.Context) Check {
	if e.status == nil {
		return noStatus
	}
	var ignored []string
	elsewhere, err := e.client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: config.PolicyLabel, Limit: pageSize})
	if err == nil {
		for _, cm := range elsewhere.Items {
			if cm.Namespace != e.Namespace {
				ignored = append(ignored, fmt.Sprintf("ConfigMap %s/%s has the label %s and is ignored: only ConfigMaps in %s are read", cm.Namespace, cm.Name, config.PolicyLabel, e.Namespace))
			}
		}
	}
	e.customPolicies = e.status.CustomPolicies
	c := ok("%d are in force, %d of them your own", e.status.Policies, len(e.customPolicies))
	refused := slices.DeleteFunc(slices.Clone(e.status.Rejections), func(r string) bool { return strings.HasPrefix(r, "configuration:") })
	switch {
	case len(refused) > 0:
		c = failed("fix them; termguard policy test FOLDER reports the same before you apply them", "%d sources are rejected; the previous version stays in force", len(refused))
		c.Also = refused
	case len(ignored) > 0:
		c = warning("move them to namespace "+e.Namespace, "%s; some are ignored", c.Says)
		c.Also = ignored
	}
	return c
}

func (e *examination) checkConfiguration(ctx context.Context) Check {
	if e.status == nil {
		return noStatus
	}
	for _, r := range e.status.Rejections {
		if why, ours := strings.CutPrefix(r, "configuration:"); ours {
			return failed("fix ConfigMap termguard-config, or the values of the chart", "part of it is not in force: %s", strings.TrimSpace(why))
		}
	}
	cm, err := e.client.CoreV1().ConfigMaps(e.Namespace).Get(ctx, "termguard-config", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return unreadable("ConfigMap termguard-config", "get", "configmaps in namespace "+e.Namespace, err)
	}
	text, has := cm.Data["config.yaml"]
	fingerprint := ""
	if has {
		fingerprint = webhook.Fingerprint(sha256.Sum256([]byte(text)))
	}
	switch {
	case err == nil && !has:
		return failed("move its content to the key config.yaml", "ConfigMap termguard-config has no key config.yaml: none of it is in force")
	case fingerprint != e.status.Configuration:
		return warning("wait: the kubelet delivers a change within a minute or so; then run doctor again", "ConfigMap termguard-config differs from what is in force")
	case !has:
		return ok("ConfigMap termguard-config not found: the defaults are in force")
	}
	return ok("ConfigMap termguard-config is in force")
}

func (e *examination) checkLabels(ctx context.Context) Check {
	// Only a replica knows custom policies; if its list is truncated, any label may be valid.
	var ids []string
	if cut := len(e.customPolicies) > 0 && strings.HasSuffix(e.customPolicies[len(e.customPolicies)-1], "…"); e.status != nil && !cut {
		ids = append(policies.EmbeddedIDs(), e.customPolicies...)
	}
	var wrong []string
	for next := ""; ; {
		list, err := e.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if err != nil {
			return unreadable("the labels of namespaces", "list", "namespaces", err)
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
		return ok("no label or annotation of a namespace is misspelt")
	}
	c := failed("fix them: kubectl label namespace NAME WRONG- RIGHT=MODE", "%d labels or annotations of namespaces have no effect", len(wrong))
	c.Also = page.Fold(wrong, maxNamespaces, "")
	return c
}

func misspelt(o metav1.ObjectMeta, ids []string) []string {
	wrong := config.CheckLabels(o.Labels, ids)
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		if strings.HasPrefix(key, "termguard.dev/") && !config.IsEnforceLabel(key) {
			wrong = append(wrong, fmt.Sprintf("label %s is ignored: want %s, or %s.POLICY", key, config.EnforceLabel, config.EnforceLabel))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.Annotations)) {
		switch {
		case config.IsEnforceLabel(key):
			wrong = append(wrong, fmt.Sprintf("annotation %s is ignored: it must be a label", key))
		case strings.HasPrefix(key, "termguard.dev/") && key != webhook.AllowAnnotation && key != "termguard.dev/finalizer-owner":
			wrong = append(wrong, fmt.Sprintf("annotation %s is ignored: want %s or termguard.dev/finalizer-owner", key, webhook.AllowAnnotation))
		}
	}
	return wrong
}

// checkFailOpen reads how often the API server let a request through because the webhook failed.
func (e *examination) checkFailOpen(ctx context.Context) Check {
	text, err := e.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return unreadable("the API server's metrics", "get", "the non-resource URL /metrics", err)
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
		return ok("this API server got an answer to every request since it started")
	}
	return warning("watch the metric apiserver_admission_webhook_fail_open_count; the alert TermguardUnchecked does", "this API server allowed %.0f requests without an answer since it started", total)
}
