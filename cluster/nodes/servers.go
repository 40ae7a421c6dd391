package nodes

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Servers of pods' volumes: a kubelet hangs when it unmounts NFS after the server is gone
// (https://github.com/kubernetes/kubernetes/issues/72048).

// serverAttribute has the server's address in the CSI driver for NFS
// (https://github.com/kubernetes-csi/csi-driver-nfs/blob/v4.11.0/docs/driver-parameters.md).
const serverAttribute = "server"

// serving is the port of NFS (RFC 7530, section 3.1). A pod that declares it may serve a volume.
const serving = 2049

type server struct {
	section string
	types.NamespacedName
}

func service(key types.NamespacedName) server { return server{"served", key} }

func servingPod(key types.NamespacedName) server { return server{"servedByPods", key} }

// servers resolves an address, an IP or a "namespace/name" from a DNS name, to a server.
type servers struct {
	services  map[types.NamespacedName][]string // IPs of Services, and of pods that serve NFS
	pods      map[types.NamespacedName][]string
	byIP      map[string]server        // the inverse of both
	users     facts.Sets[string, *pod] // pods with mounted volumes, by server address
	slices    map[types.NamespacedName]endpointSlice
	endpoints facts.Counts[types.NamespacedName] // EndpointSlices by Service
	ready     facts.Counts[types.NamespacedName] // with a ready endpoint
}

type endpointSlice struct {
	service types.NamespacedName
	ready   bool
}

// down reports whether a Service has no ready endpoint. If its selector matches no pod, it has one slice
// without endpoints (staging/src/k8s.io/endpointslice/reconciler.go, placeholderSlice); without any, the
// state is unknown.
func (s servers) down(service types.NamespacedName) bool {
	return s.endpoints[service] > 0 && s.ready[service] == 0
}

func newServers() servers {
	return servers{
		services: map[types.NamespacedName][]string{}, pods: map[types.NamespacedName][]string{}, byIP: map[string]server{}, users: facts.Sets[string, *pod]{},
		slices: map[types.NamespacedName]endpointSlice{}, endpoints: facts.Counts[types.NamespacedName]{}, ready: facts.Counts[types.NamespacedName]{},
	}
}

// addressesOf omits Services without backends of their own, which name something outside that outlives them.
func addressesOf(o *corev1.Service) (ips []string, kept bool) {
	headless := o.Spec.ClusterIP == corev1.ClusterIPNone
	if !headless {
		ips = slices.Concat([]string{o.Spec.ClusterIP}, o.Spec.ClusterIPs)
	}
	return ips, o.Spec.Type != corev1.ServiceTypeExternalName && (!headless || len(o.Spec.Selector) > 0)
}

func endpointsOf(o *discoveryv1.EndpointSlice) (s endpointSlice, kept bool) {
	return endpointSlice{types.NamespacedName{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]}, facts.AnyReady(o)}, true
}

func (p *Part) endpointsChanged(_ types.NamespacedName, before, now endpointSlice) {
	for of, by := range map[endpointSlice]int{before: -1, now: 1} {
		if of == (endpointSlice{}) {
			continue
		}
		if p.servers.endpoints.Add(of.service, by); of.ready {
			p.servers.ready.Add(of.service, by)
		}
	}
	for _, name := range []types.NamespacedName{before.service, now.service} {
		p.reserve(service(name), p.servers.services[name])
	}
}

// podAddressesOf keeps pods that serve NFS. A pod in the host network has no address of its own.
func podAddressesOf(o *corev1.Pod) (ips []string, kept bool) {
	for _, ip := range o.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	serves := slices.ContainsFunc(o.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.ContainerPort == serving })
	})
	return ips, serves && !o.Spec.HostNetwork && o.Status.Phase == corev1.PodRunning
}

func (p *Part) addressesChanged(of func(types.NamespacedName) server) func(key types.NamespacedName, before, now []string) {
	return func(key types.NamespacedName, before, now []string) {
		s := of(key)
		for _, ip := range before {
			if p.servers.byIP[ip] == s { // unless another server has it by now
				delete(p.servers.byIP, ip)
			}
		}
		for _, ip := range now {
			p.servers.byIP[ip] = s
		}
		p.reserve(s, slices.Concat(before, now))
	}
}

func (p *Part) reserve(s server, ips []string) {
	for _, address := range append([]string{s.String()}, ips...) {
		for o := range maps.Clone(p.servers.users[address]) {
			p.relist(o)
		}
	}
}

func (p *Part) listServed(o *pod, u *use) {
	addresses := map[string]bool{}
	for _, server := range u.servers {
		addresses[addressOf(server)] = true
	}
	for v := range p.volumesOf(o, u) {
		addresses[addressOf(v.server)] = true
	}
	delete(addresses, "")
	u.addresses = slices.Sorted(maps.Keys(addresses))
	for _, address := range u.addresses {
		p.servers.users.Add(address, o)
		by, ok := p.servers.byIP[address]
		if namespace, name, isName := strings.Cut(address, "/"); isName {
			by = service(types.NamespacedName{Namespace: namespace, Name: name})
			_, ok = p.servers.services[by.NamespacedName]
		}
		if !ok {
			continue
		}
		p.listIn(o, u, by.section, by.Namespace, by.Name, o.in.name)
		if by == service(by.NamespacedName) && p.servers.down(by.NamespacedName) {
			name := by.NamespacedName.String()
			u.unserved = append(u.unserved, name)
			p.listIn(o, u, "unserved", o.in.name, o.on.name, name)
		}
	}
}

// addressOf returns a server address as IP or "namespace/name" of the Service
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/); "" if it is neither.
func addressOf(server string) string {
	if ip, err := netip.ParseAddr(strings.Trim(server, "[]")); err == nil {
		return ip.String()
	}
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(server, ".")), ".")
	at := slices.Index(labels, "svc")
	if at < 0 && len(labels) == 2 {
		at = 2
	}
	if at < 2 {
		return ""
	}
	return labels[at-1] + "/" + labels[at-2]
}

// serverOf returns "" for a volume that is mounted soft: its client gives up.
func serverOf(pv *corev1.PersistentVolume) string {
	soft := slices.ContainsFunc(pv.Spec.MountOptions, func(option string) bool {
		return slices.ContainsFunc(strings.Split(option, ","), func(o string) bool { return o == "soft" || o == "softerr" })
	})
	switch {
	case soft:
		return ""
	case pv.Spec.NFS != nil:
		return pv.Spec.NFS.Server
	default:
		return pv.Spec.CSI.VolumeAttributes[serverAttribute]
	}
}
