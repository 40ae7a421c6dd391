package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Leaks means that guarded resources are leaked.
const Leaks = "leaks"

// Edit removes finalizers by hand. The objects of Remains then exist only if the outcome is Leaks.
type Edit struct {
	// Object is named as for kubectl get.
	Object string `json:"object"`
	// Metadata is the new metadata.finalizers.
	Metadata []string `json:"metadata,omitempty"`
	// Spec is the new spec.finalizers of a namespace, by PUT on namespaces/finalize.
	Spec []string `json:"spec,omitempty"`
	Then []string `json:"then,omitempty"`
}

func (e *Edit) finalize() bool { return e.Spec != nil }

func (g *Guarded) edited(ctx context.Context, e *Edit) (before, after *unstructured.Unstructured, err error) {
	before, err = g.object(ctx, strings.Fields(e.Object)...)
	if err != nil {
		return nil, nil, err
	}
	after = before.DeepCopy()
	if !e.finalize() {
		after.SetFinalizers(e.Metadata)
		return before, after, nil
	}
	err = unstructured.SetNestedStringSlice(after.Object, e.Spec, "spec", "finalizers")
	return before, after, err
}

func (g *Guarded) object(ctx context.Context, name ...string) (*unstructured.Unstructured, error) {
	objects, err := g.Objects(ctx, name...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %v: %w", name, err)
	case len(objects) != 1:
		return nil, fmt.Errorf("read %v: want one object, there are %d", name, len(objects))
	}
	return &objects[0], nil
}

func (g *Guarded) edit(ctx context.Context, e *Edit, ask bool) ([]string, error) {
	_, after, err := g.edited(ctx, e)
	if err != nil {
		return nil, err
	}
	after.SetResourceVersion("") // any version: its conditions change
	text, err := json.Marshal(after.Object)
	if err != nil {
		return nil, err
	}
	args := []string{"replace", "-f", "-"}
	path := "/api/v1/namespaces/" + after.GetName() + "/finalize"
	switch {
	case e.finalize() && ask:
		args = append(args, "--raw", path+"?dryRun=All")
	case e.finalize():
		args = append(args, "--raw", path)
	case ask:
		args = append(args, "--dry-run=server")
	}
	r, err := g.KubectlWith(ctx, string(text), args...)
	if err != nil || r.Code != 0 {
		return nil, errors.Join(err, fmt.Errorf("edit %s: %s", e.Object, r.Stderr))
	}
	return Warnings(r.Stderr), nil
}
