# METADATA
# title: Owner with a known obstacle
# description: >-
#   The owner of a finalizer runs, but there is a known obstacle: a bug of this release, a
#   right that this release needs and no role gives it, or a setting of the object, such
#   as a pause or deletion protection. The catalog lists them, with sources. For an owner
#   outside the catalog, an annotation or label of its domain that says that the object is
#   paused counts as such a setting.
# related_resources:
#   - ref: https://github.com/kubernetes-sigs/kueue/issues/10759
#     description: A ClusterQueue that its controller forgot.
#   - ref: https://github.com/kubernetes-csi/external-provisioner/issues/1277
#     description: A release that needs a right which the last one did not need.
#   - ref: https://github.com/aws-controllers-k8s/community/issues/2003
#     description: Deletion protection, known to the cloud only.
#   - ref: https://github.com/crossplane/crossplane/issues/4839
#     description: A paused claim, whose namespace hung.
# custom:
#   id: known-obstacle
#   severity: medium
#   class: broken
#   triggers: [delete]
#   needs: [input.ownership.*.obstacles, data.cluster.finalized.$NAMESPACE.*.*.*.ownership.obstacles for namespaces]
#   remedy: >-
#     Remove the obstacle before the deletion: upgrade the software, give it the right, or
#     change the setting, and wait until the owner has noticed.
#   limits: >-
#     Only bugs in the catalog, of releases whose image has a version as its tag. Most
#     bugs show only sometimes: the finding says "may". A build with the fix under an old
#     version.
package termguard.known_obstacle

import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

warn contains {
	"msg": sprintf("finalizer %s may stay: %s", [finalizer, why(obstacle)]),
	"cause": owners.needs(finalizer, why(obstacle)),
	"objects": [request.target],
	"evidence": evidence(obstacle),
	"field": sprintf("metadata.finalizers[%d]", [i]),
	"steps": mending(obstacle),
	"manifest": {"remedy": sprintf("%s.", [obstacle.mend])},
} if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	some obstacle in ownership.obstacles
	not obstacle.withNamespace
	lacking(obstacle, {thing.resource | some thing in ownership.missing; thing.without != "leaves"})
}

warn contains {
	"msg": sprintf("%s %s finalizer %s, which may stay: %s", [
		wording.counted(bucket.count, of), wording.plural(bucket.count, "has", "have"), finalizer,
		why(obstacle),
	]),
	"cause": owners.needs(finalizer, why(obstacle)),
	"objects": [{"resource": of, "namespace": request.name, "name": name} | some name in bucket.names],
	"evidence": evidence(obstacle),
	"steps": mending(obstacle),
	"manifest": {"remedy": sprintf("%s.", [obstacle.mend])},
} if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.finalized[request.name]
	some of, buckets in resources
	some bucket in buckets
	some obstacle in bucket.ownership.obstacles
	lacking(obstacle, object.keys(object.get(data.cluster, ["needs", request.name, finalizer, of], {})))
}

lacking(obstacle, _) if not obstacle.lacks

lacking(obstacle, things) if obstacle.lacks in things

why(obstacle) := sprintf("%s runs, which %s", [obstacle.release, obstacle.symptom]) if {
	not obstacle.right
	obstacle.release != ""
}

why(obstacle) := sprintf(
	"%s runs, which must %s %s, and no role allows it",
	[obstacle.release, obstacle.right.verb, obstacle.right.resource],
) if {
	obstacle.right
}

why(obstacle) := obstacle.symptom if obstacle.release == ""

evidence(obstacle) := [sprintf("%s (affected: %s)", [obstacle.source, obstacle.affected])] if obstacle.affected != ""

evidence(obstacle) := [obstacle.source] if obstacle.affected == ""

mending(obstacle) := [steps.mend(sprintf("%s%s", [obstacle.mend, request.ahead(", then delete")]), [])]
