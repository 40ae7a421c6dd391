package facts

import (
	"hash/maphash"
	"testing"
)

// Values are kept once while a record has them, even if their hashes are the same.
func TestShared(t *testing.T) {
	s := NewShared[string]()
	a, again := s.Take("a"), s.Take("a")
	if a != again {
		t.Error("the same value is kept twice")
	}
	hash := maphash.Comparable(s.seed, "a")
	clash := &One[string]{Value: "b", users: 1, next: s.byHash[hash]} // as if its hash were that of "a"
	s.byHash[hash] = clash
	if s.Take("a") != a {
		t.Error("a value of the same hash hides another")
	}
	for range 3 {
		if s.byHash[hash] != clash || clash.next != a {
			t.Error("a value that a record still has was dropped")
		}
		s.Drop(a)
	}
	if clash.next != nil || len(s.byHash) != 1 {
		t.Errorf("a value is left that no record has: %v", clash.next)
	}
	if s.Drop(s.Take("c")); len(s.byHash) != 1 {
		t.Error("the only value of its hash is left")
	}
}
