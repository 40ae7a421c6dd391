// Package facts is the vocabulary of the facts: the document that policies read, groups of names in it, and
// helpers that all its writers share. It does not depend on the content of the facts.
package facts
