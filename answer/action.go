package answer

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// do applies an action to one object, if it still has the noted UID.
func do(ctx context.Context, a *policies.Action, objects dynamic.ResourceInterface, name string, uid types.UID, dry []string) error {
	switch a.Verb {
	case policies.VerbPatch:
		kind := map[string]types.PatchType{"json": types.JSONPatchType, "merge": types.MergePatchType}[a.Type]
		patch, err := guarded(kind, a.Patch, uid)
		if err != nil {
			return fmt.Errorf("read the patch of the plan: %w", err)
		}
		_, err = objects.Patch(ctx, name, kind, patch, metav1.PatchOptions{DryRun: dry})
		return err
	case policies.VerbScale:
		scale := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":%d}}`, uid, *a.Replicas)
		_, err := objects.Patch(ctx, name, types.MergePatchType, scale, metav1.PatchOptions{DryRun: dry})
		return err
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

// guarded returns a patch that applies only to the object with this UID.
func guarded(kind types.PatchType, patch []byte, uid types.UID) ([]byte, error) {
	if kind == types.JSONPatchType {
		var changes []any
		if err := json.Unmarshal(patch, &changes); err != nil {
			return nil, err
		}
		test := map[string]any{"op": "test", "path": "/metadata/uid", "value": uid}
		return json.Marshal(append([]any{test}, changes...))
	}
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(change, string(uid), "metadata", "uid"); err != nil {
		return nil, err
	}
	return json.Marshal(change)
}

func objectsIn(a *policies.Action) (names []Name) {
	if a == nil {
		return nil
	}
	for _, object := range a.Objects {
		resource, name, _ := strings.Cut(object, "/")
		names = append(names, Name{Type: resource, Name: name, Namespace: a.Namespace})
	}
	return names
}

// Hands execute plans on objects that existed when the plan was made, by UID: a recreated one is left alone.
type Hands struct {
	DryRun bool

	Types Types

	client dynamic.Interface
	uids   map[Name]types.UID
}

// NewHands connects to a cluster.
func NewHands(config *rest.Config) (*Hands, error) {
	client, err := objectsOf(config)
	if err != nil {
		return nil, err
	}
	return &Hands{client: client, uids: map[Name]types.UID{}}, nil
}

// Note records the UIDs of the steps' objects.
func (h *Hands) Note(ctx context.Context, plan []Step) error {
	var names []Name
	for _, step := range plan {
		names = append(names, objectsIn(step.Action)...)
	}
	names = slices.DeleteFunc(unique(names), func(name Name) bool { return h.uids[name] != "" })
	uids := make([]types.UID, len(names))
	err := parallel(ctx, reads, len(names), func(ctx context.Context, i int) error {
		objects, _, err := h.objects(names[i])
		if err != nil {
			return nil //nolint:nilerr // the step itself reports it
		}
		object, err := objects.Get(ctx, names[i].Name, metav1.GetOptions{})
		if err == nil {
			uids[i] = object.GetUID()
		} else if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("read %s: %w", names[i], explain(err))
		}
		return nil
	})
	for i, name := range names {
		if err == nil && uids[i] != "" {
			h.uids[name] = uids[i]
		}
	}
	return err
}

// Deed is a step with its class and objects, as they are now.
type Deed struct {
	Step
	Class   Class
	Objects []Touched
}

// Touched is an object of a step.
type Touched struct {
	Name
	Class Class
	// Whose is its owner by its metadata, as in "owned by ReplicaSet web-1".
	Whose string
	// Named says that a flag has to name it.
	Named bool
}

// Weigh gives a step the class of its gravest object. A deed with Advice is manual.
func (h *Hands) Weigh(ctx context.Context, s Step, targets []Subject) (Deed, error) {
	weighed := Deed{Step: s, Class: ClassWait}
	for _, name := range objectsIn(s.Action) {
		objects, typ, err := h.objects(name)
		if err != nil {
			weighed.Advice = err.Error()
			return weighed, nil
		}
		object, err := objects.Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			weighed.Advice = fmt.Sprintf("%s may not be read, so nobody knows whose it is", name)
			return weighed, nil
		case err != nil:
			return weighed, fmt.Errorf("read %s: %w", name, explain(err))
		}
		own := owns(targets, object)
		d := deed{s.Step, typ.GroupResource(), own, object.GetDeletionTimestamp() != nil, own || defines(targets, typ.GroupResource())}
		class, err := d.class()
		if err != nil {
			weighed.Advice = err.Error()
			return weighed, nil
		}
		weighed.Class = Worse(weighed.Class, class)
		weighed.Objects = append(weighed.Objects, Touched{name, class, whose(object), d.named(class)})
	}
	if s.Hearsay != "" && Worse(ClassOwn, weighed.Class) != ClassOwn {
		weighed.Advice = "it rests on " + s.Hearsay + ", which others may have written"
	}
	return weighed, nil
}

func owns(targets []Subject, object *unstructured.Unstructured) bool {
	return contain(targets, object.GetNamespace()) || slices.ContainsFunc(targets, func(t Subject) bool { return t.UID() == string(object.GetUID()) })
}

func contain(targets []Subject, namespace string) bool {
	return namespace != "" && slices.ContainsFunc(targets, func(t Subject) bool { return t.Type.GroupResource() == namespaces && t.Name == namespace })
}

// defines reports whether a target defines a resource, whose objects are deleted with it.
func defines(targets []Subject, resource schema.GroupResource) bool {
	return slices.ContainsFunc(targets, func(t Subject) bool {
		return t.Type.GroupResource() == definitions && t.Name == resource.String()
	})
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
	return "whose it is, its metadata does not tell"
}

func (n Name) String() string {
	return policies.Object{Resource: n.Type, Namespace: n.Namespace, Name: n.Name}.Ref()
}

// Same reports whether two names are of one object, by any alias of its type.
func (h *Hands) Same(a, b Name) bool {
	typeA, errA := h.Types.Find(a.Type)
	typeB, errB := h.Types.Find(b.Type)
	return errA == nil && errB == nil && typeA.GroupResource() == typeB.GroupResource() && a.Name == b.Name && a.Namespace == b.Namespace
}

func (h *Hands) objects(name Name) (dynamic.ResourceInterface, Type, error) {
	typ, err := h.Types.Find(name.Type)
	if !typ.Namespaced {
		name.Namespace = ""
	}
	return h.client.Resource(typ.GroupVersionResource).Namespace(name.Namespace), typ, err
}

// Do executes a step for each object; the error joins the failures. If ctx ends, the request of the last
// result may have arrived.
func (h *Hands) Do(ctx context.Context, s policies.Step) (told []string, err error) {
	if s.Action == nil {
		return nil, fmt.Errorf("this command is for you to run: %s", s.Command)
	}
	var failed []error
	for _, name := range objectsIn(s.Action) {
		if ctx.Err() != nil {
			return told, errors.Join(append(failed, ctx.Err())...)
		}
		switch became, err := h.one(ctx, s.Action, name); {
		case err != nil && ctx.Err() != nil:
			return append(told, name.String()+" (no answer came: it may be done)"), errors.Join(append(failed, ctx.Err())...)
		case err != nil:
			failed = append(failed, err)
		default:
			told = append(told, name.String()+became)
		}
	}
	return told, errors.Join(failed...)
}

func (h *Hands) one(ctx context.Context, a *policies.Action, name Name) (became string, err error) {
	uid, noted := h.uids[name]
	if !noted {
		return " was not there when the plan was made: left alone", nil
	}
	objects, _, err := h.objects(name)
	if err != nil {
		return "", err
	}
	var dry []string
	if h.DryRun {
		dry, became = []string{metav1.DryRunAll}, " (dry run)"
	}
	if err = do(ctx, a, objects, name.Name, uid, dry); err == nil || ctx.Err() != nil {
		return became, err
	}
	now, readErr := objects.Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(readErr):
		return " is gone by now", nil
	case readErr == nil && now.GetUID() != uid:
		return " was deleted and created again: left alone", nil
	case !errors.As(err, new(apierrors.APIStatus)):
		return "", fmt.Errorf("%s: no answer came, so it may be done: %w", name, explain(err))
	}
	return "", fmt.Errorf("%s: %w", name, explain(err))
}

// Deletion returns the deed that deletes a subject, and notes its UID.
func (h *Hands) Deletion(s Subject, options map[string]any) (Deed, error) {
	name := Name{Type: s.Type.GroupResource().String(), Name: s.Name, Namespace: s.Namespace}
	if uid := s.UID(); uid != "" {
		h.uids[name] = types.UID(uid)
	}
	a := deletionOf(s.ID())
	if grace, set := options["gracePeriodSeconds"].(int64); set {
		a.GraceSeconds = &grace
	}
	if propagation, _ := options["propagationPolicy"].(string); propagation != "" && propagation != string(metav1.DeletePropagationBackground) {
		a.Cascade = strings.ToLower(propagation)
	}
	step := policies.Step{Kind: Delete, Do: "Delete " + s.String(), Command: a.Command(), Action: a}
	d := deed{step, s.Type.GroupResource(), true, s.Terminating(), true}
	class, err := d.class()
	return Deed{Step: Step{Step: step}, Class: class, Objects: []Touched{{name, class, "a target", d.named(class)}}}, err
}

// Gone reports whether a subject no longer exists, and whether it was recreated.
func (h *Hands) Gone(ctx context.Context, s Subject) (gone, anew bool, err error) {
	objects, _, err := h.objects(Name{Type: s.Type.GroupResource().String(), Name: s.Name, Namespace: s.Namespace})
	if err != nil {
		return false, false, err
	}
	object, err := objects.Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, false, nil
	case err != nil:
		return false, false, fmt.Errorf("read %s: %w", s, explain(err))
	}
	anew = s.UID() != "" && string(object.GetUID()) != s.UID()
	return anew, anew, nil
}

// mostAlong bounds the named volumes.
const mostAlong = 10

// Along says what happens to the volumes of claims that are targets, or in a target namespace.
func (h *Hands) Along(ctx context.Context, targets []Subject) []string {
	if !slices.ContainsFunc(targets, func(s Subject) bool {
		return s.Type.GroupResource() == namespaces || s.Type.GroupResource().String() == "persistentvolumeclaims"
	}) {
		return nil
	}
	var failed error
	list := func(group, resource string) []unstructured.Unstructured {
		found, err := h.client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{})
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("list %s: %w", resource, explain(err)))
			return nil
		}
		return found.Items
	}
	told := along(list("", "persistentvolumes"), list("storage.k8s.io", "volumeattachments"), targets)
	told = page.Fold(told, mostAlong, "volume")
	if failed != nil {
		told = append(told, "unseen: what becomes of volumes: "+failed.Error())
	}
	return told
}

func along(volumes, attachments []unstructured.Unstructured, targets []Subject) (told []string) {
	for _, v := range volumes {
		at := func(fields ...string) string {
			text, _, _ := unstructured.NestedString(v.Object, append([]string{"spec"}, fields...)...)
			return text
		}
		namespace, claim := at("claimRef", "namespace"), at("claimRef", "name")
		if claim == "" || !contain(targets, namespace) && !slices.ContainsFunc(targets, func(t Subject) bool {
			return t.ID() == policies.Object{Resource: "persistentvolumeclaims", Namespace: namespace, Name: claim}
		}) {
			continue
		}
		what := fmt.Sprintf("volume %s (%s) of claim %s/%s", v.GetName(), at("capacity", "storage"), namespace, claim)
		if at("persistentVolumeReclaimPolicy") == "Delete" {
			told = append(told, what+" goes along, with its data: its reclaimPolicy is Delete")
			continue
		}
		line := what + " stays, Released: its reclaimPolicy is " + at("persistentVolumeReclaimPolicy")
		for _, a := range attachments {
			if name, _, _ := unstructured.NestedString(a.Object, "spec", "source", "persistentVolumeName"); name == v.GetName() {
				node, _, _ := unstructured.NestedString(a.Object, "spec", "nodeName")
				line += "; it is attached to node " + node
			}
		}
		told = append(told, line)
	}
	return told
}
