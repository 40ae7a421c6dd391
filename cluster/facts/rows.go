package facts

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Keeper keeps rows of one resource, as "plural.group". Keep reports whether there is anything to forget.
type Keeper struct {
	Resource string
	Keep     func(obj runtime.Object) bool
	Forget   func(key types.NamespacedName)
}

// Keep returns the keeper of objects of one Go type.
func Keep[T runtime.Object](resource string, keep func(T) bool, forget func(types.NamespacedName)) Keeper {
	return Keeper{resource, func(obj runtime.Object) bool {
		o, is := obj.(T)
		return is && keep(o)
	}, forget}
}

type object interface {
	runtime.Object
	metav1.Object
}

// Rows returns a keeper with a row for each object that reduce keeps. It calls changed after each change,
// with zero values for missing rows.
func Rows[T object, R any](resource string, rows map[types.NamespacedName]R, reduce func(T) (row R, kept bool), changed func(key types.NamespacedName, before, now R)) Keeper {
	var none R
	forget := func(key types.NamespacedName) {
		if before, had := rows[key]; had {
			delete(rows, key)
			changed(key, before, none)
		}
	}
	return Keep(resource, func(o T) bool {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		now, kept := reduce(o)
		if !kept {
			forget(key)
			return false
		}
		if before, had := rows[key]; !had || !reflect.DeepEqual(before, now) { // most updates change nothing
			rows[key] = now
			changed(key, before, now)
		}
		return true
	}, forget)
}
