package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestServed checks which pods a Service serves, by the server that a volume names.
func TestServed(t *testing.T) {
	const service = "{apiVersion: v1, kind: Service, metadata: {name: nfs, namespace: files}, spec: {selector: {a: b}, clusterIP: 10.0.0.7, clusterIPs: [10.0.0.7, 'fd00::7']}}\n---\n"
	pod := func(volume string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: demo}, spec: {nodeName: n1, volumes: [{name: v, " + volume + "}]}, status: {phase: Running}}\n---\n"
	}
	inline := func(server string) string { return pod("nfs: {path: /, server: '" + server + "'}") }
	claim := func(spec string) string {
		return pod("persistentVolumeClaim: {claimName: c}") +
			"{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {claimRef: {namespace: demo, name: c}, " + spec + "}, status: {phase: Bound}}\n---\n"
	}
	tests := map[string]struct {
		reason, cluster string
		served          bool
	}{
		"name of a Service":           {"as DNS has it", service + inline("nfs.files.svc.cluster.local"), true},
		"another domain":              {"a cluster may have any", service + inline("NFS.files.svc.example.org."), true},
		"name without svc":            {"a resolver's search list completes it", service + inline("nfs.files"), true},
		"name of a pod of it":         {"a pod of a headless Service is deleted with it", service + inline("nfs-0.nfs.files.svc"), true},
		"address":                     {"most volumes have an address, as nodes do not use the cluster's DNS", service + inline("10.0.0.7"), true},
		"the other address":           {"a Service may have two", service + inline("[fd00:0::7]"), true},
		"volume":                      {"it names the server for the claim", service + claim("nfs: {path: /, server: 10.0.0.7}"), true},
		"volume of the CSI driver":    {"the kubelet calls the driver, which waits for the server", service + claim("csi: {driver: nfs.csi.k8s.io, volumeHandle: h, volumeAttributes: {server: nfs.files.svc}}"), true},
		"inline volume of the driver": {"the same", service + pod("csi: {driver: nfs.csi.k8s.io, volumeAttributes: {server: nfs.files.svc}}"), true},
		"headless":                    {"its name means its pods", "{apiVersion: v1, kind: Service, metadata: {name: nfs, namespace: files}, spec: {selector: {a: b}, clusterIP: None}}\n---\n" + inline("nfs.files.svc"), true},

		"soft":                      {"the client gives up", service + claim("mountOptions: ['ro,soft'], nfs: {path: /, server: 10.0.0.7}"), false},
		"another address":           {"a server elsewhere", service + inline("10.0.0.8"), false},
		"another Service":           {"it does not exist", service + inline("nfs.other.svc"), false},
		"a host":                    {"names of one label are resolved by the node", service + inline("nfs"), false},
		"a host that is called svc": {"the name has no Service and namespace before svc", service + inline("files.svc"), false},
		"name of an outside host":   {"that stays", "{apiVersion: v1, kind: Service, metadata: {name: nfs, namespace: files}, spec: {type: ExternalName, externalName: nas}}\n---\n" + inline("nfs.files.svc"), false},
		"without pods":              {"its addresses were written by hand, and lead elsewhere", "{apiVersion: v1, kind: Service, metadata: {name: nfs, namespace: files}, spec: {clusterIP: None}}\n---\n" + inline("nfs.files.svc"), false},
		"none":                      {"an attribute that is missing is no address", service + pod("csi: {driver: x}"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := at(world(t, tc.cluster), "served", "files", "nfs", "demo", "count")
			if want := map[bool]any{true: 1, false: nil}[tc.served]; got != want {
				t.Errorf("%s\ngot %v, want %v", tc.reason, got, want)
			}
		})
	}
}

// TestServedByPods checks which pods serve a volume that names their own addresses.
func TestServedByPods(t *testing.T) {
	const client = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: demo}, spec: {nodeName: n1, volumes: [{name: v, nfs: {path: /, server: 10.1.0.7}}]}, status: {phase: Running}}\n---\n"
	for name, tc := range map[string]struct {
		reason, spec, status string
		served               bool
	}{
		"port":        {"it declares the NFS port", "ports: [{containerPort: 2049}]}]", "phase: Running, podIPs: [{ip: 10.1.0.7}]", true},
		"second":      {"a pod may have two addresses", "ports: [{containerPort: 2049}]}]", "phase: Running, podIPs: [{ip: 'fd00::7'}, {ip: 10.1.0.7}]", true},
		"no port":     {"undeclared ports are not searched among all pods", "ports: [{containerPort: 80}]}]", "phase: Running, podIPs: [{ip: 10.1.0.7}]", false},
		"node's":      {"the address is the node's, which stays", "ports: [{containerPort: 2049}]}], hostNetwork: true", "phase: Running, podIPs: [{ip: 10.1.0.7}]", false},
		"ended":       {"its address may be another's by now", "ports: [{containerPort: 2049}]}]", "phase: Succeeded, podIPs: [{ip: 10.1.0.7}]", false},
		"not started": {"it has none yet", "ports: [{containerPort: 2049}]}]", "phase: Pending", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := "{apiVersion: v1, kind: Pod, metadata: {name: nfs-0, namespace: files}, spec: {nodeName: n1, containers: [{name: c, " + tc.spec + "}, status: {" + tc.status + "}}\n---\n"
			for _, order := range []string{server + client, client + server} {
				got := at(world(t, order), "servedByPods", "files", "nfs-0", "demo", "count")
				if want := map[bool]any{true: 1, false: nil}[tc.served]; got != want {
					t.Errorf("%s\ngot %v, want %v", tc.reason, got, want)
				}
			}
		})
	}
}

// TestUnserved checks which pods have a server that is down, in any order of arrival.
func TestUnserved(t *testing.T) {
	const service = "{apiVersion: v1, kind: Service, metadata: {name: nfs, namespace: files}, spec: {selector: {a: b}, clusterIP: 10.0.0.7}}\n---\n"
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: demo}, spec: {nodeName: n1, volumes: [{name: v, nfs: {path: /, server: 10.0.0.7}}]}, status: {phase: Running}}\n---\n"
	slice := func(name, of, endpoints string) string {
		return "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: " + name + ", namespace: files, labels: {kubernetes.io/service-name: " + of + "}}, addressType: IPv4, endpoints: [" + endpoints + "]}\n---\n"
	}
	ready, unready := "{addresses: [10.1.0.7], conditions: {ready: true}}", "{addresses: [10.1.0.8], conditions: {ready: false}}"
	for name, tc := range map[string]struct {
		reason, slices string
		down           bool
	}{
		"empty":             {"its selector finds no pod", slice("nfs-1", "nfs", ""), true},
		"not ready":         {"its pods do not start", slice("nfs-1", "nfs", unready), true},
		"ready":             {"one is enough", slice("nfs-1", "nfs", unready+", "+ready), false},
		"says nothing":      {"which means ready (EndpointConditions)", slice("nfs-1", "nfs", "{addresses: [10.1.0.7]}"), false},
		"ready in another":  {"a Service may have many slices", slice("nfs-1", "nfs", "") + slice("nfs-2", "nfs", ready), false},
		"became ready":      {"the last word counts", slice("nfs-1", "nfs", "") + slice("nfs-1", "nfs", ready), false},
		"became unready":    {"the last word counts", slice("nfs-1", "nfs", ready) + slice("nfs-1", "nfs", unready), true},
		"another's":         {"it does not concern this one", slice("nfs-1", "web", ""), false},
		"became another's":  {"it no longer concerns this one", slice("nfs-1", "nfs", "") + slice("nfs-1", "web", ""), false},
		"none was seen yet": {"no slice was seen", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // kinds are taken in in any order
				w := world(t, service+pod+tc.slices)
				got, listed := at(w, "unserved", "demo", "n1", "files/nfs", "count"), at(w, "pods", "demo", "p", "missingServers")
				if (got == 1) != tc.down || (listed != nil) != tc.down {
					t.Errorf("%s\ngot %v, for the pod %v; want down %t", tc.reason, got, listed, tc.down)
				}
			}
		})
	}
	t.Run("of its own name", func(t *testing.T) {
		server := "{apiVersion: v1, kind: Pod, metadata: {name: nfs, namespace: files}, spec: {nodeName: n1, containers: [{name: c, ports: [{containerPort: 2049}]}]}, status: {phase: Running, podIPs: [{ip: 10.0.0.7}]}}\n---\n"
		for range 20 {
			if got := at(world(t, server+pod+slice("nfs-1", "nfs", "")), "unserved"); len(got.(map[string]any)) > 0 {
				t.Errorf("the server is a pod, not the Service of the same name: got %v", got)
			}
		}
	})
}

// TestServedInAnyOrder checks that the order of arrival does not matter, and that deleted objects
// leave nothing behind.
func TestServedInAnyOrder(t *testing.T) {
	service := func(ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "nfs", Namespace: "files"}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "demo", Name: "c"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.7"}},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "demo"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		Spec: corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
		}}}},
	}
	all := map[string]runtime.Object{"services": service("10.0.0.7"), "persistentvolumes": volume, "pods": pod}
	for _, order := range [][]string{
		{"services", "persistentvolumes", "pods"}, {"services", "pods", "persistentvolumes"}, {"persistentvolumes", "services", "pods"},
		{"persistentvolumes", "pods", "services"}, {"pods", "services", "persistentvolumes"}, {"pods", "persistentvolumes", "services"},
	} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			w := NewWorld(Options{})
			for kind := range all {
				w.Begin(kindOf(kind))
				w.End(kindOf(kind))
			}
			served := func(after string, want any) {
				t.Helper()
				if got := at(w, "served", "files", "nfs", "demo", "count"); got != want {
					t.Errorf("%s: got %v, want %v", after, got, want)
				}
			}
			for _, kind := range order {
				served("before all are there", nil)
				apply(t, w, kindOf(kind), all[kind], true)
			}
			served("all are there", 1)
			for _, kind := range order {
				remove(t, w, kindOf(kind), all[kind])
				served(kind+" are gone", nil)
				if got := at(w, "served", "files"); got != nil {
					t.Errorf("after %s were deleted: %v stays", kind, got)
				}
				apply(t, w, kindOf(kind), all[kind], true)
				served(kind+" are back", 1)
			}
			apply(t, w, kindOf("services"), service("10.0.0.8"), false)
			served("its address is another", nil)
			apply(t, w, kindOf("services"), service("10.0.0.7"), false)
			served("its address is the old one again", 1)
			server := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "nfs-0", Namespace: "files"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.9"}}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 2049}}}}},
			}
			named := volume.DeepCopy()
			named.Spec.NFS.Server = "10.0.0.9"
			apply(t, w, kindOf("persistentvolumes"), named, false)
			apply(t, w, kindOf("pods"), server, true)
			if got := at(w, "servedByPods", "files", "nfs-0", "demo", "count"); got != 1 {
				t.Errorf("it names a pod: got %v, want 1", got)
			}
			remove(t, w, kindOf("pods"), server)
			if got := at(w, "servedByPods", "files"); got != nil {
				t.Errorf("after the pod was deleted: %v stays", got)
			}
			apply(t, w, kindOf("persistentvolumes"), volume, false)
			heir := service("10.0.0.7") // the news of its start may come before that of the other's end
			heir.Name = "heir"
			apply(t, w, kindOf("services"), heir, true)
			remove(t, w, kindOf("services"), all["services"])
			served("another has its address", nil)
			if got := at(w, "served", "files", "heir", "demo", "count"); got != 1 {
				t.Errorf("another has its address: got %v, want 1", got)
			}
		})
	}
}
