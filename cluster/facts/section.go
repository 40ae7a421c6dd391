package facts

import (
	"encoding/json"
	"iter"
)

// Section is a part of the document that is made as it is read, from what its part
// keeps anyway: of many objects, records would take more than all else. To whoever
// reads it, it is a map.
type Section struct {
	// Keys are those that there may be something under.
	Keys func() iter.Seq[string]
	// Below is what stands under a key: nil for nothing.
	Below func(key string) any
}

// Get is what stands under a key: nil for nothing.
func (s Section) Get(key string) any { return s.Below(key) }

// All is the section as a map.
func (s Section) All() map[string]any {
	all := map[string]any{}
	for key := range s.Keys() {
		switch below := s.Below(key).(type) {
		case nil:
		case Section:
			all[key] = below.All()
		default:
			all[key] = below
		}
	}
	return all
}

// MarshalJSON writes it as that map.
func (s Section) MarshalJSON() ([]byte, error) { return json.Marshal(s.All()) }
