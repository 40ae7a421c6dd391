package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Beside runs termguard delete with each flag.
const Beside = "beside"

// bystanders are outside all targets. Their node is dead, so they look as if they needed repair.
const bystanders = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: passers.bystanders.test}
spec:
  group: bystanders.test
  scope: Namespaced
  names: {kind: Passer, plural: passers, singular: passer}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: bystanders, finalizers: [finalizers.kubesphere.io/namespaces]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: bystander, namespace: bystanders, finalizers: [kiali.io/finalizer]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: bystander, namespace: bystanders}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: bystander, namespace: bystanders}}
---
{apiVersion: v1, kind: Service, metadata: {name: bystander, namespace: bystanders}, spec: {ports: [{port: 443}], selector: {app: bystander}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: bystander}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, storageClassName: bystander, claimRef: {namespace: bystanders, name: bystander}, hostPath: {path: /var/empty}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: bystander, namespace: bystanders}, spec: {storageClassName: bystander, volumeName: bystander, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bystander, namespace: bystanders, labels: {app: bystander}}, spec: {nodeName: bystander, tolerations: [{operator: Exists}], containers: [{name: c, image: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: bystander}}]}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: bystander, namespace: bystanders}, spec: {minAvailable: 1, selector: {matchLabels: {app: bystander}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: another, namespace: bystanders}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: bystander}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: bystander, namespace: bystanders}, spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {serviceAccountName: bystander, containers: [{name: c, image: c}]}}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: bystander}, rules: [{apiGroups: [bystanders.test], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: bystander}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bystander}, subjects: [{kind: ServiceAccount, name: bystander, namespace: bystanders}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: bystander}, webhooks: [{name: v.bystanders.test, failurePolicy: Fail, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [bystanders.test], apiVersions: ["*"], resources: ["*"], operations: [DELETE, UPDATE]}], clientConfig: {service: {namespace: bystanders, name: gone}}}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: bystander}, webhooks: [{name: m.bystanders.test, failurePolicy: Fail, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [bystanders.test], apiVersions: ["*"], resources: ["*"], operations: [DELETE, UPDATE]}], clientConfig: {service: {namespace: bystanders, name: gone}}}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: bystander}, spec: {matchConstraints: {resourceRules: [{apiGroups: [bystanders.test], apiVersions: ["*"], resources: ["*"], operations: [DELETE]}]}, validations: [{expression: "false"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: bystander}, spec: {policyName: bystander, validationActions: [Deny]}}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1alpha1.bystanders.test}, spec: {group: bystanders.test, version: v1alpha1, groupPriorityMinimum: 100, versionPriority: 100}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: bystander.test}, spec: {attachRequired: true}}
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: bystander, finalizers: [external-attacher/bystander-test]}, spec: {attacher: bystander.test, nodeName: bystander, source: {persistentVolumeName: bystander}}}
--- # later
{apiVersion: bystanders.test/v1, kind: Passer, metadata: {name: bystander, namespace: bystanders, finalizers: [kiali.io/finalizer]}}
---
{apiVersion: bystanders.test/v1, kind: Passer, metadata: {name: owned, namespace: bystanders, finalizers: [bystanders.test/cleanup]}}
`

func (g *Guarded) standBy(ctx context.Context) error {
	node, err := g.StartNode(ctx, "bystander")
	if err != nil {
		return err
	}
	first, later, _ := strings.Cut(bystanders, "--- # later\n")
	for _, objects := range []string{first, later} {
		if err := g.Create(ctx, objects); err != nil {
			return err
		}
	}
	if r, err := g.Kubectl(ctx, "wait", "-n", "bystanders", "--for=jsonpath={.status.phase}=Running", "--timeout=2m", "pod/bystander"); err != nil || r.Code != 0 {
		return fmt.Errorf("the pod that stands by: %w: %s", err, r.Stderr)
	}
	if r, err := g.Kubectl(ctx, "wait", "-n", "bystanders", "--for=jsonpath={.status.phase}=Bound", "--timeout=2m", "pvc/bystander"); err != nil || r.Code != 0 {
		return fmt.Errorf("the claim that stands by: %w: %s", err, r.Stderr)
	}
	node.Kill()
	if err := node.AwaitReady(ctx, "Unknown"); err != nil {
		return err
	}
	g.standing, err = g.objects(ctx)
	return err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// passing objects change by themselves, and hold no state of their own.
var passing = []string{"events", "leases", "endpoints", "endpointslices", "csinodes"}

func (g *Guarded) objects(ctx context.Context) (map[types.UID]*unstructured.Unstructured, error) {
	config := g.Config()
	config.QPS, config.Timeout = -1, 20*time.Second
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil {
				response.Header.Del("Retry-After") // a kind that a scenario broke says so for minutes
			}
			return response, err
		})
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := discoverer.ServerPreferredResources()
	if failed := new(discovery.ErrGroupDiscoveryFailed); err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	all := map[types.UID]*unstructured.Unstructured{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "delete") || slices.Contains(passing, resource.Name) {
				continue
			}
			objects, err := client.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if _, answered := err.(apierrors.APIStatus); answered || utilnet.IsTimeout(err) {
				continue // broken or removed by a scenario
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", resource.Name, err)
			}
			for i := range objects.Items {
				object := &objects.Items[i]
				object.SetAnnotations(withResource(object.GetAnnotations(), version.WithResource(resource.Name).GroupResource()))
				all[object.GetUID()] = object
			}
		}
	}
	return all, nil
}

const resourceKey = "scenario/resource"

func withResource(annotations map[string]string, resource schema.GroupResource) map[string]string {
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourceKey] = resource.String()
	return annotations
}

func called(o *unstructured.Unstructured) string {
	text := o.GetAnnotations()[resourceKey] + "/" + o.GetName()
	if o.GetNamespace() != "" {
		text += " -n " + o.GetNamespace()
	}
	return text
}

// lasting omits fields that the cluster changes: a node's taints follow its silence, an aggregated role's
// rules its roles, a Deployment's revision its ReplicaSets.
func lasting(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	switch o.GetKind() {
	case "Node":
		unstructured.RemoveNestedField(o.Object, "spec", "taints")
	case "ClusterRole":
		if o.Object["aggregationRule"] != nil {
			delete(o.Object, "rules")
		}
	case "ConfigMap":
		if o.GetName() == "termguard-learned" { // which the webhook of the lab writes
			delete(o.Object, "data")
		}
	}
	return o.Object
}

// Harm is what termguard delete did.
type Harm struct {
	Runs     int // with different flags
	Compared int // objects that had to stay
	Changed  int // named objects
}

// Naming a bystander allows harm that no plan contains.
var flags = [][]string{
	nil,
	{"--allow=foreign=passers/bystanders/bystander", "--allow=foreign=pods/bystanders/bystander", "--allow=foreign=pvc/bystanders/bystander",
		"--allow=force=nodes/bystander", "--allow=force=pdb/bystanders/another", "--allow=force=validatingwebhookconfigurations/bystander", "--allow=force=apiservices/v1alpha1.bystanders.test"},
	{"--allow=restore"},
	{"--allow=strip"},
	{"--allow=restore", "--allow=strip"},
}

// playBeside compares the cluster after each flag: objects that are no targets, not in one and not allowed to
// change stay the same, byte for byte.
func (g *Guarded) playBeside(ctx context.Context, o *Outcome) error {
	s := o.Scenario
	targets, err := g.targets(ctx, s)
	if err != nil {
		return err
	}
	if err := g.start(ctx, s.Live, Answered); err != nil {
		return err
	}
	o.Real, o.Harm = Varies, &Harm{}
	for _, flags := range flags {
		before, err := g.objects(ctx)
		if err != nil {
			return err
		}
		mine, err := s.mine(before)
		if err != nil {
			return err
		}
		code, said, wrote, err := g.recorded(ctx, slices.Concat([]string{"--yes", "--timeout=10s"}, flags, s.objects())...)
		if err != nil {
			return err
		}
		o.Harm.Runs++
		after, err := g.objects(ctx)
		if err != nil {
			return err
		}
		w := world{
			targets: targets, before: before, after: after, restores: slices.Contains(flags, "--allow=restore"), wrote: wrote,
			live: len(s.Live.Controllers)+len(s.Live.Programs) > 0,
		}
		for uid, was := range before {
			if _, stands := g.standing[uid]; !stands && !mine[uid] {
				continue // of a world beside this one
			}
			o.Harm.Compared++
			switch harm := w.harm(was); {
			case harm == "":
			case w.consented(was), mine[uid] && w.elsewhere(was):
				o.Harm.Changed++
				o.Harm.Compared--
			default:
				o.Wrong = append(o.Wrong, fmt.Sprintf("termguard delete --yes %s changed a bystander: %s: %s\n%s", strings.Join(flags, " "), called(was), harm, said))
			}
		}
		gone := !slices.ContainsFunc(slices.Collect(maps.Keys(before)), func(uid types.UID) bool {
			return after[uid] != nil && slices.Contains(targets, called(after[uid]))
		})
		switch {
		case code == failed && gone && strings.Contains(said, "nothing to delete"): // gone by itself since the run before
		case code != 0 && code != some && code != open, code == 0 && !gone:
			o.Wrong = append(o.Wrong, fmt.Sprintf("termguard delete --yes %s exits with %d: %s", strings.Join(flags, " "), code, said))
		}
		if gone {
			return nil
		}
	}
	return nil
}

func unasked(ctx context.Context, kubeconfig string, args ...string) (code int, said string, err error) {
	binary, err := Binary()
	if err != nil {
		return 0, "", err
	}
	cmd := exec.CommandContext(ctx, binary, append([]string{"delete", "--kubeconfig", kubeconfig}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return 0, "", err
	}
	return cmd.ProcessState.ExitCode(), out.String(), nil
}

// recorded is unasked, and returns requests for changes, by a proxy.
func (g *Guarded) recorded(ctx context.Context, args ...string) (code int, said string, wrote []string, err error) {
	transport, err := rest.TransportFor(g.Config())
	if err != nil {
		return 0, "", nil, err
	}
	target, err := url.Parse(g.Config().Host)
	if err != nil {
		return 0, "", nil, err
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if object := objectOf(r.URL.Path); object != "" && r.Method != http.MethodGet && !strings.Contains(r.URL.RawQuery, "dryRun=") {
			mu.Lock()
			wrote = append(wrote, object)
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	kubeconfig, err := g.WriteKubeconfig(fmt.Sprintf("recorded-%d", server.Listener.Addr().(*net.TCPAddr).Port), &rest.Config{Host: server.URL})
	if err != nil {
		return 0, "", nil, err
	}
	code, said, err = unasked(ctx, kubeconfig, args...)
	return code, said, wrote, err
}

func objectOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = "."+parts[1], parts[3:]
	default:
		return ""
	}
	within := ""
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "finalize" {
		within, parts = " -n "+parts[1], parts[2:]
	}
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + group + "/" + parts[1] + within
}

func (s Scenario) mine(all map[types.UID]*unstructured.Unstructured) (map[types.UID]bool, error) {
	names, within, err := s.made()
	if err != nil {
		return nil, err
	}
	mine := map[types.UID]bool{}
	for uid, o := range all {
		mine[uid] = within[o.GetNamespace()] || names[o.GroupVersionKind().GroupKind().String()+"/"+o.GetNamespace()+"/"+o.GetName()]
	}
	return mine, nil
}

type world struct {
	targets       []string
	before, after map[types.UID]*unstructured.Unstructured
	restores      bool
	// wrote has the objects of termguard's changes: the controllers of a live world continue.
	wrote []string
	live  bool
}

func (w world) harm(was *unstructured.Unstructured) string {
	now, there := w.after[was.GetUID()]
	if !there {
		return "it is gone"
	}
	before, after := lasting(was), lasting(now)
	if first, err := json.Marshal(before); err == nil {
		if second, err := json.Marshal(after); err == nil && bytes.Equal(first, second) {
			return ""
		}
	}
	return cmp.Diff(before, after)
}

func (w world) targeted(o *unstructured.Unstructured) bool {
	in := "namespaces/" + o.GetNamespace()
	return slices.Contains(w.targets, called(o)) || o.GetNamespace() != "" && slices.Contains(w.targets, in)
}

// consented reports whether a change was allowed: of a target, of an object deleted with one or Terminating
// before, by scaling up, or of the finalizer of a target definition's instance.
func (w world) consented(was *unstructured.Unstructured) bool {
	now, there := w.after[was.GetUID()]
	switch {
	case w.targeted(was), w.leaves(was, 10):
		return true
	case there && w.restores && w.scaled(was, now):
		return true
	}
	return false
}

// Termguard sent no request: the world's controllers did.
func (w world) elsewhere(was *unstructured.Unstructured) bool {
	return w.live && !slices.Contains(w.wrote, called(was))
}

// leaves also covers objects that were Terminating.
func (w world) leaves(o *unstructured.Unstructured, depth int) bool {
	if w.targeted(o) || o.GetDeletionTimestamp() != nil {
		return true
	}
	if slices.Contains(w.targets, "customresourcedefinitions.apiextensions.k8s.io/"+o.GetAnnotations()[resourceKey]) {
		return true
	}
	if node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName"); o.GetKind() == "Pod" && slices.Contains(w.targets, "nodes/"+node) {
		return true
	}
	for _, other := range w.before {
		if other.GetKind() == "Namespace" && other.GetName() == o.GetNamespace() && other.GetDeletionTimestamp() != nil {
			return true
		}
	}
	return slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		before := w.before[owner.UID]
		return depth > 0 && (before == nil || w.leaves(before, depth-1))
	})
}

func (w world) scaled(was, now *unstructured.Unstructured) bool {
	replicas, _, _ := unstructured.NestedInt64(was.Object, "spec", "replicas")
	if after, has, _ := unstructured.NestedInt64(now.Object, "spec", "replicas"); replicas != 0 || !has || after != 1 {
		return false
	}
	before, after := lasting(was), lasting(now)
	for _, o := range []map[string]any{before, after} {
		unstructured.RemoveNestedField(o, "spec", "replicas")
		unstructured.RemoveNestedField(o, "metadata", "generation")
		for _, counted := range []string{"desired-replicas", "max-replicas"} { // of its ReplicaSets, by the Deployment
			unstructured.RemoveNestedField(o, "metadata", "annotations", "deployment.kubernetes.io/"+counted)
		}
	}
	return cmp.Equal(before, after)
}

func Harms(out io.Writer, outcomes []Outcome) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Scenario.Name, b.Scenario.Name) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tRUNS\tTHE SAME\tCHANGED\t")
	for _, o := range outcomes {
		remark := ""
		switch {
		case o.Err != nil:
			remark = "could not be played"
		case len(o.Wrong) > 0:
			remark = "wrong"
		}
		if o.Harm == nil {
			o.Harm = &Harm{}
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", o.Scenario.Name, o.Harm.Runs, o.Harm.Compared, o.Harm.Changed, remark)
	}
	table.Flush()
	fmt.Fprintf(out, "\n%s\n", summary(outcomes))
}

func besidePage(outcomes []Outcome) error {
	path := os.Getenv("PAGE")
	if path == "" {
		return nil
	}
	const begin, end = "<!-- beside -->\n", "<!-- /beside -->"
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s has no %q", path, begin)
	}
	kinds := map[string]bool{}
	bystanding := 0
	for _, document := range strings.Split(bystanders, "\n---") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(document, " # later")), &object); err != nil {
			return err
		}
		kinds[object.Kind] = true
		bystanding++
	}
	text := fmt.Sprintf("%s. %d bystanders of %d kinds stood beside each.\n", summary(outcomes), bystanding+1, len(kinds)+1) // and their Node
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}

func summary(outcomes []Outcome) string {
	worlds, runs, compared, harmed := 0, 0, 0, 0
	for _, o := range outcomes {
		if o.Harm == nil {
			continue
		}
		worlds++
		runs += o.Harm.Runs
		compared += o.Harm.Compared
		if len(o.Wrong) > 0 {
			harmed++
		}
	}
	return fmt.Sprintf("%d worlds, %d runs of termguard delete, %d comparisons of bystanders; %d worlds with an error", worlds, runs, compared, harmed)
}

func (g *Guarded) targets(ctx context.Context, s Scenario) (targets []string, err error) {
	r, err := g.Kubectl(ctx, append([]string{"get", "-o", `jsonpath={.metadata.uid}{range .items[*]}{.metadata.uid}{" "}{end}`}, s.target()...)...)
	if err != nil {
		return nil, fmt.Errorf("read the targets: %w", err)
	}
	if r.Code != 0 {
		return nil, fmt.Errorf("read the targets: %s", r.Stderr)
	}
	all, err := g.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, uid := range strings.Fields(r.Stdout) {
		if o := all[types.UID(uid)]; o != nil {
			targets = append(targets, called(o))
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("none of the targets is there: %v", s.target())
	}
	return targets, nil
}
