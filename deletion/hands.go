package deletion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Hands execute plans on objects that existed when the plan was made, by UID: a recreated one is left alone.
type Hands struct {
	DryRun bool
	Types  answer.Types

	client dynamic.Interface
	uids   map[policies.Object]types.UID
}

func NewHands(config *rest.Config) (*Hands, error) {
	client, err := answer.Client(config)
	if err != nil {
		return nil, err
	}
	return &Hands{client: client, uids: map[policies.Object]types.UID{}}, nil
}

// operation is a step with its class and objects, as they are now.
type operation struct {
	answer.Step
	class   Class
	objects []operand
}

type operand struct {
	Object string `json:"object"`
	// Whose is its owner by its metadata, as in "owned by ReplicaSet web-1".
	Whose string `json:"whose"`

	name  policies.Object
	class Class
	// named says that a flag has to name it, since the class alone would allow the step on any.
	named bool
}

func (h *Hands) objects(o policies.Object) (dynamic.ResourceInterface, answer.Type, error) {
	typ, err := h.Types.Find(o.Resource)
	if !typ.Namespaced {
		o.Namespace = ""
	}
	return h.client.Resource(typ.GroupVersionResource).Namespace(o.Namespace), typ, err
}

// same reports whether two names are of one object, by any alias of its type.
func (h *Hands) same(a, b policies.Object) bool {
	typeA, errA := h.Types.Find(a.Resource)
	typeB, errB := h.Types.Find(b.Resource)
	return errA == nil && errB == nil && typeA.GroupResource() == typeB.GroupResource() && a.Name == b.Name && a.Namespace == b.Namespace
}

// note records the UIDs of the steps' objects.
func (h *Hands) note(ctx context.Context, plan []answer.Step) error {
	var names []policies.Object
	for _, step := range plan {
		for _, o := range step.Action.Targets() {
			if h.uids[o] == "" && !slices.Contains(names, o) {
				names = append(names, o)
			}
		}
	}
	uids := make([]types.UID, len(names))
	err := answer.ReadEach(ctx, len(names), func(ctx context.Context, i int) error {
		objects, _, err := h.objects(names[i])
		if err != nil { // the step itself reports it
			return nil //nolint:nilerr
		}
		object, err := objects.Get(ctx, names[i].Name, metav1.GetOptions{})
		switch {
		case err == nil:
			uids[i] = object.GetUID()
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return fmt.Errorf("read %s: %w", names[i].Ref(), answer.Explain(err))
		}
		return nil
	})
	for i, o := range names {
		if uids[i] != "" {
			h.uids[o] = uids[i]
		}
	}
	return err
}

// weigh gives a step the class of its gravest object. An operation with Advice is manual.
func (h *Hands) weigh(ctx context.Context, s answer.Step, targets []answer.Subject) (operation, error) {
	d := operation{Step: s, class: ClassWait}
	for _, o := range s.Action.Targets() {
		objects, typ, err := h.objects(o)
		if err != nil {
			d.Advice = err.Error()
			return d, nil
		}
		object, err := objects.Get(ctx, o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			d.Advice = fmt.Sprintf("%s may not be read, so its owner is unknown", o.Ref())
			return d, nil
		case err != nil:
			return d, fmt.Errorf("read %s: %w", o.Ref(), answer.Explain(err))
		}
		resource := typ.GroupResource()
		own := answer.Contain(targets, object.GetNamespace()) || slices.ContainsFunc(targets, func(t answer.Subject) bool { return t.UID() == string(object.GetUID()) })
		class, err := ClassOf(s.Step, resource, own, object.GetDeletionTimestamp() != nil)
		if err != nil {
			d.Advice = err.Error()
			return d, nil
		}
		goes := own || answer.Define(targets, resource) // with a target in any case
		d.class = worse(d.class, class)
		d.objects = append(d.objects, operand{o.Ref(), whose(object), o, class, meaningOf(class).ByName || class == ClassStrip && !goes})
	}
	if s.Hearsay != "" && worse(ClassOwn, d.class) != ClassOwn {
		d.Advice = "it relies on " + s.Hearsay + ", which others may have written"
	}
	return d, nil
}

func whose(object *unstructured.Unstructured) string {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return "owned by " + owner.Kind + " " + owner.Name
	}
	if release := object.GetAnnotations()["meta.helm.sh/release-name"]; release != "" {
		return "of the Helm release " + release
	}
	if by := object.GetLabels()["app.kubernetes.io/managed-by"]; by != "" {
		return "managed by " + by
	}
	if fields := object.GetManagedFields(); len(fields) > 0 && fields[0].Manager != "" {
		return "made with " + fields[0].Manager
	}
	return "its metadata names no owner"
}

// deletion notes the UID of the subject, too.
func (h *Hands) deletion(s answer.Subject, options map[string]any) (operation, error) {
	if uid := s.UID(); uid != "" {
		h.uids[s.ID()] = types.UID(uid)
	}
	a := policies.Deletion(s.ID())
	if grace, set := options["gracePeriodSeconds"].(int64); set {
		a.GraceSeconds = &grace
	}
	if propagation, _ := options["propagationPolicy"].(string); propagation != "" && propagation != string(metav1.DeletePropagationBackground) {
		a.Cascade = strings.ToLower(propagation)
	}
	step := policies.Step{Kind: answer.Delete, Do: "Delete " + s.String(), Command: a.Command(), Action: a}
	class, err := ClassOf(step, s.Type.GroupResource(), true, s.Terminating())
	return operation{answer.Step{Step: step}, class, []operand{{s.String(), "a target", s.ID(), class, meaningOf(class).ByName}}}, err
}

func (h *Hands) gone(ctx context.Context, s answer.Subject) (gone, recreated bool, err error) {
	objects, _, err := h.objects(s.ID())
	if err != nil {
		return false, false, err
	}
	object, err := objects.Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, false, nil
	case err != nil:
		return false, false, fmt.Errorf("read %s: %w", s, answer.Explain(err))
	}
	recreated = s.UID() != "" && string(object.GetUID()) != s.UID()
	return recreated, recreated, nil
}

// do executes a step for each object; the error joins the failures. If ctx ends, the request of the last
// result may have arrived.
func (h *Hands) do(ctx context.Context, s policies.Step) (results []string, err error) {
	if s.Action == nil {
		return nil, fmt.Errorf("this command is for you to run: %s", s.Command)
	}
	var failed []error
	for _, o := range s.Action.Targets() {
		if ctx.Err() != nil {
			return results, errors.Join(append(failed, ctx.Err())...)
		}
		switch result, err := h.one(ctx, s.Action, o); {
		case err != nil && ctx.Err() != nil:
			return append(results, o.Ref()+" (no response: it may be done)"), errors.Join(append(failed, ctx.Err())...)
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", o.Ref(), err))
		default:
			results = append(results, o.Ref()+result)
		}
	}
	return results, errors.Join(failed...)
}

func (h *Hands) one(ctx context.Context, a *policies.Action, o policies.Object) (result string, err error) {
	uid, noted := h.uids[o]
	if !noted {
		return " did not exist when the plan was made: left alone", nil
	}
	objects, _, err := h.objects(o)
	if err != nil {
		return "", err
	}
	var dry []string
	if h.DryRun {
		dry, result = []string{metav1.DryRunAll}, " (dry run)"
	}
	if err = request(ctx, a, objects, o.Name, uid, dry); err == nil || ctx.Err() != nil {
		return result, err
	}
	now, readErr := objects.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(readErr):
		return " was deleted meanwhile", nil
	case readErr == nil && now.GetUID() != uid:
		return " was recreated: left alone", nil
	case !errors.As(err, new(apierrors.APIStatus)):
		return "", fmt.Errorf("no response, so it may be done: %w", answer.Explain(err))
	}
	return "", answer.Explain(err)
}

// request applies an action to one object, if it still has the noted UID.
func request(ctx context.Context, a *policies.Action, objects dynamic.ResourceInterface, name string, uid types.UID, dry []string) error {
	patch := func(kind types.PatchType, patch []byte) error {
		_, err := objects.Patch(ctx, name, kind, patch, metav1.PatchOptions{DryRun: dry})
		return err
	}
	switch a.Verb {
	case policies.VerbPatch:
		kind, bound, err := boundPatch(a, uid)
		if err != nil {
			return fmt.Errorf("read the patch of the plan: %w", err)
		}
		return patch(kind, bound)
	case policies.VerbScale:
		return patch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":%d}}`, uid, *a.Replicas))
	case policies.VerbFinalize:
		namespace, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if namespace.GetUID() != uid {
			return errors.New("another of that name")
		}
		have, _, _ := unstructured.NestedStringSlice(namespace.Object, "spec", "finalizers")
		have = slices.DeleteFunc(have, func(f string) bool { return slices.Contains(a.Finalizers, f) })
		if err := unstructured.SetNestedStringSlice(namespace.Object, have, "spec", "finalizers"); err != nil {
			return err
		}
		_, err = objects.Update(ctx, namespace, metav1.UpdateOptions{DryRun: dry}, "finalize")
		return err
	}
	propagation := question.Cascades[cmp.Or(a.Cascade, "background")]
	return objects.Delete(ctx, name, metav1.DeleteOptions{
		PropagationPolicy: &propagation, GracePeriodSeconds: a.GraceSeconds,
		DryRun: dry, Preconditions: &metav1.Preconditions{UID: &uid},
	})
}

// boundPatch applies only to the object with this UID.
func boundPatch(a *policies.Action, uid types.UID) (kind types.PatchType, patch []byte, err error) {
	if a.Type == "json" {
		var changes []any
		if err := json.Unmarshal(a.Patch, &changes); err != nil {
			return "", nil, err
		}
		patch, err = json.Marshal(slices.Insert(changes, 0, any(map[string]any{"op": "test", "path": "/metadata/uid", "value": uid})))
		return types.JSONPatchType, patch, err
	}
	var change map[string]any
	if err := json.Unmarshal(a.Patch, &change); err != nil {
		return "", nil, err
	}
	if err := unstructured.SetNestedField(change, string(uid), "metadata", "uid"); err != nil {
		return "", nil, err
	}
	patch, err = json.Marshal(change)
	return types.MergePatchType, patch, err
}
