// Package facts has the document that policies read, and helpers of its writers.
package facts
