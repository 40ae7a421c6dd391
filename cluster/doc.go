// Package cluster keeps the facts about a Kubernetes cluster that decide whether a deletion finishes: one
// JSON document, reduced to the data that policies read, the same from a live cluster, a snapshot file or
// manifests. Its schema is policies/schema/cluster.schema.json.
//
// The package does not depend on Rego.
package cluster
