# METADATA
# title: Owner of a finalizer that reports a failure
# description: >-
#   The owner of a finalizer runs, or may run elsewhere, and the object's own status, or
#   Events about it, report a failure for a while: wrong credentials, a backend that does
#   not answer, a missing reference. A problem that prevents reconciling usually prevents
#   cleanup, too.
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
#     Fix the problem in the condition, wait until the condition is good again, then delete.
#     As a last resort, remove the finalizer by hand: anything not cleaned up is leaked.
#   limits: >-
#     Custom resources only: the deleted object, and the first 50 in a namespace that
#     check evaluates. A snapshot has reports of the first few objects of each kind; the
#     webhook sees neither reports of objects in a namespace nor Events. A condition
#     counts if it is False with a reason or a message about a failure, or True with a
#     type that names a problem; without conditions, phase and message count. Conditions
#     of an older generation do not count, nor failures of finished runs. Warning Events
#     count if every account that may write Events in only that namespace may also update
#     the object. A controller may fail to reconcile and still clean up: the finding says
#     "may". A failure counts after ten minutes, or at once if it was reported after the
#     deletion began; after 30 seconds if the owner is known only by its rights or a
#     lease, and after two minutes for an object that was never ready.
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
	"evidence": array.concat([reports.quoted(said) | some said in failing], reports.failing),
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

warn contains {
	"msg": sprintf(
		"%s %s finalizer %s: %s",
		[wording.counted(count(names), of), wording.plural(count(names), "has", "have"), finalizer, why],
	),
	"cause": owners.needs(finalizer, why),
	"objects": [{"resource": of, "namespace": request.name, "name": name} | some name in names],
	"evidence": [sprintf("%s: %s", [name, reports.quoted(failing[name][0])]) | some name in array.slice(names, 0, 5)],
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

field(said) := "metadata.finalizers" if said.last

field(said) := sprintf("status.%s", [shown(said)]) if not said.last

shown(said) := "phase" if said.type == "phase"

shown(said) := "conditions" if said.type != "phase"

# able lists the owners that run here, or may run elsewhere.
able contains ownership if {
	request.deleting
	data.cluster.crds[request.resource]
	some finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state in {"alive", "unknown"}
}

named(ownership) := {true: "of unknown name", false: owners.name(ownership)}[owners.name(ownership) == ""]

reported(said) := sprintf("%s: %s is %s (%s)", [since(said, ""), said.type, said.status, brief(said)]) if {
	not said.last
}

reported(said) := sprintf("%s: %s", [since(said, " in Events"), brief(said)]) if said.last

brief(said) := reports.clean(reports.reason(said), 40)

since(said, place) := sprintf("reports %s%s", [said.how, place]) if times.since(said.lastTransitionTime) < 30

since(said, place) := sprintf("has reported %s%s for %s", [said.how, place, times.duration(times.since(said.lastTransitionTime))]) if {
	times.since(said.lastTransitionTime) >= 30
}

# An object that was never good may have nothing to clean up.
advice(list, what, _) := sprintf("Delete, and if it stays, fix the problem that %s", [what]) if {
	reports.unready(list)
	not request.leaving
}

advice(list, what, said) := sprintf("Fix the problem that %s%s", [what, later(said)]) if not reports.unready(list)

advice(list, what, _) := sprintf("Fix the problem that %s", [what]) if {
	reports.unready(list)
	request.leaving
}

names(said) := sprintf("%s names", [part(said)]) if not said.last

names(said) := "its Events report" if said.last

names_of(said, of) := sprintf("%s of the %s names", [part(said), of]) if not said.last

names_of(said, of) := sprintf("the Events of the %s report", [of]) if said.last

part(said) := "the status" if said.type == "phase"

part(said) := sprintf("the condition %s", [said.type]) if said.type != "phase"

later(said) := request.ahead(sprintf("; delete when %s", [mended(said)])) if not said.deleted

later(said) := "" if said.deleted

mended(said) := "it is good again" if not said.last

mended(said) := "there are no new ones" if said.last
