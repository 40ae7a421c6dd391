package ownership

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// A CSI driver's sidecars do nothing for other drivers' volumes. They learn their driver from a socket: here
// it shows only if their pod names it.

type sidecar struct {
	images []string
	// text is all that may name its driver.
	text    string
	account string
}

func isSidecar(image string) bool { return strings.HasPrefix(image, "csi-") }

func sidecarOf(pod *corev1.Pod) (s sidecar, kept bool) {
	s = sidecar{images: imagesOf(pod.Spec), account: accountOf(pod.Namespace, pod.Spec)}
	if !facts.Ready(pod) || pod.DeletionTimestamp != nil || !slices.ContainsFunc(s.images, isSidecar) {
		return s, false
	}
	texts := []string{pod.Name}
	for _, c := range pod.Spec.Containers {
		texts = slices.Concat(append(texts, c.Name, c.Image), c.Command, c.Args)
		for _, e := range c.Env {
			texts = append(texts, e.Value)
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.HostPath != nil {
			texts = append(texts, v.HostPath.Path)
		}
	}
	s.text = strings.Join(texts, "\n")
	return s, true
}

// judgeSidecar leaves it undecided if that depends on other evidence.
func (p *Part) judgeSidecar(q *question, image string) (_ judgement, decided bool) {
	j, driver := q.base, q.object.driver
	installed := p.installedDrivers()
	var silent []types.NamespacedName
	unnamed := maps.Clone(installed) // drivers that no sidecar names
	for _, key := range slices.SortedFunc(maps.Keys(p.sidecars), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		s := p.sidecars[key]
		if !slices.Contains(s.images, image) || p.terminates(key.Namespace) || !p.admits(q, s.account) {
			continue
		}
		if s.names(driver) {
			j.workloads = p.workloadsUnder(s.account)
			return j.is(Alive, true, "pod %s with a ready %s names driver %s", key, image, driver), true
		}
		maps.DeleteFunc(unnamed, func(other string, _ bool) bool { return s.names(other) })
		if !s.namesAny(installed) {
			silent = append(silent, key)
		}
	}
	accounts := map[string]bool{}
	for _, key := range silent {
		accounts[p.sidecars[key].account] = true
	}
	switch {
	case installed[driver] && len(accounts) >= len(unnamed) && len(silent) > 0:
		j.workloads = p.workloadsUnder(p.sidecars[silent[0]].account)
		return j.is(Alive, true, "driver %s is installed, and pod %s has a ready %s", driver, silent[0], image), true
	case installed[driver] && len(silent) > 0:
		return j.is(Unknown, false, "%d drivers are installed, and %d %s name none: whether one serves %s is unknown",
			len(unnamed), len(accounts), image, driver), true
	case installed[driver] || q.unread != "":
		return j, false // they may run outside the cluster
	}
	if hidden := p.driversHidden(); hidden != "" {
		return j.is(Unknown, false, "unseen: %s", hidden), true
	}
	j.owner = fmt.Sprintf("%s of CSI driver %s", image, driver)
	return j.is(Absent, true, "CSI driver %s is not installed: no CSIDriver, no node where it is registered, and no ready %s that names it", driver, image), true
}

// servesOthers reports whether an account's sidecars are other drivers', so that its removals say nothing.
func (p *Part) servesOthers(account, driver string) bool {
	installed := p.installedDrivers()
	some := installed[driver] || p.driversHidden() != ""
	ok := false
	for _, s := range p.sidecars {
		if s.account != account {
			continue
		}
		if s.names(driver) || some && !s.namesAny(installed) {
			return false
		}
		ok = true
	}
	return ok
}

// servesDriver is false if an account may run another driver's sidecars.
func (p *Part) servesDriver(q *question, account string) bool {
	installed := p.installedDrivers()
	if !q.sidecar || len(installed) == 1 && installed[q.object.driver] {
		return true
	}
	return facts.Any(p.sidecars, func(s sidecar) bool { return s.account == account && s.names(q.object.driver) })
}

func (p *Part) driversHidden() string {
	return p.hidden("pods", "deployments.apps", "statefulsets.apps", "daemonsets.apps", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "clusterroles"+rbacGroup, "clusterrolebindings"+rbacGroup)
}

// names also finds dashes for dots, as in leases and paths.
func (s sidecar) names(driver string) bool {
	return strings.Contains(s.text, driver) || strings.Contains(s.text, strings.ReplaceAll(driver, ".", "-"))
}

func (s sidecar) namesAny(drivers map[string]bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(drivers)), s.names)
}

func (p *Part) installedDrivers() map[string]bool {
	installed := map[string]bool{}
	for key := range p.drivers {
		installed[key.Name] = true
	}
	for _, drivers := range p.registered {
		for _, name := range drivers {
			installed[name] = true
		}
	}
	return installed
}

func registeredOn(o *storagev1.CSINode) (drivers []string, kept bool) {
	for _, d := range o.Spec.Drivers {
		drivers = append(drivers, d.Name)
	}
	slices.Sort(drivers)
	return drivers, true
}
