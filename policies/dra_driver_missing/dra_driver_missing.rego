# METADATA
# title: Pod whose device driver is not on its node
# description: >-
#   A kubelet calls the DRA driver's plugin on its node to release the devices of a pod.
#   If the plugin does not run, because the driver was uninstalled or its pod there was
#   deleted first, the pod stays Terminating until the plugin runs again. A pod that never
#   started has no prepared devices and can be deleted.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/cm/dra/manager.go
#     description: '"DRA driver … is not registered" (unprepareResources).'
#   - ref: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
#     description: ResourceClaims and ResourceSlices.
# custom:
#   id: dra-driver-missing
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.undriven.$NAMESPACE]
#   remedy: >-
#     Restore the driver's plugin on that node (usually a pod of a DaemonSet), and the
#     deletion finishes by itself. Uninstall a driver only after the pods that use its
#     devices are deleted. As a last resort, kubectl delete pod --force --grace-period=0
#     removes only the object: the devices stay prepared on the node, and may be given to
#     another pod.
#   manifest:
#     remedy: >-
#       Ship the plugin of the DRA driver for these nodes, in a folder or a release that is
#       deleted after the pods that use its devices.
#   limits: >-
#     Devices that are not tied to one node. A plugin that has just stopped: the kubelet
#     deletes its ResourceSlices half a minute later. A plugin that runs and fails. With
#     hidden ResourceSlices, and before Kubernetes 1.32, there is no finding.
package termguard.dra_driver_missing

import data.termguard.lib.nodes
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(node, driver, held, "will") if {
	some [node, driver, how, held] in lacking
	how == "alone"
	not restarting(node)
}

# The kubelet calls the plugin only for the last pod of a claim; a pod may be about to register
# it.
warn contains finding(node, driver, held, "may") if {
	some [node, driver, how, held] in lacking
	not sure(node, how)
}

sure(node, "alone") if not restarting(node)

# lacking lists the pods without their driver, by node, driver, and whether they share a claim.
lacking contains [node, driver, how, object.union(held, {"namespace": request.name})] if {
	request.deletes_namespace
	not hidden
	some node, drivers in data.cluster.undriven[request.name]
	nodes.exists(node)
	some driver, hows in drivers
	some how, held in hows
}

lacking contains [node, missing.driver, missing.how, held] if {
	not hidden
	some node, held in pods.alone
	nodes.exists(node)
	some missing in data.cluster.pods[request.namespace][request.name].missingPlugins
}

hidden if {
	some unseen in data.cluster.unseen
	unseen.resource == "resourceslices.resource.k8s.io"
}

restarting(node) if data.cluster.plugins[node]

finding(node, driver, held, certainty) := {
	"msg": pods.stay(node, why, held, certainty),
	"cause": pods.because(node, why),
	"objects": pods.on(node, held),
	"evidence": [
		sprintf("a ResourceClaim has a device of DRA driver %s, which its plugin on node %s must release", [driver, node]),
		sprintf("no ResourceSlice of DRA driver %s is for node %s, and %s registers a plugin there", [driver, node, whose(node)]),
	],
	"steps": array.concat(
		[steps.mend(
			sprintf(
				"Restore the plugin of DRA driver %s on node %s: its pod there, usually one of a DaemonSet, registers it.",
				[driver, node],
			),
			[],
		)],
		steps.forced(held.namespace, held.names),
	),
} if {
	why := sprintf("no longer has devices of DRA driver %s", [driver])
}

whose(node) := "a pod" if restarting(node)

whose(node) := "no pod" if not restarting(node)
