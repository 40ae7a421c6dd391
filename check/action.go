package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/policies"
)

// An action is what a command of a plan does to each of its objects.
type action struct {
	objects []Name
	// do changes one of them, if it still is the one that was noted.
	do func(context.Context, dynamic.ResourceInterface, string, types.UID, []string) error
}

// actionOf reads a command of a plan. It is false of what it does not know, which is for
// a person to run.
func actionOf(command string) (action, bool) {
	if a, ok := finalizing(command); ok {
		return a, true
	}
	words, simple := words(command)
	if !simple || len(words) < 3 || words[0] != "kubectl" {
		return action{}, false
	}
	verb, rest := words[1], words[2:]
	var a action
	var options map[string]string
	if a.objects, options = argumentsOf(rest); len(a.objects) == 0 || options == nil {
		return action{}, false
	}
	switch verb {
	case "patch":
		kinds := map[string]types.PatchType{"json": types.JSONPatchType, "merge": types.MergePatchType}
		kind, known := kinds[options["--type"]]
		a.do = func(ctx context.Context, objects dynamic.ResourceInterface, name string, uid types.UID, dry []string) error {
			patch, err := guarded(kind, options["-p"], uid)
			if err != nil {
				return err
			}
			_, err = objects.Patch(ctx, name, kind, patch, metav1.PatchOptions{DryRun: dry})
			return err
		}
		return a, known && options["-p"] != "" && only(options, "--type", "-p", "-n")
	case "scale":
		replicas, err := strconv.ParseInt(options["--replicas"], 10, 32)
		a.do = func(ctx context.Context, objects dynamic.ResourceInterface, name string, uid types.UID, dry []string) error {
			patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"replicas":%d}}`, uid, replicas)
			_, err := objects.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dry})
			return err
		}
		return a, err == nil && only(options, "--replicas", "-n")
	case "delete":
		delete := metav1.DeleteOptions{}
		propagation := cascades[options["--cascade"]]
		if options["--cascade"] == "" {
			propagation = metav1.DeletePropagationBackground
		}
		delete.PropagationPolicy = &propagation
		if grace, set := options["--grace-period"]; set {
			seconds, err := strconv.ParseInt(grace, 10, 64)
			if err != nil {
				return action{}, false
			}
			delete.GracePeriodSeconds = &seconds
		}
		a.do = func(ctx context.Context, objects dynamic.ResourceInterface, name string, uid types.UID, dry []string) error {
			delete := delete
			delete.DryRun, delete.Preconditions = dry, &metav1.Preconditions{UID: &uid}
			return objects.Delete(ctx, name, delete)
		}
		return a, propagation != "" && only(options, "--wait", "--cascade", "--force", "--grace-period", "-n")
	}
	return action{}, false
}

// argumentsOf are the objects and the options of a command of kubectl; the options are
// nil where it cannot be read.
func argumentsOf(words []string) (objects []Name, options map[string]string) {
	options = map[string]string{}
	var named []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch key, value, set := strings.Cut(word, "="); {
		case !strings.HasPrefix(word, "-"):
			named = append(named, word)
		case word == "-n" || word == "-p":
			if i++; i == len(words) {
				return nil, nil
			}
			options[word] = words[i]
		case set:
			options[key] = value
		default:
			options[key] = "true"
		}
	}
	typ := ""
	for i, word := range named {
		resource, name, slash := strings.Cut(word, "/")
		switch {
		case slash && typ == "":
			objects = append(objects, Name{Type: resource, Name: name, Namespace: options["-n"]})
		case !slash && i == 0:
			typ = word
		case !slash && typ != "":
			objects = append(objects, Name{Type: typ, Name: word, Namespace: options["-n"]})
		default:
			return nil, nil
		}
	}
	return objects, options
}

func only(options map[string]string, known ...string) bool {
	for option := range options {
		if !slices.Contains(known, option) {
			return false
		}
	}
	return true
}

// guarded is a patch that changes nothing but the object with this UID.
func guarded(kind types.PatchType, patch string, uid types.UID) ([]byte, error) {
	if kind == types.JSONPatchType {
		var changes []any
		if err := json.Unmarshal([]byte(patch), &changes); err != nil {
			return nil, fmt.Errorf("read the patch of the plan: %w", err)
		}
		test := map[string]any{"op": "test", "path": "/metadata/uid", "value": uid}
		return json.Marshal(append([]any{test}, changes...))
	}
	var change map[string]any
	if err := json.Unmarshal([]byte(patch), &change); err != nil {
		return nil, fmt.Errorf("read the patch of the plan: %w", err)
	}
	metadata := child(change, "metadata")
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = uid
	change["metadata"] = metadata
	return json.Marshal(change)
}

// finalizing reads the line that takes a finalizer out of the spec of a namespace, which
// only its subresource finalize does.
func finalizing(command string) (action, bool) {
	get, rest, _ := strings.Cut(command, " | jq ")
	program, put, _ := strings.Cut(rest, " | kubectl replace --raw ")
	got, simple := words(get)
	filter, alsoSimple := words(program)
	if !simple || !alsoSimple || len(got) < 4 || len(filter) != 1 || !slices.Equal(got[:3], []string{"kubectl", "get", "namespace"}) || !strings.HasSuffix(put, "/finalize -f -") {
		return action{}, false
	}
	list, ok := strings.CutPrefix(filter[0], ".spec.finalizers -= ")
	var finalizers []string
	if !ok || json.Unmarshal([]byte(list), &finalizers) != nil {
		return action{}, false
	}
	return action{
		objects: []Name{{Type: namespaces.Resource, Name: got[3]}},
		do: func(ctx context.Context, objects dynamic.ResourceInterface, name string, uid types.UID, dry []string) error {
			namespace, err := objects.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if namespace.GetUID() != uid {
				return errors.New("another of that name")
			}
			have, _, _ := unstructured.NestedStringSlice(namespace.Object, "spec", "finalizers")
			have = slices.DeleteFunc(have, func(f string) bool { return slices.Contains(finalizers, f) })
			if err := unstructured.SetNestedStringSlice(namespace.Object, have, "spec", "finalizers"); err != nil {
				return err
			}
			_, err = objects.Update(ctx, namespace, metav1.UpdateOptions{DryRun: dry}, "finalize")
			return err
		},
	}, true
}

// Hands carry out plans. They touch only objects that were there when the plan was made:
// each by its UID, so that one that was deleted and made anew is left alone.
type Hands struct {
	// DryRun has the API server check each request, and change nothing.
	DryRun bool

	// Types are those of the cluster, as it is now.
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

// Knows tells whether a step is one that hands can carry out.
func (h *Hands) Knows(s policies.Step) bool {
	_, ok := actionOf(s.Command)
	return ok
}

// Note remembers which objects the steps are about.
func (h *Hands) Note(ctx context.Context, plan []Step) error {
	var names []Name
	for _, step := range plan {
		if a, ok := actionOf(step.Command); ok {
			for _, name := range a.objects {
				if _, noted := h.uids[name]; !noted && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	uids := make([]types.UID, len(names))
	var reading errgroup.Group
	reading.SetLimit(reads)
	for i, name := range names {
		reading.Go(func() error {
			objects, err := h.objects(name)
			if err != nil {
				return nil //nolint:nilerr // told when the step comes
			}
			object, err := objects.Get(ctx, name.Name, metav1.GetOptions{})
			if err == nil {
				uids[i] = object.GetUID()
			} else if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
				return fmt.Errorf("read %s: %w", name, explain(err))
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	for i, name := range names {
		if uids[i] != "" {
			h.uids[name] = uids[i]
		}
	}
	return nil
}

// String is the object as it stands on the command line.
func (n Name) String() string {
	return shown(policies.Object{Resource: n.Type, Namespace: n.Namespace, Name: n.Name}, "")
}

func (h *Hands) objects(name Name) (dynamic.ResourceInterface, error) {
	typ, err := h.Types.Find(name.Type)
	if err != nil {
		return nil, err
	}
	if typ.Namespaced {
		return h.client.Resource(typ.GroupVersionResource).Namespace(name.Namespace), nil
	}
	return h.client.Resource(typ.GroupVersionResource), nil
}

// Do carries out a step. Each object is tried, and what became of each is told; the error
// joins those that failed. When ctx ends, the last that is told is the one whose request
// may have arrived.
func (h *Hands) Do(ctx context.Context, s policies.Step) (told []string, err error) {
	a, ok := actionOf(s.Command)
	if !ok {
		return nil, fmt.Errorf("this command is for you to run: %s", s.Command)
	}
	var failed []error
	for _, name := range a.objects {
		if ctx.Err() != nil {
			return told, errors.Join(append(failed, ctx.Err())...)
		}
		switch became, err := h.one(ctx, a, name); {
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

func (h *Hands) one(ctx context.Context, a action, name Name) (became string, err error) {
	uid, noted := h.uids[name]
	if !noted {
		return " was not there when the plan was made: left alone", nil
	}
	objects, err := h.objects(name)
	if err != nil {
		return "", err
	}
	var dry []string
	if h.DryRun {
		dry, became = []string{metav1.DryRunAll}, " (dry run)"
	}
	err = a.do(ctx, objects, name.Name, uid, dry)
	if err == nil {
		return became, nil
	}
	if ctx.Err() != nil {
		return "", err
	}
	switch now, lookErr := objects.Get(ctx, name.Name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(lookErr):
		return " is gone by now", nil
	case lookErr == nil && now.GetUID() != uid:
		return " was deleted and made anew: left alone", nil
	}
	return "", fmt.Errorf("%s: %w", name, explain(err))
}

// Deletion is the step that deletes a subject, which was noted as it was read.
func (h *Hands) Deletion(s Subject, options map[string]any) policies.Step {
	name := Name{Type: s.Type.GroupResource().String(), Name: s.Name, Namespace: s.Namespace}
	if uid := s.UID(); uid != "" {
		h.uids[name] = types.UID(uid)
	}
	command := deleting(s.id())
	if grace, set := options["gracePeriodSeconds"].(int64); set {
		command += fmt.Sprintf(" --grace-period=%d", grace)
	}
	if propagation, _ := options["propagationPolicy"].(string); propagation != "" && propagation != string(metav1.DeletePropagationBackground) {
		command += " --cascade=" + strings.ToLower(propagation)
	}
	return policies.Step{Kind: Delete, Do: "Delete " + s.String(), Command: command}
}

// Gone tells whether a subject is no longer there: gone, or another of its name is.
func (h *Hands) Gone(ctx context.Context, s Subject) (gone, anew bool, err error) {
	objects, err := h.objects(Name{Type: s.Type.GroupResource().String(), Name: s.Name, Namespace: s.Namespace})
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
