package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

const dryRuns = "dry-run-deletes"

// hear adds what webhooks answer to dry runs, or that one would show it.
func (a *Answer) hear(ctx context.Context, s Session, world *cluster.World, q Question) error {
	single := !q.Together && len(a.Items) == 1 && !s.Snapshot
	if single {
		a.Items[0].addGuardOf(world, q.Targets[0])
	}
	switch {
	case q.DryRuns:
		for i, target := range q.Targets {
			if err := a.Items[i].dryRun(ctx, s.Config, target, s.Options); err != nil {
				return err
			}
		}
	case single:
		a.Items[0].addUnasked(world, q.Targets[0], s.Options)
	}
	a.sum()
	return nil
}

// dryRun sends dry runs of the deletion and of the removal of finalizers; for a namespace, of one object of each
// kind in it. They have the user's rights: controllers may get other answers.
func (item *Item) dryRun(ctx context.Context, config *rest.Config, s Subject, options map[string]any) error {
	var dry metav1.DeleteOptions
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(options, &dry); err != nil {
		return fmt.Errorf("read the options of the deletion: %w", err)
	}
	dry.DryRun = []string{metav1.DryRunAll}
	var warnings warningLog
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = &warnings
	client, err := Client(config)
	if err != nil {
		return err
	}
	subjects := []Subject{s}
	if s.Type.GroupResource() == question.Namespaces {
		within, unseen, err := oneOfEach(ctx, config, client, s.Name)
		if err != nil {
			return err
		}
		subjects = append(subjects, within...)
		item.Unseen = append(item.Unseen, unseen...)
	}
	results := make([]policies.Result, len(subjects))
	if !s.Terminating() { // otherwise it can no longer be refused
		err = s.on(client).Delete(ctx, s.Name, dry) // alone, so that the warnings are about it
		if item.Guard != nil {
			item.Guard = guardAnswer(err, warnings.texts)
		}
		results[0] = judge(s, deletion, err)
		for i := range results[0].Findings { // the real request has the same rights
			results[0].Findings[i].Certainty, results[0].Findings[i].Kind = policies.Will, policies.KindRefused
		}
	}
	err = ReadEach(ctx, len(subjects), func(ctx context.Context, i int) error {
		s := subjects[i]
		if i > 0 {
			results[i] = judge(s, deletion, s.on(client).Delete(ctx, s.Name, dry))
		}
		release := s.release(ctx, client)
		results[i].Findings = append(results[i].Findings, release.Findings...)
		results[i].Unseen = append(results[i].Unseen, release.Unseen...)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for _, result := range results {
		item.Findings = append(item.Findings, result.Findings...)
		item.Unseen = append(item.Unseen, result.Unseen...)
	}
	item.Findings = append(item.Findings, warnings.unknown(s, item.Findings)...)
	item.Verdict = policies.Worst(item.Verdict, policies.Result{Findings: item.Findings, Unseen: item.Unseen}.Verdict())
	return nil
}

// oneOfEach prefers an object with finalizers among the first few of each kind.
func oneOfEach(ctx context.Context, config *rest.Config, client dynamic.Interface, namespace string) (subjects []Subject, unseen []policies.Unseen, err error) {
	types, err := Served(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	all := slices.DeleteFunc(types.all, func(t Type) bool {
		return !t.Namespaced || !slices.Contains(t.verbs, "list") || t.deletable() != nil || t.Resource == "events"
	})
	lists, failed := make([]*unstructured.UnstructuredList, len(all)), make([]error, len(all))
	err = ReadEach(ctx, len(all), func(ctx context.Context, i int) error {
		lists[i], failed[i] = client.Resource(all[i].GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 50})
		return ctx.Err()
	})
	for i, t := range all {
		switch {
		case failed[i] != nil:
			unseen = append(unseen, policies.Unseen{Resource: t.GroupResource().String(), Reason: "dry run: " + reasonOf(failed[i])})
		case lists[i] != nil && len(lists[i].Items) > 0:
			items := lists[i].Items
			object := items[max(0, slices.IndexFunc(items, func(o unstructured.Unstructured) bool { return len(o.GetFinalizers()) > 0 }))]
			subjects = append(subjects, Subject{Type: t, Namespace: namespace, Name: object.GetName(), Object: object.Object})
		}
	}
	return subjects, unseen, err
}

// release sends a dry run that removes the finalizers.
func (s Subject) release(ctx context.Context, client dynamic.Interface) policies.Result {
	if len((&unstructured.Unstructured{Object: s.Object}).GetFinalizers()) == 0 {
		return policies.Result{}
	}
	after, err := s.on(client).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && len(after.GetFinalizers()) > 0 {
		return refused(s, fmt.Sprintf("a dry run of the removal of its finalizers leaves %s: a webhook or a policy puts them back", strings.Join(after.GetFinalizers(), ", ")))
	}
	return judge(s, "the removal of its finalizers", err)
}

const deletion = "its deletion"

func judge(s Subject, what string, err error) policies.Result {
	if err == nil || apierrors.IsNotFound(err) { // deleted by now
		return policies.Result{}
	}
	code := int32(0)
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code = status.Status().Code
	}
	forbidden := apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ")
	later := apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err)
	if (apierrors.IsInternalError(err) || code >= 400 && code < 500 && !later) && !forbidden && !strings.Contains(err.Error(), "does not support dry run") {
		return refused(s, "a dry run of "+what+" is refused: "+err.Error())
	}
	return policies.Result{Unseen: []policies.Unseen{{What: fmt.Sprintf("dry run of %s of %s", what, s), Reason: reasonOf(err)}}}
}

func refused(s Subject, message string) policies.Result {
	return policies.Result{Findings: []policies.Finding{{
		Policy: dryRuns, Title: "Refused in a dry run", Certainty: policies.May, Severity: policies.Medium,
		Message: message, Objects: []policies.Object{s.ID()},
		Evidence: []string{"sent with your rights: the controllers that delete and clean up are other users"},
		Steps: []policies.Step{
			policies.Step{Kind: policies.Mend, Do: "Fix what the refusal names"}.WithPromise(policies.DeleteAgain),
			{Kind: policies.Remove, Do: "Or have the owner of the webhook or policy allow this deletion"},
		},
	}}}
}

type warningLog struct {
	mu    sync.Mutex
	texts []string
}

// maxWarned bounds recorded warnings: the webhook sends 15 per object at most.
const maxWarned = 1000

func (w *warningLog) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.texts) < maxWarned {
		w.texts = append(w.texts, text)
	}
}

// unknown returns findings for the guard's warnings that no finding has: it sees facts that the user cannot, but
// any webhook could send them.
func (w *warningLog) unknown(s Subject, findings []policies.Finding) (all []policies.Finding) {
	for i, text := range w.texts {
		policy := policies.PolicyOf(text)
		if policy == "" || slices.Contains(w.texts[:i], text) || slices.ContainsFunc(findings, func(f policies.Finding) bool { return f.Policy == policy }) {
			continue
		}
		all = append(all, policies.Finding{
			Policy: dryRuns, Title: "Warning in a dry run", Certainty: policies.May, Severity: policies.Medium,
			Message: "a webhook that answers dry runs warns: " + text, Objects: []policies.Object{s.ID()},
			Evidence: []string{"the webhook sees what you may not read, such as reports of node probes"},
			Remedy:   "Ask a user who may read termguard's namespace to run the same check, which shows the evidence and the steps.",
		})
	}
	return all
}

func reasonOf(err error) string {
	if apierrors.IsForbidden(err) {
		return "forbidden"
	}
	return err.Error()
}

// Reply is the answer of termguard's webhook, the guard, to a deletion.
type Reply string

const (
	Refuses Reply = "refuses" // and so does the API server
	Warns   Reply = "warns"   // allowed with a warning
	Allows  Reply = "allows"  // allowed without one, or not sent to the guard
	Unknown Reply = "unknown" // no dry run was sent or answered
)

// Guard is the guard's answer to a dry run.
type Guard struct {
	Answer Reply `json:"answer"`
	// Why the answer is unknown.
	Why string `json:"why,omitempty"`
}

// guardName is the webhook for deletes in deploy/.
const guardName = "delete.termguard.dev"

// addGuardOf adds the guard before a dry run, if the cluster has one.
func (item *Item) addGuardOf(world *cluster.World, s Subject) {
	if s.Terminating() {
		return
	}
	world.Read(func(f cluster.Facts) {
		for _, hook := range f.Webhooks() {
			if strings.HasPrefix(hook, "validating/") && strings.HasSuffix(hook, "/"+guardName) {
				item.Guard = &Guard{Answer: Unknown, Why: "--dry-run-deletes sends it a dry run, if you may delete the object"}
			}
		}
		if item.Guard == nil && f.Hides("validatingwebhookconfigurations.admissionregistration.k8s.io") {
			item.Guard = &Guard{Answer: Unknown, Why: "you may not read whether there is one; --dry-run-deletes sends it a dry run, if you may delete the object"}
		}
	})
}

// addUnasked adds webhooks whose answer only a dry run shows.
func (item *Item) addUnasked(world *cluster.World, s Subject, options map[string]any) {
	if s.Terminating() {
		return
	}
	world.Ask(s.Deletion(options), func(m cluster.Moment) {
		for _, key := range m.Guards() {
			kind, webhook, _ := strings.Cut(key, "/")
			configuration, name, _ := strings.Cut(webhook, "/")
			if name == guardName {
				continue
			}
			item.Findings = append(item.Findings, policies.Finding{
				Policy: dryRuns, Title: "Webhook not tried", Certainty: policies.May, Severity: policies.Info,
				Message:  fmt.Sprintf("webhook %s fails closed and matches DELETE %s: only a dry run shows its answer", webhook, item.Target.Resource),
				Objects:  []policies.Object{{Resource: kind + "webhookconfigurations.admissionregistration.k8s.io", Name: configuration}},
				Evidence: []string{}, Remedy: fmt.Sprintf("Send webhook %s a dry run: add --dry-run-deletes", name),
			})
		}
	})
}

func guardAnswer(err error, warnings []string) *Guard {
	switch {
	case err != nil && strings.Contains(err.Error(), `webhook "`+guardName+`"`):
		return &Guard{Answer: Refuses}
	case err != nil:
		return &Guard{Answer: Unknown, Why: "the dry run of the deletion ended before: " + reasonOf(err)}
	case slices.ContainsFunc(warnings, func(text string) bool { return strings.HasPrefix(text, policies.WarningStart) }):
		return &Guard{Answer: Warns}
	}
	return &Guard{Answer: Allows}
}

func (g *Guard) line() string {
	if g == nil {
		return ""
	}
	line := map[Reply]string{
		Refuses: "the webhook in this cluster would refuse it",
		Warns:   "the webhook in this cluster would warn, and allow it",
		Allows:  "the webhook in this cluster would allow it",
		Unknown: "unseen: the answer of the webhook in this cluster",
	}[g.Answer]
	if g.Why != "" {
		line += ": " + g.Why
	}
	return line
}
