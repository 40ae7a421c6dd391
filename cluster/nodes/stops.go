package nodes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// maxStops bounds the pods that are gone and not asked about yet.
const maxStops = 1000

// Stop is a pod that its kubelet finished with.
type Stop struct {
	Namespace, Workload string // as workloadOf has it
	Asked, Gone         time.Time
}

// workloadOf is what a pod is one of, as "Kind/name"; "" if it stands alone.
func workloadOf(o *corev1.Pod) string {
	kind, name := facts.Controller(o)
	if name == "" {
		return ""
	}
	return kind.Kind + "/" + name
}

// Gone takes in that a pod is gone, at a time: how long it took, if its containers had
// ended before. Of others, somebody removed no more than the object.
func (p *Part) Gone(key types.NamespacedName, at time.Time) {
	gone := p.pod(key)
	if gone == nil || len(p.stops) == maxStops {
		return
	}
	workload, leaves := gone.alike.Value.workload, gone.leaves()
	if leaves == nil || !leaves.ended || workload == "" {
		return
	}
	p.stops = append(p.stops, Stop{key.Namespace, workload, leaves.asked, at})
}

// Stops are those that were taken in since the last time.
func (p *Part) Stops() []Stop {
	stops := p.stops
	p.stops = nil
	return stops
}

// SetStops replaces what is known of how long pods take to stop, by namespace and
// workload, as the document has it.
func (p *Part) SetStops(known map[string]any) { p.doc["stops"] = known }
