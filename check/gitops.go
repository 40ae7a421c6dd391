package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
func FromInventory(ctx context.Context, config *rest.Config, name Name) (Together, bool, error) {
	if typ, _, _ := strings.Cut(strings.ToLower(name.Type), "."); !slices.Contains(inventoryNames, typ) {
		return Together{}, false, nil
	}
	types, err := Served(ctx, config)
	if err != nil {
		return Together{}, false, err
	}
	client, err := objectsOf(config)
	if err != nil {
		return Together{}, false, err
	}
	s := Subject{Name: name.Name, Namespace: name.Namespace}
	if s.Type, err = types.Find(name.Type); err != nil || !keepsInventory(s.Type) {
		return Together{}, false, nil //nolint:nilerr // evaluating it reports the error
	}
	switch err := s.read(ctx, client); {
	case errors.As(err, new(missingError)):
		return Together{}, false, nil
	case err != nil:
		return Together{}, false, err
	case len(s.Unseen) > 0:
		return Together{Names: []Name{name}, Of: s.String(), Unseen: s.Unseen, Types: &types}, true, nil
	}
	object := &unstructured.Unstructured{Object: s.Object}
	var together Together
	switch s.Type.GroupResource() {
	case inventory.HelmReleases:
		namespace, release, stays := inventory.HelmRelease(object)
		if stays != "" {
			together.Notes = []string{stays}
			break
		}
		if together, err = FromRelease(ctx, config, namespace, release); err != nil {
			return Together{}, false, err
		}
	case inventory.ApplicationSets:
		if together, err = applications(ctx, client, s, object); err != nil {
			return Together{}, false, err
		}
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
	if len(together.Names)+len(together.Notes)+len(together.Unseen) == 0 {
		return Together{}, false, nil // nothing is deleted with it
	}
	together.Of, together.Types = s.String(), &types
	together.Command = deletionOf(s.ID()).Command()
	together.close(name)
	return together, true, nil
}

// inventoryNames are the names of the types on the command line.
var inventoryNames = []string{
	"application", "applications", "app", "apps", "applicationset", "applicationsets", "appset", "appsets",
	"kustomization", "kustomizations", "ks", "helmrelease", "helmreleases", "hr",
}

func keepsInventory(t Type) bool {
	return slices.Contains(inventory.Resources, t.GroupResource())
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
	builtin := cluster.BuiltinGroups()
	entries := slices.Clone(i.Entries)
	slices.SortStableFunc(entries, func(a, b inventory.Entry) int {
		ofA, ofB := slices.Contains(builtin, a.Group), slices.Contains(builtin, b.Group)
		switch {
		case ofA == ofB:
			return 0
		case ofB:
			return -1
		}
		return 1
	})
	left := max(0, maxInventory-len(t.Names))
	if beyond := len(entries) - left; beyond > 0 {
		t.Unseen = append(t.Unseen, policies.Unseen{What: fmt.Sprintf("%d of the %d objects in the inventory", beyond, len(entries)), Reason: fmt.Sprintf("no more than %d are asked about", maxInventory)})
		entries = entries[:left]
	}
	for _, e := range entries {
		in := e.Namespace
		if in == "" {
			in = namespace
		}
		t.Names = append(t.Names, Name{Type: typeOf(e.WithVersion("")), Name: e.Name, Namespace: in, Place: -e.Wave})
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
