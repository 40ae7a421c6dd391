package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/policies"
)

// dryRuns is the policy id of findings from dry runs.
const dryRuns = "dry-run-deletes"

// DryRun sends dry runs of the deletion of the object and of the removal of its finalizers; for a namespace,
// of one object of each kind in it. They change nothing. Running webhooks and admission policies answer them,
// with the user's rights: controllers may get other answers. Refusals and restored finalizers become
// findings, and so do warnings of termguard's own webhook that this check lacks; failed dry runs are unseen.
// The guard of its item is that webhook's answer to the deletion.
func (a *Answer) DryRun(ctx context.Context, config *rest.Config, s Subject, options map[string]any) error {
	item := &a.Items[0]
	var said warningLog
	var dry metav1.DeleteOptions
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(options, &dry); err != nil {
		return fmt.Errorf("read the options of the deletion: %w", err)
	}
	dry.DryRun = []string{metav1.DryRunAll}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = &said
	client, err := objectsOf(config)
	if err != nil {
		return err
	}
	subjects := []Subject{s}
	if s.Type.GroupResource() == namespaces {
		within, unseen, err := oneOfEach(ctx, config, client, s.Name)
		if err != nil {
			return err
		}
		subjects = append(subjects, within...)
		item.Unseen = append(item.Unseen, unseen...)
	}
	answers := make([]dryRun, len(subjects))
	if !s.Terminating() { // otherwise it can no longer be refused
		err = s.on(client).Delete(ctx, s.Name, dry) // by itself, so that the warnings are about it
		if item.Guard != nil {
			item.Guard = guardAnswer(err, said.texts)
		}
		answers[0].judge(s, deletion, err)
		for i := range answers[0].findings { // the real request has the same rights
			answers[0].findings[i].Certainty, answers[0].findings[i].Kind = policies.Will, policies.KindRefused
		}
	}
	var asking errgroup.Group
	asking.SetLimit(reads)
	for i, s := range subjects {
		asking.Go(func() error {
			if i > 0 {
				answers[i].judge(s, deletion, s.on(client).Delete(ctx, s.Name, dry))
			}
			answers[i].release(ctx, s, client)
			return ctx.Err()
		})
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	for _, answer := range answers {
		item.Findings = append(item.Findings, answer.findings...)
		item.Unseen = append(item.Unseen, answer.unseen...)
	}
	item.Findings = append(item.Findings, said.unknown(s, item.Findings)...)
	item.Verdict = policies.Worst(item.Verdict, policies.Result{Findings: item.Findings, Unseen: item.Unseen}.Verdict())
	a.sum()
	return nil
}

// oneOfEach returns an object of each kind in a namespace, one with finalizers if the first few include one.
func oneOfEach(ctx context.Context, config *rest.Config, client dynamic.Interface, namespace string) (subjects []Subject, unseen []policies.Unseen, err error) {
	types, err := Served(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	found, failed := make([]*Subject, len(types.all)), make([]error, len(types.all))
	var listing errgroup.Group
	listing.SetLimit(reads)
	for i, t := range types.all {
		if !t.Namespaced || !slices.Contains(t.verbs, "list") || t.deletable() != nil || t.Resource == "events" {
			continue
		}
		listing.Go(func() error {
			list, err := client.Resource(t.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 50})
			if err != nil {
				failed[i] = err
				return nil
			}
			if len(list.Items) == 0 {
				return nil
			}
			at := max(0, slices.IndexFunc(list.Items, func(o unstructured.Unstructured) bool { return len(o.GetFinalizers()) > 0 }))
			found[i] = &Subject{Type: t, Namespace: namespace, Name: list.Items[at].GetName(), Object: list.Items[at].Object}
			return nil
		})
	}
	_ = listing.Wait() // errors are reported per kind
	for i, s := range found {
		if failed[i] != nil {
			unseen = append(unseen, policies.Unseen{Resource: types.all[i].GroupResource().String(), Reason: "dry run: " + reasonOf(failed[i])})
		}
		if s != nil {
			subjects = append(subjects, *s)
		}
	}
	return subjects, unseen, ctx.Err()
}

// dryRun is the API server's answer about one object.
type dryRun struct {
	findings []policies.Finding
	unseen   []policies.Unseen
}

// on returns the client for the object.
func (s Subject) on(client dynamic.Interface) dynamic.ResourceInterface {
	if s.Namespace != "" {
		return client.Resource(s.Type.GroupVersionResource).Namespace(s.Namespace)
	}
	return client.Resource(s.Type.GroupVersionResource)
}

// release sends a dry run of the removal of the object's finalizers.
func (d *dryRun) release(ctx context.Context, s Subject, client dynamic.Interface) {
	if len((&unstructured.Unstructured{Object: s.Object}).GetFinalizers()) == 0 {
		return
	}
	after, err := s.on(client).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	d.judge(s, "the removal of its finalizers", err)
	if err == nil && len(after.GetFinalizers()) > 0 {
		d.find(s, fmt.Sprintf("a dry run of the removal of its finalizers leaves %s: a webhook or a policy puts them back", strings.Join(after.GetFinalizers(), ", ")))
	}
}

// deletion is the operation in messages.
const deletion = "its deletion"

// judge evaluates the API server's answer.
func (d *dryRun) judge(s Subject, what string, err error) {
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsNotFound(err): // it was deleted by now
	case !errors.As(err, &status):
		d.unseen = append(d.unseen, policies.Unseen{What: fmt.Sprintf("dry run of %s of %s", what, s), Reason: err.Error()})
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot "), strings.Contains(err.Error(), "does not support dry run"):
		d.unseen = append(d.unseen, policies.Unseen{What: fmt.Sprintf("dry run of %s of %s", what, s), Reason: reasonOf(err)})
	case apierrors.IsInternalError(err), status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err) && !apierrors.IsUnauthorized(err):
		d.find(s, "a dry run of "+what+" is refused: "+err.Error())
	default:
		d.unseen = append(d.unseen, policies.Unseen{What: fmt.Sprintf("dry run of %s of %s", what, s), Reason: err.Error()})
	}
}

// warningLog collects the warnings of a dry run.
type warningLog struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeaderWithContext records a warning.
func (w *warningLog) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.texts) < maxWarned {
		w.texts = append(w.texts, text)
	}
}

// maxWarned bounds the recorded warnings: the webhook sends 15 per object at most.
const maxWarned = 1000

// unknown returns findings for warnings of termguard's webhook that no finding has: it sees facts that the
// user cannot, such as reports of node probes, and names no path and no file. Any webhook could send them.
func (w *warningLog) unknown(s Subject, found []policies.Finding) (all []policies.Finding) {
	for i, text := range w.texts {
		policy := policies.PolicyOf(text)
		if policy == "" || slices.Contains(w.texts[:i], text) || slices.ContainsFunc(found, func(f policies.Finding) bool { return f.Policy == policy }) {
			continue
		}
		all = append(all, policies.Finding{
			Policy: dryRuns, Title: "Warned of in a dry run", Certainty: policies.May, Severity: policies.Medium,
			Message: "a webhook that answers dry runs warns: " + text, Objects: []policies.Object{s.ID()},
			Evidence: []string{"the webhook sees what you may not read, such as reports of node probes"},
			Remedy:   "Ask whoever may read termguard's namespace to run the same check: it tells the evidence and the way out.",
		})
	}
	return all
}

func (d *dryRun) find(s Subject, message string) {
	d.findings = append(d.findings, policies.Finding{
		Policy: dryRuns, Title: "Refused in a dry run", Certainty: policies.May, Severity: policies.Medium,
		Message: message, Objects: []policies.Object{s.ID()},
		Evidence: []string{"asked with your rights: controllers, which delete and clean up, are other users"},
		Steps: []policies.Step{
			policies.Step{Kind: policies.Mend, Do: "Do what the refusal asks for"}.Promising(policies.Again),
			{Kind: policies.Remove, Do: "If nobody can, have whoever looks after the webhook or the policy let this deletion through"},
		},
	})
}

// reasonOf shortens an error to its reason, if it has one.
func reasonOf(err error) string {
	if apierrors.IsForbidden(err) {
		return "forbidden"
	}
	return err.Error()
}
