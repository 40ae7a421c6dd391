# METADATA
# title: Network plugin deleted before the pods that it connected
# description: >-
#   A node tears down the network of a pod through the CNI plugin that set it up. That
#   plugin often calls the DaemonSet that installed it, or uses its credentials. After the
#   DaemonSet or its service account is deleted, the plugin may fail: the sandbox stays,
#   and so does the pod. Pods in the network of their node are not affected.
# related_resources:
#   - ref: https://github.com/containernetworking/cni/blob/main/SPEC.md#del-remove-container-from-network-or-un-apply-modifications
#     description: The command DEL of a plugin, which should not fail.
#   - ref: https://github.com/projectcalico/calico/issues/5712
#     description: '"error getting ClusterInformation: connection is unauthorized" after the DaemonSet.'
# custom:
#   id: network-plugin-removed
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods, daemonsets.apps, serviceaccounts]
#   needs: [data.cluster.networks.$NAMESPACE, data.cluster.kubeletEvents]
#   remedy: >-
#     Keep the network plugin until the pods that it connected are deleted, or drain and
#     restart each node after the plugin is replaced. If pods hang already, restore the
#     DaemonSet: the kubelet retries. As a last resort, kubectl delete pod --force
#     --grace-period=0 removes only the object: addresses and interfaces are leaked.
#   manifest:
#     remedy: >-
#       Keep the network plugin in a folder, or a release, of its own, which is deleted
#       after the pods that it connects.
#   limits: >-
#     The policy finds the DaemonSet of a network plugin by the directories of the node
#     that its pods mount (cni/bin, cni/net.d), and its service account by its pods, or by
#     the word cni in its name in the same namespace. Whether a plugin fails without them
#     depends on the plugin. A plugin that is part of the node's image.
package termguard.network_plugin_removed

import data.termguard.lib.events
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

# Repeated failures to tear down the network of the pod itself.
deny contains failing(node, held, "will") if {
	some node, held in troubled
	events.lasting(failures(node))
}

warn contains failing(node, held, "may") if {
	some node, held in troubled
	not events.lasting(failures(node))
}

warn contains {
	"msg": sprintf(
		"DaemonSet %s/%s set up the network of %d %s on %d %s, which may stay Terminating without %s",
		[
			ns, name, total, wording.plural(total, "pod", "pods"), count(on), wording.plural(count(on), "node", "nodes"),
			lost,
		],
	),
	"cause": {"object": {"resource": "daemonsets.apps", "namespace": ns, "name": name}},
	"objects": array.concat(
		[{"resource": "daemonsets.apps", "namespace": ns, "name": name}],
		[{"resource": "nodes", "namespace": "", "name": node} | some node in array.slice(on, 0, 5)],
	),
	"evidence": [sprintf("node %s: %s with a network of their own", [node, wording.counted(data.cluster.wired[node], "pods")]) |
		some node in array.slice(on, 0, 5)
	],
	"steps": [steps.mend(
		"First delete the pods that the network plugin connected, or move them to nodes with another plugin",
		[],
	)],
} if {
	some ns, sets in going
	some name, nodes in sets
	on := [node | some node, _ in nodes; data.cluster.wired[node] > 0]
	total := sum([data.cluster.wired[node] | some node in on])
	total > 0
}

# going lists the deleted DaemonSets of network plugins, and their pods by node.
going[request.namespace][request.name] := nodes if {
	request.deleting
	request.resource == "daemonsets.apps"
	nodes := data.cluster.networks[request.namespace][request.name]
}

going[request.name][name] := nodes if {
	request.deletes_namespace
	some name, nodes in data.cluster.networks[request.name]
}

# Tokens of a deleted account are invalid.
going[request.namespace][name] := nodes if {
	request.deleting
	request.resource == "serviceaccounts"
	some name, nodes in data.cluster.networks[request.namespace]
	acts(name)
}

# acts reports whether a DaemonSet uses the account, or creates tokens of it, as Calico does for
# calico-cni-plugin.
acts(name) if data.cluster.networkAccounts[request.namespace][request.name][name]

acts(_) if contains(request.name, "cni")

default lost := "it"

lost := "its service account" if request.resource == "serviceaccounts"

troubled[node] := held if {
	not object.get(input.request, ["oldObject", "spec", "hostNetwork"], false)
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	count(failures(node)) > 0
}

failures(node) := events.of(node, {"network"})

failing(node, held, certainty) := {
	"msg": pods.stay(node, "fails to tear down the network of pods", held, certainty),
	"cause": pods.because(node, "fails to tear down the network of pods"),
	"objects": pods.on(node, held),
	"evidence": events.evidence(failures(node)),
	"steps": array.concat(
		[steps.mend(sprintf("Restore the network plugin on node %s, or fix the problem in the event", [node]), [])],
		steps.hearsay("events of the kubelet", steps.forced(held.namespace, held.names)),
	),
}
