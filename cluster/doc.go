// Package cluster keeps the facts that decide whether a deletion finishes: one JSON document
// (policies/schema/cluster.schema.json), the same from a live cluster, a snapshot or manifests.
package cluster
