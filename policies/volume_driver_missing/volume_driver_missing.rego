# METADATA
# title: Pod whose CSI driver is not on its node
# description: >-
#   A kubelet calls the CSI driver to unmount a volume. If the driver is no longer
#   registered on the node, because it was uninstalled or its pod there was deleted, the
#   pod stays Terminating until the driver runs again. A pod that never started has
#   mounted nothing and can be deleted.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/volume/csi/csi_client.go
#     description: '"driver name … not found in the list of registered CSI drivers".'
#   - ref: https://kubernetes-csi.github.io/docs/csi-node-object.html
#     description: CSINode, which lists the drivers of a node.
# custom:
#   id: volume-driver-missing
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.driverless.$NAMESPACE]
#   remedy: >-
#     Restore the driver's pod on that node (usually one of a DaemonSet), and the deletion
#     finishes by itself. Uninstall a driver only after the pods that use its volumes are
#     deleted. As a last resort, kubectl delete pod --force --grace-period=0 removes only
#     the object: the volume stays mounted on the node, and attached to it.
#   manifest:
#     remedy: >-
#       Ship the CSI driver for these nodes, in a folder or a release that is deleted after
#       the pods that use its volumes.
#   limits: >-
#     Volumes of plugins that were part of the kubelet and that a CSI driver serves now
#     (awsElasticBlockStore and the like). A driver that is registered and does not work.
#     A volume that cannot be detached does not block its pod, because the kubelet waits
#     only until it is unmounted (pkg/kubelet/volumemanager/volume_manager.go,
#     WaitForUnmount); it blocks the next pod that needs it on another node.
package termguard.volume_driver_missing

import data.termguard.lib.nodes
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(node, driver, held, "will") if {
	some node, drivers in lacking
	some driver, held in drivers
	not restarting(node, driver)
}

warn contains finding(node, driver, held, "may") if {
	some node, drivers in lacking
	some driver, held in drivers
	restarting(node, driver)
}

lacking[node][driver] := object.union(held, {"namespace": request.name}) if {
	request.deletes_namespace
	some node, drivers in data.cluster.driverless[request.name]
	some driver, held in drivers
	nodes.exists(node)
}

lacking[node][driver] := held if {
	some node, held in pods.alone
	some driver in data.cluster.pods[request.namespace][request.name].missingDrivers
	nodes.exists(node)
}

# restarting reports whether a pod is about to register the driver. Its directory usually has the
# driver's name.
restarting(node, driver) if data.cluster.registrars[node][driver]

restarting(node, _) if {
	some directory, _ in data.cluster.registrars[node]
	not directory in data.cluster.csinodes[node].drivers
	not data.cluster.csidrivers[directory]
}

finding(node, driver, held, certainty) := {
	"msg": pods.stay(node, why, held, certainty),
	"cause": pods.because(node, why),
	"objects": array.concat(
		[{"resource": "csinodes.storage.k8s.io", "namespace": "", "name": node}],
		pods.named(held),
	),
	"evidence": [
		sprintf("a volume needs CSI driver %s to be unmounted", [driver]),
		sprintf("CSINode %s lists: %s", [node, listed(data.cluster.csinodes[node].drivers)]),
		reason(node, driver),
	],
	"steps": array.concat(
		[steps.mend(
			sprintf(
				"Restore CSI driver %s on node %s: its pod there, usually one of a DaemonSet, registers it.",
				[driver, node],
			),
			[],
		)],
		steps.forced(held.namespace, held.names),
	),
} if {
	why := sprintf("does not have CSI driver %s", [driver])
}

listed(drivers) := concat(", ", drivers) if count(drivers) > 0

listed(drivers) := "no driver" if count(drivers) == 0

reason(node, driver) := sprintf("a pod on node %s is about to register a driver", [node]) if restarting(node, driver)

reason(node, driver) := sprintf("CSIDriver %s exists, and no pod on node %s registers it", [driver, node]) if {
	not restarting(node, driver)
	data.cluster.csidrivers[driver]
}

reason(node, driver) := sprintf("CSIDriver %s does not exist, and no pod on node %s registers it", [driver, node]) if {
	not restarting(node, driver)
	not data.cluster.csidrivers[driver]
}
