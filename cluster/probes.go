package cluster

import "github.com/termguard/termguard/probe/report"

func (w *World) KeepReport(r report.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.KeepReport(r)
}

func (w *World) ForgetReport(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.ForgetReport(node)
}
