package facts

import (
	"encoding/json"
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// Section is computed on read from its part's state: records of many objects would take more memory than all
// else.
type Section struct {
	// Keys returns the keys that may have a value.
	Keys func() iter.Seq[string]
	// Below returns the value of a key, or nil.
	Below func(key string) any
}

// SectionOf returns a section with a value, or nil, for each entry of a map.
func SectionOf[V any](entries map[string]V, below func(key string, of V) any) Section {
	return Section{
		Keys: func() iter.Seq[string] { return maps.Keys(entries) },
		Below: func(key string) any {
			if of, has := entries[key]; has {
				return below(key, of)
			}
			return nil
		},
	}
}

// Records returns a section of the rows of cluster-scoped objects, by name.
func Records[R any](rows map[types.NamespacedName]R, record func(name string, of R) any) Section {
	return Section{
		Keys: func() iter.Seq[string] {
			return func(yield func(string) bool) {
				for key := range rows {
					if !yield(key.Name) {
						return
					}
				}
			}
		},
		Below: func(name string) any {
			if of, has := rows[types.NamespacedName{Name: name}]; has {
				return record(name, of)
			}
			return nil
		},
	}
}

func (s Section) Get(key string) any { return s.Below(key) }

// All returns the section as a map.
func (s Section) All() map[string]any {
	all := map[string]any{}
	for key := range s.Keys() {
		switch below := s.Below(key).(type) {
		case nil:
		case Section:
			if inner := below.All(); len(inner) > 0 {
				all[key] = inner
			}
		default:
			all[key] = below
		}
	}
	return all
}

func (s Section) MarshalJSON() ([]byte, error) { return json.Marshal(s.All()) }
