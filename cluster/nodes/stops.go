package nodes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
)

const maxStops = 1000

// Stop is a pod whose kubelet finished with it.
type Stop struct {
	Namespace, Workload string // as workloadOf returns it
	Requested, Finished time.Time
}

// workloadOf returns a pod's workload as "Kind/name", "" without a controller.
func workloadOf(o *corev1.Pod) string {
	kind, name := facts.Controller(o)
	if name == "" {
		return ""
	}
	return kind.Kind + "/" + name
}

// RecordDeletion records how long a deleted pod took, if its containers had ended by the given time: otherwise it was
// removed by force.
func (p *Part) RecordDeletion(key types.NamespacedName, at time.Time) {
	entry := p.pod(key)
	if entry == nil || len(p.stops) == maxStops {
		return
	}
	workload, leaves := entry.alike.Value.workload, entry.leaves()
	if leaves == nil || !leaves.ended || workload == "" {
		return
	}
	p.stops = append(p.stops, Stop{key.Namespace, workload, leaves.deletedAt, at})
}

// Stops returns the stops since the last call.
func (p *Part) Stops() []Stop {
	stops := p.stops
	p.stops = nil
	return stops
}

// SetStops replaces how long pods took to stop, by namespace and workload.
func (p *Part) SetStops(took map[string]map[string]learned.Durations) {
	p.took = took
	stops := facts.Document{}
	for namespace, byWorkload := range took {
		for workload, d := range byWorkload {
			stops.Put(d.Facts(), namespace, workload)
		}
	}
	p.doc["stops"] = map[string]any(stops)
}

func (p *Part) Took(namespace, workload string) (d learned.Durations, seen bool) {
	d, seen = p.took[namespace][workload]
	return d, seen
}
