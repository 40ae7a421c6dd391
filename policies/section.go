package policies

// Section is a map of the facts that is made as it is read.
type Section interface {
	// Get is what stands under a key: nil for nothing.
	Get(key string) any
	// All is the map.
	All() map[string]any
}

// whole is a value of the facts, a section as the map that it stands for.
func whole(value any) any {
	if section, is := value.(Section); is {
		return section.All()
	}
	return value
}

func under(value any, key string) any {
	switch v := value.(type) {
	case map[string]any:
		return v[key]
	case Section:
		return v.Get(key)
	}
	return nil
}
