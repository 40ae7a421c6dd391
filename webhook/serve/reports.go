package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/scan"
)

// ReportGroups are the API groups that reports can be written in. Kyverno writes the first
// unless it is told otherwise, and Headlamp's plugin for it reads no other; Policy Reporter
// shows both since its release 3.2.
var ReportGroups = []string{"wgpolicyk8s.io", "openreports.io"}

// reportAPI is how a group calls its two kinds.
type reportAPI struct {
	version                  schema.GroupVersion
	resource, kind           string
	clusterResource, cluster string
	source                   bool // a report has its source, as its results do
}

var reportAPIs = map[string]reportAPI{
	"wgpolicyk8s.io": {schema.GroupVersion{Group: "wgpolicyk8s.io", Version: "v1alpha2"}, "policyreports", "PolicyReport", "clusterpolicyreports", "ClusterPolicyReport", false},
	"openreports.io": {schema.GroupVersion{Group: "openreports.io", Version: "v1alpha1"}, "reports", "Report", "clusterreports", "ClusterReport", true},
}

const (
	// reportName is that of every report: at most one in a namespace, and one of the cluster.
	reportName = "termguard"
	// reportLabel finds them.
	reportLabel = "app.kubernetes.io/managed-by"
	// reportLease is held by the replica that writes. The chart makes it, so that it goes with the rest.
	reportLease = "termguard-reports"
	// An API server takes objects of 1.5 MiB: a result has some 600 bytes.
	maxOfCluster   = 500 // results
	maxOfNamespace = 50
	// maxReports bounds the namespaces that get one.
	maxReports = 1000
	// maxReportMessage is in characters.
	maxReportMessage = 256
)

// reported is a report as it is written.
type reported struct {
	text    []byte
	written types.UID // of what was applied, with
	version string    // its resourceVersion
}

// reportResult is one line of a report: the field names are those of both groups.
type reportResult struct {
	Source    string            `json:"source"`
	Policy    string            `json:"policy"`
	Rule      string            `json:"rule"`
	Category  string            `json:"category"`
	Severity  string            `json:"severity,omitempty"`
	Result    string            `json:"result"`
	Message   string            `json:"message"`
	Resources []reportSubject   `json:"resources,omitempty"`
	Fields    map[string]string `json:"properties,omitempty"`
}

type reportSubject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// reportsOf writes a tally down, by namespace, "" for that of the cluster. left counts the
// namespaces for which there is no room. Of what is in a namespace it has kinds and numbers,
// and no names: a report may be read by more people than what it is about.
func reportsOf(t scan.Tally, api reportAPI) (all map[string][]byte, left int, err error) {
	by := map[string][]scan.Held{}
	for held := range t.Held {
		by[held.Namespace] = append(by[held.Namespace], held)
	}
	all = map[string][]byte{}
	for _, namespace := range slices.Sorted(maps.Keys(by)) {
		if namespace != "" && len(all) >= maxReports {
			left++
			continue
		}
		some := by[namespace]
		slices.SortFunc(some, func(a, b scan.Held) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Policy, b.Policy))
		})
		if all[namespace], err = reportOf(t, api, namespace, some); err != nil {
			return nil, 0, err
		}
	}
	return all, left, nil
}

func reportOf(t scan.Tally, api reportAPI, namespace string, some []scan.Held) ([]byte, error) {
	most, kind := maxOfNamespace, api.kind
	if namespace == "" {
		most, kind = maxOfCluster, api.cluster
	}
	var results []reportResult
	for i, held := range some {
		if len(some) > most && i == most-1 {
			results = append(results, reportResult{Source: "termguard", Policy: "more", Rule: "more", Category: "Deletion", Result: "fail", Message: fmt.Sprintf("%d more results have no room here: termguard scan tells them", len(some)-i)})
			break
		}
		results = append(results, resultOf(t, held))
	}
	object := map[string]any{
		"apiVersion": api.version.String(), "kind": kind,
		"metadata": map[string]any{"name": reportName, "labels": map[string]string{reportLabel: "termguard"}},
		"summary":  map[string]int{"pass": 0, "fail": len(results), "warn": 0, "error": 0, "skip": 0},
		"results":  results,
	}
	if namespace != "" {
		object["scope"] = reportSubject{"v1", "Namespace", namespace}
	}
	if api.source {
		object["source"] = "termguard"
	}
	return json.Marshal(object)
}

// resultOf puts a count in words.
func resultOf(t scan.Tally, held scan.Held) reportResult {
	about := t.Policies[held.Policy]
	n := t.Held[held]
	what := fmt.Sprintf("%d of %s would hang", n, held.Resource)
	r := reportResult{Source: "termguard", Policy: held.Policy, Rule: string(held.Kind), Category: "Deletion", Severity: string(about.Severity), Result: "fail"}
	switch held.Kind {
	case scan.Namespaces:
		what, r.Resources = "it would hang", []reportSubject{{"v1", "Namespace", held.Name}}
	case scan.Definitions:
		what, r.Resources = "it would hang", []reportSubject{{"apiextensions.k8s.io/v1", "CustomResourceDefinition", held.Name}}
	default:
		r.Fields = map[string]string{"resource": held.Resource, "count": fmt.Sprint(n)}
	}
	message := []rune(printable.Line(fmt.Sprintf("If deleted now, %s: %s", what, about.Title)))
	if len(message) > maxReportMessage {
		message = append(message[:maxReportMessage-1], '…')
	}
	r.Message = string(message)
	return r
}

// reportStore is where reports are kept.
type reportStore interface {
	// list names the reports that are there, by namespace.
	list(ctx context.Context) (map[string]metav1.ObjectMeta, error)
	apply(ctx context.Context, namespace string, text []byte) (metav1.ObjectMeta, error)
	remove(ctx context.Context, namespace string, uid types.UID) error
}

// reports writes what a survey finds into the cluster, from one replica at a time.
type reports struct {
	api    reportAPI
	store  reportStore
	leads  func() bool
	log    *slog.Logger
	wrote  map[string]reported // by namespace
	failed string              // what was logged last, so that it is logged once
}

// write brings the reports in the cluster up to date: what is as it was is not written, and
// what has nothing to say is deleted.
func (r *reports) write(ctx context.Context, t scan.Tally) {
	if !r.leads() {
		r.wrote = nil // another replica writes meanwhile
		return
	}
	err := r.bring(ctx, t)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		r.failed = ""
	case err.Error() != r.failed:
		r.failed = err.Error()
		r.log.Warn("reports are not written; it is tried again after each survey", "error", err)
	}
}

func (r *reports) bring(ctx context.Context, t scan.Tally) error {
	wanted, left, err := reportsOf(t, r.api)
	if err != nil {
		return err
	}
	there, err := r.store.list(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s is not installed in this cluster: install its definitions, or leave --survey-reports out", r.api.version)
	case err != nil:
		return fmt.Errorf("list reports of %s: %w", r.api.version, err)
	}
	wrote := map[string]reported{}
	defer func() { r.wrote = wrote }()
	for namespace, meta := range there {
		if _, still := wanted[namespace]; still || !r.leads() {
			continue
		}
		if err := r.store.remove(ctx, namespace, meta.UID); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete a report that has nothing to say: %w", err)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
		text, before := wanted[namespace], r.wrote[namespace]
		if meta, is := there[namespace]; is && meta.UID == before.written && meta.ResourceVersion == before.version && string(before.text) == string(text) {
			wrote[namespace] = before
			continue
		}
		if !r.leads() {
			return nil
		}
		meta, err := r.store.apply(ctx, namespace, text)
		switch {
		case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, "NamespaceTerminating"):
			continue // the namespace goes, or has gone
		case err != nil:
			return fmt.Errorf("write a report: %w", err)
		}
		wrote[namespace] = reported{text, meta.UID, meta.ResourceVersion}
	}
	if left > 0 {
		return fmt.Errorf("%d namespaces have no report: there are %d at most", left, maxReports)
	}
	return nil
}

// clusterReports are those in a cluster.
type clusterReports struct {
	client metadata.Interface
	api    reportAPI
}

func (c clusterReports) of(namespace string) metadata.ResourceInterface {
	if namespace == "" {
		return c.client.Resource(c.api.version.WithResource(c.api.clusterResource))
	}
	return c.client.Resource(c.api.version.WithResource(c.api.resource)).Namespace(namespace)
}

func (c clusterReports) list(ctx context.Context) (map[string]metav1.ObjectMeta, error) {
	all := map[string]metav1.ObjectMeta{}
	for _, resource := range []string{c.api.clusterResource, c.api.resource} {
		options := metav1.ListOptions{LabelSelector: reportLabel + "=termguard", Limit: 500}
		for {
			page, err := c.client.Resource(c.api.version.WithResource(resource)).List(ctx, options)
			if err != nil {
				return nil, err
			}
			for _, item := range page.Items {
				if item.Name == reportName {
					all[item.Namespace] = metav1.ObjectMeta{UID: item.UID, ResourceVersion: item.ResourceVersion}
				}
			}
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
	}
	return all, nil
}

func (c clusterReports) apply(ctx context.Context, namespace string, text []byte) (metav1.ObjectMeta, error) {
	force := true
	got, err := c.of(namespace).Patch(ctx, reportName, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "termguard", Force: &force})
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	return got.ObjectMeta, nil
}

func (c clusterReports) remove(ctx context.Context, namespace string, uid types.UID) error {
	return c.of(namespace).Delete(ctx, reportName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

// newReports connects for reports of a group. run has to run for them to be written.
func newReports(cluster *rest.Config, group, namespace, replica string, log *slog.Logger) (r *reports, run func(context.Context), err error) {
	cluster = rest.CopyConfig(cluster)
	cluster.QPS, cluster.Burst = 5, 10 // the first round of a large cluster takes minutes, and the API server is left in peace
	objects, err := metadata.NewForConfig(cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("connect for reports: %w", err)
	}
	core, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("connect for the Lease of reports: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: reportLease}, Client: core.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: cmp.Or(replica, fmt.Sprint(time.Now().UnixNano()))},
		},
		Name: reportLease, LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 10 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("elect who writes reports: %w", err)
	}
	api := reportAPIs[group]
	run = func(ctx context.Context) {
		for ctx.Err() == nil {
			elector.Run(ctx) // until the Lease is lost
			if background.Pause(ctx, 10*time.Second) != nil {
				return
			}
		}
	}
	return &reports{api: api, store: clusterReports{objects, api}, leads: elector.IsLeader, log: log}, run, nil
}

// CheckReportGroup tells whether reports can be written in a group.
func CheckReportGroup(group string) error {
	if _, known := reportAPIs[group]; group != "" && !known {
		return fmt.Errorf("reports are written in %s, not in %q", strings.Join(ReportGroups, " or "), group)
	}
	return nil
}
