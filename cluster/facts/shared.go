package facts

import "hash/maphash"

// Shared keeps each value that many records share once, while one uses it, in half the memory of package
// unique's handles.
type Shared[T comparable] struct {
	seed   maphash.Seed
	byHash map[uint64]*One[T]
}

// One is a value that records share. It must not be changed.
type One[T comparable] struct {
	Value T
	users int
	next  *One[T] // of the same hash
}

func NewShared[T comparable]() Shared[T] {
	return Shared[T]{seed: maphash.MakeSeed(), byHash: map[uint64]*One[T]{}}
}

// Take returns the value for one more record, which returns it with Drop.
func (s Shared[T]) Take(value T) *One[T] {
	hash := maphash.Comparable(s.seed, value)
	for one := s.byHash[hash]; one != nil; one = one.next {
		if one.Value == value {
			one.users++
			return one
		}
	}
	one := &One[T]{Value: value, users: 1, next: s.byHash[hash]}
	s.byHash[hash] = one
	return one
}

func (s Shared[T]) Drop(one *One[T]) {
	if one.users--; one.users > 0 {
		return
	}
	hash := maphash.Comparable(s.seed, one.Value)
	if first := s.byHash[hash]; first != one {
		for before := first; before != nil; before = before.next {
			if before.next == one {
				before.next = one.next
			}
		}
	} else if s.byHash[hash] = one.next; one.next == nil {
		delete(s.byHash, hash)
	}
}
