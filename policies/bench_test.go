package policies

import (
	"fmt"
	"strconv"
	"testing"
)

// cluster returns a facts document: half of the namespaces hold one object whose owner is not
// installed, and pods on three of their nodes; namespace "target" has finalized objects in buckets
// as the inventory builds them, one for each finalizer and resource.
func cluster(namespaces, finalized int) Document {
	gone := obj{"state": "absent", "certainty": "will", "owner": "Kiali operator", "clears": "kiali-remove playbook ran", "evidence": []any{"no Deployment kiali-operator", "no pod runs its image"}}
	alive := obj{"state": "alive", "certainty": "will", "owner": "cert-manager", "evidence": []any{"Deployment cert-manager has 1 ready pod"}}
	bucket := func(count int, ownership obj) obj {
		return obj{"SIG": obj{"count": count, "names": []any{"a", "b", "c", "d", "e"}[:min(5, count)], "ownership": ownership}}
	}
	all, pods, nodes := obj{}, obj{}, obj{}
	for i := range namespaces {
		ns, node := "ns-"+strconv.Itoa(i), "node-"+strconv.Itoa(i%1000)
		if i%2 == 0 {
			all[ns] = obj{"kiali.io/finalizer": obj{"kialis.kiali.io": bucket(1, gone)}}
		}
		pods[ns] = obj{node: obj{"count": 3, "names": []any{"a", "b", "c"}}}
		nodes[node] = obj{"ready": "True", "reason": "KubeletReady", "message": "", "since": "", "outOfService": false}
	}
	apiservices := obj{}
	for i := range 5 {
		apiservices[fmt.Sprintf("v1.g%d.example.com", i)] = obj{
			"group": fmt.Sprintf("g%d.example.com", i), "version": "v1", "service": obj{"namespace": "x", "name": "y"},
			"available": "True", "reason": "Passed", "message": "all checks passed", "stale": false, "listError": "",
		}
	}
	if finalized > 0 {
		all["target"] = obj{
			"kiali.io/finalizer":             obj{"kialis.kiali.io": bucket(finalized/2, gone)},
			"acme.cert-manager.io/finalizer": obj{"challenges.acme.cert-manager.io": bucket(finalized/2, alive)},
		}
	}
	pods["target"] = obj{"node-1": obj{"count": 2, "names": []any{"a", "b"}}, "node-2": obj{"count": 1, "names": []any{"c"}}}
	return Document{
		"apiVersion": "termguard.dev/v1", "kind": "Facts", "version": obj{"git": "v1.36.3", "bugs": obj{}},
		"apiservices": apiservices, "finalized": all, "podsByNode": pods, "nodes": nodes, "notReady": obj{}, "daemonsets": obj{}, "unseen": []any{},
	}
}

// BenchmarkNamespaceDelete reviews the DELETE of a namespace.
func BenchmarkNamespaceDelete(b *testing.B) {
	e := engine(b, EngineOptions{})
	oldObject := obj{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": obj{"name": "target", "uid": "u", "labels": obj{"kubernetes.io/metadata.name": "target"}},
		"spec":     obj{"finalizers": []any{"kubernetes"}}, "status": obj{"phase": "Active"},
	}
	for _, namespaces := range []int{100, 10_000} {
		for _, finalized := range []int{0, 10, 1_000, 10_000} {
			facts := cluster(namespaces, finalized)
			b.Run(fmt.Sprintf("namespaces=%d/finalized=%d", namespaces, finalized), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					result, err := e.Evaluate(b.Context(), Delete, deleteNamespace("target", oldObject), facts)
					if err != nil || len(result.Errors) > 0 || len(result.Findings) != min(1, finalized) {
						b.Fatalf("%v %+v", err, result)
					}
				}
			})
		}
	}
}
