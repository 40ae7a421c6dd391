# METADATA
# title: Owner of a finalizer that reports a failure
# description: >-
#   The software that removes a finalizer runs, or may run elsewhere, and the object's own
#   status, or Events about it, say that it has been failing for a while: wrong credentials,
#   a backend that does not answer, a reference that does not exist. What keeps it from
#   reconciling the object usually keeps it from cleaning up, too, and the object stays
#   Terminating. What it says since the deletion began is about just that.
# related_resources:
#   - ref: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties
#     description: Conditions in the status of an object.
#   - ref: https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
#     description: Ready, Reconciling and Stalled.
#   - ref: https://docs.crossplane.io/latest/guides/troubleshoot-crossplane/
#     description: Synced and Ready of managed resources.
# custom:
#   id: owner-reports-failure
#   severity: medium
#   class: broken
#   triggers: [delete]
#   needs:
#     - input.conditions
#     - data.cluster.conditions.$NAMESPACE.*.$NAME
#     - data.cluster.conditions.$NAMESPACE for namespaces
#   remedy: >-
#     Fix what the condition names, wait until the condition is good again, then
#     delete. To take the finalizer out by hand is the last resort: what it protects
#     stays behind.
#   limits: >-
#     Custom resources only: those that are deleted themselves, and the first 50 in a
#     namespace that check is asked about. A snapshot has what the first few of each kind
#     say; the webhook knows none of what is in a namespace, and no Events. Of conditions,
#     the words tell: a reason or a message that speaks of a failure, in a condition that is
#     False, or in one that is True where its type names a fault; without conditions, phase
#     and message. Those of a spec that was changed since do not count, nor that a run
#     failed which has ended. Events count that warn of the object for that long, where all
#     who may write Events in that namespace alone may update the object, too. A controller
#     may fail to reconcile and still clean up: the finding says "may". A failure counts
#     after ten minutes, and at once where it was told after the deletion began. Where only
#     its rights or a lease speak for the owner, it counts after 30 seconds, and after two
#     minutes so does an object that has not been ready since it was created, as one does
#     that takes long to make.
package termguard.owner_reports_failure

import data.termguard.lib.owners
import data.termguard.lib.reports
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

warn contains {
	"msg": sprintf("its owner, %s, %s", [who, reported(worst)]),
	"objects": [request.target],
	"evidence": [reports.told(said) | some said in failing],
	"field": field(worst),
	"steps": [steps.mend(advice(reports.own, names(worst), worst), [])],
} if {
	who := sort([named(ownership) | some ownership in able; count(reports.failures(reports.own, ownership)) > 0])[0]
	failing := [said |
		some ownership in able
		named(ownership) == who
		some said in reports.failures(reports.own, ownership)
	]
	worst := failing[0]
}

# Objects in a namespace.
warn contains {
	"msg": sprintf(
		"%s %s finalizer %s: %s",
		[wording.counted(count(names), of), wording.plural(count(names), "has", "have"), finalizer, why],
	),
	"cause": owners.needs(finalizer, why),
	"objects": [{"resource": of, "namespace": request.name, "name": name} | some name in names],
	"evidence": [sprintf("of %s, %s", [name, reports.told(failing[name][0])]) | some name in array.slice(names, 0, 5)],
	"steps": [steps.mend(advice(objects[names[0]], names_of(worst, of), worst), [])],
} if {
	request.deletes_namespace
	some of, objects in data.cluster.conditions[request.name]
	some finalizer, resources in data.cluster.finalized[request.name]
	some bucket in resources[of]
	bucket.ownership.state in {"alive", "unknown"}
	failing := {name: found |
		some name in bucket.names
		found := reports.failures(objects[name], bucket.ownership)
		count(found) > 0
	}
	names := sort(object.keys(failing))
	worst := failing[names[0]][0]
	why := sprintf("its owner, %s, %s", [named(bucket.ownership), reported(worst)])
}

# field is the path of the report in the object; an Event has none.
field(said) := "metadata.finalizers" if said.last

field(said) := sprintf("status.%s", [shown(said)]) if not said.last

shown(said) := "phase" if said.type == "phase"

shown(said) := "conditions" if said.type != "phase"

# able lists the owners of finalizers that run here, or may run elsewhere.
able contains ownership if {
	request.deleting
	data.cluster.crds[request.resource]
	some finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state in {"alive", "unknown"}
}

named(ownership) := {true: "which is unknown by name", false: owners.name(ownership)}[owners.name(ownership) == ""]

# reported is the report of the owner, in the status or in Events.
reported(said) := sprintf("%s %s: %s is %s (%s)", [since(said), said.how, said.type, said.status, brief(said)]) if {
	not said.last
}

reported(said) := sprintf("%s in Events %s: %s", [since(said), said.how, brief(said)]) if said.last

brief(said) := reports.clean(reports.reason(said), 40)

since(said) := "reports" if times.since(said.lastTransitionTime) < 30

since(said) := sprintf("has reported for %s", [times.duration(times.since(said.lastTransitionTime))]) if {
	times.since(said.lastTransitionTime) >= 30
}

# advice is the next step. An object that was never good may have nothing to clean up, and is
# often deleted anyway.
advice(list, what, _) := sprintf("Delete, and if it stays, fix what %s", [what]) if {
	reports.unready(list)
	not request.leaving
}

advice(list, what, said) := sprintf("Fix what %s%s", [what, later(said)]) if not reports.unready(list)

advice(list, what, _) := sprintf("Fix what %s", [what]) if {
	reports.unready(list)
	request.leaving
}

names(said) := sprintf("%s names", [part(said)]) if not said.last

names(said) := "its Events tell of" if said.last

names_of(said, of) := sprintf("%s of the %s names", [part(said), of]) if not said.last

names_of(said, of) := sprintf("the Events of the %s tell of", [of]) if said.last

part(said) := "the status" if said.type == "phase"

part(said) := sprintf("the condition %s", [said.type]) if said.type != "phase"

later(said) := request.ahead(sprintf("; delete when %s", [mended(said)])) if not said.deleted

later(said) := "" if said.deleted

mended(said) := "it is good again" if not said.last

mended(said) := "there are no new ones" if said.last
