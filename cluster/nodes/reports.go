package nodes

import (
	"maps"
	"time"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/probe/report"
)

// KeepReport records a node probe's findings and omissions. Without any it leaves no entry, so that policies are
// evaluated only for pods of other nodes.
func (p *Part) KeepReport(r report.Report) {
	p.ForgetReport(r.Node)
	all, byPod := []any{}, map[string]any{}
	for _, f := range r.Findings {
		if f.Certainty != report.Will && f.Certainty != report.May {
			continue
		}
		entry := map[string]any{"cause": string(f.Cause), "certainty": string(f.Certainty), "evidence": f.Evidence, "remedy": f.Remedy}
		if f.Pod == nil {
			all = append(all, entry)
			continue
		}
		entry["uid"] = f.Pod.UID
		in := facts.Document(byPod).Child(f.Pod.Namespace)
		of, _ := in[f.Pod.Name].([]any)
		in[f.Pod.Name] = append(of, entry)
	}
	if len(all)+len(byPod)+len(r.Unseen) > 0 {
		unseen := []any{}
		for _, missed := range r.Unseen {
			unseen = append(unseen, missed)
		}
		p.doc.Child("probes")[r.Node] = map[string]any{"at": r.Time.UTC().Format(time.RFC3339), "all": all, "pods": byPod, "unseen": unseen}
	}
}

func (p *Part) ForgetReport(node string) { p.doc.Prune("probes", node) }

// ForgetReports forgets the reports of nodes until it is undone.
func (p *Part) ForgetReports(nodes []string) (undo func()) {
	probes := p.doc.Child("probes")
	before := maps.Clone(probes)
	for _, node := range nodes {
		p.ForgetReport(node)
	}
	return func() { maps.Copy(probes, before) }
}
