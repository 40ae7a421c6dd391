package cluster

import "github.com/termguard/termguard/probe/report"

// KeepReport adds the report of a node probe.
func (w *World) KeepReport(r report.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.KeepReport(r)
}

// ForgetReport removes the report about a node.
func (w *World) ForgetReport(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.ForgetReport(node)
}
