// Package facts is the vocabulary of the facts: the document that policies read,
// groups of names in it, and what all who write into it have in common. It knows
// nothing of what the facts are about.
package facts
