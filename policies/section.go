package policies

// Section is a map of the facts that is computed on read.
type Section interface {
	Get(key string) any
	All() map[string]any
}

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
