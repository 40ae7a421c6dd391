package check

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/check/inventory"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// maxInventory bounds the objects of an inventory that are evaluated.
const maxInventory = 1000

// FromInventory returns the objects that Argo CD or Flux deletes together with one of its own objects; false
// for other or missing objects.
func FromInventory(ctx context.Context, config *rest.Config, name Name) (together Together, deletes bool, err error) {
	types, err := Served(ctx, config)
	if err != nil {
		return together, false, err
	}
	together.Types = &types
	s := Subject{Name: name.Name, Namespace: name.Namespace}
	if s.Type, err = types.Find(name.Type); err != nil || !slices.Contains(inventory.Resources, s.Type.GroupResource()) {
		return together, false, nil //nolint:nilerr // evaluating it reports the error
	}
	client, err := objectsOf(config)
	if err != nil {
		return together, false, err
	}
	switch err := s.read(ctx, client); {
	case Gone(err):
		return together, false, nil
	case err != nil:
		return together, false, err
	case len(s.Unseen) > 0:
		together.Names, together.Of, together.Unseen = []Name{name}, s.String(), s.Unseen
		return together, true, nil
	}
	object := &unstructured.Unstructured{Object: s.Object}
	switch s.Type.GroupResource() {
	case inventory.HelmReleases:
		namespace, release, stays := inventory.HelmRelease(object)
		if stays != "" {
			together.Notes = []string{stays}
			break
		}
		together, err = FromRelease(ctx, config, namespace, release)
	case inventory.ApplicationSets:
		together, err = applications(ctx, client, s, object)
	case inventory.Applications:
		together.take(inventory.Application(object), name.Namespace)
		if heals, _, _ := unstructured.NestedBool(s.Object, "spec", "syncPolicy", "automated", "selfHeal"); heals {
			unheal := &policies.Action{
				Verb: policies.VerbPatch, Objects: []string{s.Type.GroupResource().String() + "/" + s.Name}, Namespace: s.Namespace,
				Type: "merge", Patch: json.RawMessage(`{"spec":{"syncPolicy":{"automated":null}}}`),
			}
			together.first = []Step{{Step: policies.Step{
				Kind: policies.Mend, Do: "Stop Argo CD from recreating what is deleted by hand", Command: unheal.Command(), Action: unheal,
			}}}
		}
	default:
		together.take(inventory.Kustomization(object), name.Namespace)
		if len(together.Names) > 0 {
			interval, _, _ := unstructured.NestedString(s.Object, "spec", "interval")
			together.Notes = append(together.Notes, fmt.Sprintf("what is deleted by hand, Flux puts back at its next interval (%s): delete the Kustomization before that", interval))
		}
	}
	if err != nil || len(together.Names)+len(together.Notes)+len(together.Unseen) == 0 {
		return Together{Types: &types}, false, err // nothing is deleted with it
	}
	together.Of, together.Types, together.Command = s.String(), &types, deletionOf(s.ID()).Command()
	together.close(name)
	return together, true, nil
}

// applications returns the Applications of an ApplicationSet, and their objects.
func applications(ctx context.Context, client dynamic.Interface, s Subject, set *unstructured.Unstructured) (Together, error) {
	resource := inventory.Applications.WithVersion(s.Type.Version)
	list, err := client.Resource(resource).Namespace(s.Namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return Together{Unseen: []policies.Unseen{{Resource: resource.GroupResource().String(), Reason: "forbidden"}}}, nil
	}
	if err != nil {
		return Together{}, fmt.Errorf("list the Applications of %s: %w", s, explain(err))
	}
	var together Together
	owned := inventory.Owned(set, list.Items)
	for _, app := range owned {
		together.take(inventory.Application(app), s.Namespace)
		together.close(Name{Type: inventory.Applications.String(), Namespace: s.Namespace, Name: app.GetName()})
	}
	if len(owned) > 1 { // each has its own waves
		together.Waits = false
		for i := range together.Names {
			together.Names[i].Place = 0
		}
	}
	return together, nil
}

// take adds the objects of an inventory, in the order of their deletion. namespace is the default for
// namespaced kinds.
func (t *Together) take(i inventory.Inventory, namespace string) {
	t.By, t.Waits, t.kept = i.By, i.Waits, i.Kept
	if i.Foreground {
		t.Options = question.DeleteOptions(metav1.DeletePropagationForeground)
	}
	if i.Stays != "" {
		t.Notes = append(t.Notes, i.Stays)
		return
	}
	// Likely blockers first: there may be more objects than the limit.
	groups := cluster.BuiltinGroups()
	var others []inventory.Entry
	entries := slices.DeleteFunc(slices.Clone(i.Entries), func(e inventory.Entry) bool {
		builtin := slices.Contains(groups, e.Group)
		if builtin {
			others = append(others, e)
		}
		return builtin
	})
	entries = append(entries, others...)
	left := max(0, maxInventory-len(t.Names))
	if beyond := len(entries) - left; beyond > 0 {
		t.Unseen = append(t.Unseen, policies.Unseen{What: fmt.Sprintf("%d of the %d objects in the inventory", beyond, len(entries)), Reason: fmt.Sprintf("no more than %d are asked about", maxInventory)})
		entries = entries[:left]
	}
	for _, e := range entries {
		t.Names = append(t.Names, Name{Type: typeOf(e.WithVersion("")), Name: e.Name, Namespace: cmp.Or(e.Namespace, namespace), Place: -e.Wave})
	}
}

// close adds the object that owns the rest: it is deleted last.
func (t *Together) close(name Name) {
	for _, other := range t.Names {
		name.Place = max(name.Place, other.Place+1)
	}
	t.Names = append(t.Names, name)
}

// settle returns the subjects without those that the command keeps, by their annotations, and why.
func (t *Together) settle(subjects []Subject) (left []Subject, notes []string) {
	if t.kept == nil {
		return subjects, nil
	}
	return slices.DeleteFunc(slices.Clone(subjects), func(s Subject) bool {
		why := t.kept(&unstructured.Unstructured{Object: s.Object})
		if why != "" {
			notes = append(notes, fmt.Sprintf("it leaves %s: %s", s, why))
		}
		return why != ""
	}), notes
}
