package lab

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

func TestObjects(t *testing.T) {
	t.Parallel()
	l, ctx := start(t), t.Context()
	const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.NAME.test}, spec: {group: NAME.test, scope: Namespaced, names: {plural: things, singular: thing, kind: Thing, shortNames: [NAME]},
  versions: [{name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}, {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}, {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}]}}`
	for _, name := range []string{"a", "b", "c"} {
		if err := l.Apply(ctx, strings.ReplaceAll(definition, "NAME", name)); err != nil {
			t.Fatal(err)
		}
		for _, resource := range []string{"things.v1.NAME.test", "things.NAME.test", "thing.NAME.test", "NAME"} {
			resource = strings.ReplaceAll(resource, "NAME", name)
			if objects, err := l.Objects(ctx, resource); err != nil || len(objects) != 0 {
				t.Errorf("%s: %d objects, %v", resource, len(objects), err)
			}
		}
	}
	for _, unknown := range []string{"nothings", "things.v0.a.test"} {
		if _, err := l.Objects(ctx, unknown); !meta.IsNoMatchError(err) {
			t.Errorf("of %s, which is not served: %v", unknown, err)
		}
	}
	if err := l.Apply(ctx, "{apiVersion: v1, kind: ConfigMap, metadata: {name: it, namespace: nowhere}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: beside, namespace: default, labels: {app: x}}, dat: {}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: after, labels: {app: x}}}"); err == nil || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), ".dat") {
		t.Errorf("a refused object: %v", err)
	}
	if objects, err := l.Objects(ctx, "cm", "-n", "default", "-l", "app=x"); err != nil || len(objects) != 1 || objects[0].GetName() != "after" {
		t.Errorf("objects with the label: %v, %v", objects, err)
	}

	it := []string{"thing.a.test", "it"}
	const object = "{apiVersion: a.test/v1, kind: Thing, metadata: {name: it, finalizers: [lab.test/held]}}"
	apply(t, l, object)
	kubectl(t, l, "delete", "thing.a.test", "it", "--wait=false")
	if gone, err := l.Gone(ctx, time.Second, it...); err != nil || gone {
		t.Errorf("while it is held: %v, %v", gone, err)
	}
	gone := make(chan bool)
	go func() {
		ok, err := l.Gone(ctx, time.Minute, it...)
		gone <- ok && err == nil
	}()
	kubectl(t, l, "patch", "thing.a.test", "it", "--type=merge", `-p={"metadata":{"finalizers":null}}`)
	apply(t, l, object)
	if !<-gone {
		t.Error("the deletion of the first object is not seen")
	}
	kubectl(t, l, "delete", "crd", "things.b.test", "--timeout=60s")
	if _, err := l.Objects(ctx, "things.c.test", "it"); !apierrors.IsNotFound(err) {
		t.Errorf("of none by the name: %v", err)
	}
}
