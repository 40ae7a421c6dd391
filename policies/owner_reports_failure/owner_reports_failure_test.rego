package termguard.owner_reports_failure_test

import data.termguard.owner_reports_failure as policy

found := policy.warn

nothing := set()

facts := {"now": "2026-11-21T12:00:00Z", "crds": {"buckets.s3.example.com": {}}}

alive := {"state": "alive", "certainty": "will", "owner": "provider-aws"}

failed := {
	"type": "Synced", "status": "False", "reason": "ReconcileError",
	"lastTransitionTime": "2026-11-21T09:00:00Z", "message": "cannot\n\u001b[31mget credentials",
}

request(conditions) := {
	"operation": "DELETE",
	"resource": {"group": "s3.example.com", "resource": "buckets"},
	"name": "logs",
	"namespace": "demo",
	"oldObject": {
		"metadata": {"name": "logs", "finalizers": ["example.com/cleanup"]},
		"status": {"conditions": conditions},
	},
}

ask(conditions, ownership) := got if {
	got := found with input as {"request": request(conditions), "ownership": {"example.com/cleanup": ownership}}
		with data.cluster as facts
}

finding(who) := {
	"msg": sprintf("its owner, %s, has reported for 3 hours that it fails: Synced is False (ReconcileError)", [who]),
	"objects": [{"resource": "buckets.s3.example.com", "namespace": "demo", "name": "logs"}],
	"evidence": ["Synced is False since 2026-11-21T09:00:00Z: ReconcileError: cannot [31mget credentials"],
	"field": "status.conditions",
	"steps": [{"kind": "mend", "do": "Fix what the condition Synced names; delete when it is good again"}],
}

test_fails if ask([failed], alive) == {finding("provider-aws")}

event := {
	"type": "Event", "status": "Warning", "reason": "CleanupFailed", "message": "no such host",
	"lastTransitionTime": "2026-11-21T11:00:00Z", "last": "2026-11-21T11:50:00Z",
}

ask_with(event, ownership) := got if {
	got := found with input as {"request": request([]), "ownership": {"example.com/cleanup": ownership}}
		with data.cluster as object.union(facts, {"conditions": {"demo": {"buckets.s3.example.com": {"logs": [event]}}}})
}

test_events if {
	ask_with(event, alive) == {{
		"msg": "its owner, provider-aws, has reported for 60 minutes in Events that it fails: CleanupFailed",
		"objects": [{"resource": "buckets.s3.example.com", "namespace": "demo", "name": "logs"}],
		"evidence": ["Event from 2026-11-21T11:00:00Z to 2026-11-21T11:50:00Z: CleanupFailed: no such host"],
		"field": "metadata.finalizers",
		"steps": [{"kind": "mend", "do": "Fix what its Events tell of; delete when there are no new ones"}],
	}}
	every change in [{"reason": "Pulling"}, {"last": "2026-11-21T11:05:00Z"}, {"lastTransitionTime": "2026-11-21T11:45:00Z"}] {
		ask_with(object.union(event, change), alive) == nothing
	}
	by_rights := object.union(alive, {"circumstantial": true})
	lately := object.union(event, {"lastTransitionTime": "2026-11-21T11:49:00Z"})
	ask_with(lately, by_rights) != nothing
}

test_events_in_a_namespace if {
	got := found with input.request as {
		"operation": "DELETE", "resource": {"group": "", "resource": "namespaces"}, "name": "demo",
		"oldObject": {"metadata": {"name": "demo"}},
	}
		with data.cluster as object.union(facts, {
			"conditions": {"demo": {"buckets.s3.example.com": {"logs": [event]}}},
			"finalized": {"demo": {"example.com/cleanup": {"buckets.s3.example.com": {"": {"names": ["logs"], "count": 1, "ownership": alive}}}}},
		})
	told := "Fix what the Events of the buckets.s3.example.com tell of; delete when there are no new ones"
	{finding.steps[0].do | some finding in got} == {told}
}

# A status may hold any field.
test_status_is_no_event if ask([object.union(failed, {"last": "never"})], alive) == {finding("provider-aws")}

test_owner_without_a_name if {
	ask([failed], object.remove(alive, ["owner"])) == {finding("which is unknown by name")}
}

test_other_types if {
	every kind, status in {"Stalled": "True", "ProvisionFailed": "True", "RouteTablesReady": "False", "Available": "False"} {
		got := ask([object.union(failed, {"type": kind, "status": status})], alive)
		count(got) == 1
	}
}

test_near_misses if {
	every condition in [
		object.union(failed, {"status": "True"}),
		object.union(failed, {"reason": "Reconciling"}),
		object.union(failed, {"lastTransitionTime": "2026-11-21T11:55:00Z"}),
		object.union(failed, {"type": "Paused"}),
		object.union(failed, {"type": "Degraded"}),
	] {
		ask([condition], alive) == nothing
	}
}

test_no_reason if {
	every condition in [
		object.remove(failed, ["reason", "message"]),
		object.union(failed, {"reason": "", "message": ""}),
		object.union(object.remove(failed, ["reason"]), {"message": "dial tcp: connection failed"}),
		object.union(object.remove(failed, ["lastTransitionTime"]), {"lastUpdateTime": failed.lastTransitionTime}),
	] {
		got := ask([condition], alive)
		count(got) == 1
	}
	some first in ask([object.remove(failed, ["reason", "message"])], alive)
	endswith(first.msg, "Synced is False (no reason given)")
}

test_no_reason_near_misses if {
	every condition in [
		object.union(object.remove(failed, ["reason"]), {"message": "waiting for the network"}),
		object.union(object.remove(failed, ["reason", "message"]), {"status": "Unknown"}),
		object.union(object.remove(failed, ["lastTransitionTime"]), {"lastUpdateTime": "2026-11-21T11:55:00Z"}),
		object.remove(failed, ["lastTransitionTime"]),
	] {
		ask([condition], alive) == nothing
	}
}

# Who is taken for the owner by its rights alone is not known to do its work.

guessed := object.union(alive, {"circumstantial": true})

test_rights_alone if {
	for_a_minute := object.union(failed, {"lastTransitionTime": "2026-11-21T11:59:00Z"})
	ask([for_a_minute], alive) == nothing
	ask([object.union(failed, {"lastTransitionTime": "2026-11-21T11:59:40Z"})], guessed) == nothing
	some finding in ask([for_a_minute], guessed)
	endswith(finding.msg, "has reported for 60 s that it fails: Synced is False (ReconcileError)")
}

never := {
	"type": "Ready", "status": "Unknown", "reason": "Waiting",
	"lastTransitionTime": "2026-11-21T11:57:00Z", "message": "",
}

made(condition, ownership, created) := got if {
	now := object.union(request([condition]), {"oldObject": {"metadata": {"creationTimestamp": created}}})
	got := found with input as {"request": now, "ownership": {"example.com/cleanup": ownership}}
		with data.cluster as facts
}

test_never_ready if {
	some finding in made(never, guessed, "2026-11-21T11:56:30Z")
	endswith(finding.msg, "has reported for 3 minutes that it is not ready, since it was created: Ready is Unknown (Waiting)")
}

test_never_ready_near_misses if {
	count(made(object.union(never, {"type": "ComponentReady"}), guessed, "2026-11-21T11:56:30Z")) == 1
	made(never, alive, "2026-11-21T11:56:30Z") == nothing
	made(never, guessed, "2026-11-21T11:55:00Z") == nothing
	ask([never], guessed) == nothing
	every change in [
		{"status": "True"}, {"type": "NotReady"}, {"type": "Succeeded"},
		{"lastTransitionTime": "2026-11-21T11:58:30Z"},
	] {
		made(object.union(never, change), guessed, "2026-11-21T11:56:30Z") == nothing
	}
}

# Of two owners, who is known is not blamed for what counts of the other alone.
test_two_owners if {
	for_a_minute := object.union(failed, {"lastTransitionTime": "2026-11-21T11:59:00Z"})
	held_twice := {"oldObject": {"metadata": {"finalizers": ["a", "b"]}}}
	owned := {"a": alive, "b": object.union(guessed, {"owner": "some operator"})}
	got := found with input as {"request": object.union(request([for_a_minute]), held_twice), "ownership": owned}
		with data.cluster as facts
	messages := {finding.msg | some finding in got}
	messages == {"its owner, some operator, has reported for 60 s that it fails: Synced is False (ReconcileError)"}
}

# Who does not run is another policy's finding.
test_owner_down if ask([failed], object.union(alive, {"state": "down"})) == nothing

test_built_in_kind if {
	got := found with input as {"request": request([failed]), "ownership": {"example.com/cleanup": alive}}
		with data.cluster as {"now": facts.now, "crds": {}}
	got == nothing
}

# What is in a namespace.

delete_namespace := {"operation": "DELETE", "resource": {"group": "", "resource": "namespaces"}, "name": "demo"}

holding(objects, ownership) := object.union(facts, {
	"conditions": {"demo": {"buckets.s3.example.com": objects}},
	"finalized": {"demo": {"example.com/cleanup": {"buckets.s3.example.com": {"": bucket(ownership)}}}},
})

bucket(ownership) := {"count": 3, "names": ["a", "b", "c"], "at": [0, 0, 0], "ownership": ownership}

test_content if {
	content({"a": [failed], "b": [], "other": [failed]}, alive) == {{
		"msg": concat("", [
			"1 buckets.s3.example.com has finalizer example.com/cleanup: its owner, provider-aws, ",
			"has reported for 3 hours that it fails: Synced is False (ReconcileError)",
		]),
		"objects": [{"resource": "buckets.s3.example.com", "namespace": "demo", "name": "a"}],
		"evidence": ["of a, Synced is False since 2026-11-21T09:00:00Z: ReconcileError: cannot [31mget credentials"],
		"steps": [{
			"kind": "mend",
			"do": "Fix what the condition Synced of the buckets.s3.example.com names; delete when it is good again",
		}],
	}}
}

content(objects, ownership) := got if {
	got := found with input as {"request": delete_namespace}
		with data.cluster as holding(objects, ownership)
}

test_content_near_misses if {
	every objects in [{}, {"a": []}, {"a": [object.union(failed, {"status": "True"})]}, {"other": [failed]}] {
		content(objects, alive) == nothing
	}
}

test_content_owner_down if content({"a": [failed]}, object.union(alive, {"state": "down"})) == nothing
