package facts

// Sets are sets of values by key, none of them empty.
type Sets[K, V comparable] map[K]map[V]bool

func (s Sets[K, V]) Add(key K, value V) {
	if s[key] == nil {
		s[key] = map[V]bool{}
	}
	s[key][value] = true
}

func (s Sets[K, V]) Remove(key K, value V) {
	if delete(s[key], value); len(s[key]) == 0 {
		delete(s, key)
	}
}

func (s Sets[K, V]) Set(key K, value V, in bool) {
	if in {
		s.Add(key, value)
	} else {
		s.Remove(key, value)
	}
}

// Counts are counts by key, none of them 0.
type Counts[K comparable] map[K]int

// Add adds to a key's count, and returns it.
func (c Counts[K]) Add(key K, n int) int {
	if c[key] += n; c[key] == 0 {
		delete(c, key)
	}
	return c[key]
}

// Any reports whether a value of a map is one.
func Any[K comparable, V any](of map[K]V, is func(V) bool) bool {
	for _, v := range of {
		if is(v) {
			return true
		}
	}
	return false
}
