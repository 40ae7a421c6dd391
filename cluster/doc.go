// Package cluster keeps the facts about a Kubernetes cluster that decide
// whether a deletion finishes: one JSON document, reduced to what policies
// read, the same from a live cluster, a snapshot file or manifests. Its shape
// is documented in policies/schema/cluster.schema.json.
//
// The package knows nothing of Rego.
package cluster
