package termguard.finalizer_already_stuck_test

import data.termguard.finalizer_already_stuck as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

now := "2026-11-21T12:00:00Z"

alive := {"state": "alive", "certainty": "will", "owner": "provider-aws", "evidence": ["it runs"]}

delete(group, resource, name, namespace, metadata) := {
	"operation": "DELETE",
	"resource": {"group": group, "resource": resource},
	"name": name,
	"namespace": namespace,
	"oldObject": {"metadata": object.union({"name": name}, metadata)},
}

delete_namespace := {"request": delete("", "namespaces", "demo", "demo", {}), "ownership": {}}

delete_bucket(metadata) := {
	"request": delete("s3.test", "buckets", "logs", "demo", object.union({"finalizers": ["s3.test/f"]}, metadata)),
	"ownership": {"s3.test/f": alive},
}

delete_definition := {
	"request": delete("apiextensions.k8s.io", "customresourcedefinitions", "buckets.s3.test", "", {}),
	"ownership": {},
}

held(namespace, name, since) := {"namespace": namespace, "name": name, "at": 0, "since": since}

terminating(objects) := {"count": count(objects), "objects": objects}

# cluster has objects that wait in namespace demo, and in all namespaces.
cluster(here, everywhere, ownership) := {
	"now": now,
	"finalized": {"demo": {"s3.test/f": {"buckets.s3.test": {"": object.union(
		{"count": 1, "names": ["logs"], "ownership": ownership},
		{"terminating": terminating(here) | count(here) > 0},
	)}}}},
	"finalizers": {"s3.test/f": {"buckets.s3.test": {"": ownership}}},
	"terminating": {"s3.test/f": {"buckets.s3.test": terminating(everywhere)}},
}

runs := "its owner, provider-aws, runs and does not remove finalizer s3.test/f"

look(owner) := {"kind": "mend", "do": sprintf(
	"See why it does not: the log of %s, and the events and conditions of what is Terminating",
	[owner],
)}

by_hand(objects) := {
	"kind": "force",
	"do": "Remove s3.test/f by hand: what nobody cleaned up stays behind",
	"action": data.termguard.lib.finalizers.taking_out(objects, "demo", [[0, "s3.test/f"]]),
}

stuck(words, because, evidence, steps) := {
	"msg": sprintf("%s: %s", [words, because]),
	"objects": [{"resource": "buckets.s3.test", "namespace": "demo", "name": "old"}],
	"evidence": array.concat(["demo/old is Terminating since 2026-01-01T00:00:00Z"], evidence),
	"steps": steps,
}

old := held("demo", "old", "2026-01-01T00:00:00Z")

fresh := held("demo", "fresh", "2026-11-21T11:59:00Z")

test_content if {
	got := found with input as delete_namespace with data.cluster as cluster([old, fresh], [old, fresh], alive)
	got == {
		"deny": {stuck(
			"2 buckets.s3.test are Terminating, the oldest for 7788 hours", runs, ["it runs"],
			[look("provider-aws"), by_hand(["buckets.s3.test/old"])],
		)},
		"warn": set(),
	}
}

test_content_within_the_hour if {
	recent := held("demo", "old", "2026-11-21T11:30:00Z")
	got := found with input as delete_namespace with data.cluster as cluster([recent], [recent], alive)
	count(got.deny) == 0
	{f.msg | some f in got.warn} == {sprintf("1 buckets.s3.test is Terminating, for 30 minutes: %s", [runs])}
}

test_patience_is_a_parameter if {
	got := found with input as delete_namespace
		with data.cluster as cluster([fresh], [fresh], alive)
		with data.params as {"finalizer-already-stuck": {"seconds": 5}}
	count(got.deny) == 1
}

# Where it was unknown whether anybody removes it, it is known now.
test_content_of_an_unknown_owner if {
	unknown := {"state": "unknown", "certainty": "may"}
	got := found with input as delete_namespace with data.cluster as cluster([old], [old], unknown)
	got == {
		"deny": {stuck(
			"1 buckets.s3.test is Terminating, for 7788 hours", "nobody removes finalizer s3.test/f", [],
			[look("the controller that removes the finalizer"), by_hand(["buckets.s3.test/old"])],
		)},
		"warn": set(),
	}
}

test_content_of_an_owner_without_a_name if {
	got := found with input as delete_namespace
		with data.cluster as cluster([old], [old], object.remove(alive, ["owner"]))
	{f.msg | some f in got.deny} == {concat(" ", [
		"1 buckets.s3.test is Terminating, for 7788 hours:",
		"its owner runs and does not remove finalizer s3.test/f",
	])}
}

test_near_misses_of_content if {
	absent := {"state": "absent", "certainty": "will"}
	every facts in [
		cluster([fresh], [fresh], alive),
		cluster([], [fresh], alive),
		cluster([old], [old], absent), # as orphaned-finalizer tells
	] {
		got := found with input as delete_namespace with data.cluster as facts
		got == nothing
	}
}

elsewhere := held("other", "old", "2026-11-21T11:00:00Z")

warned(name) := {
	"msg": sprintf("other buckets.s3.test are Terminating, the oldest for 60 minutes: %s", [runs]),
	"objects": [{"resource": "buckets.s3.test", "namespace": "demo", "name": name}],
	"evidence": ["other/old is Terminating since 2026-11-21T11:00:00Z", "it runs"],
	"steps": [look("provider-aws")],
}

test_elsewhere if {
	every question in [delete_namespace, delete_bucket({})] {
		every here in [[], [fresh]] {
			got := found with input as question with data.cluster as cluster(here, array.concat([elsewhere], here), alive)
			got == {"deny": set(), "warn": {warned("logs")}}
		}
	}
}

# Of an object that is Terminating itself, already-terminating tells at first.
test_target_is_terminating if {
	got := found with input as delete_bucket({"deletionTimestamp": "2026-11-21T11:30:00Z"})
		with data.cluster as cluster([], [elsewhere], alive)
	got == nothing
}

test_elsewhere_just_now if {
	got := found with input as delete_bucket({}) with data.cluster as cluster([fresh], [fresh], alive)
	got == nothing
}

test_definition if {
	got := found with input as delete_definition with data.cluster as cluster([old], [old], alive)
	got == {
		"deny": {stuck(
			"1 buckets.s3.test is Terminating, for 7788 hours", runs, ["it runs"],
			[look("provider-aws"), by_hand(["buckets.s3.test/old"])],
		)},
		"warn": set(),
	}
}

# What was seen of the finalizer sets the pace.
seen(longest, last) := {"s3.test/f": {"buckets.s3.test": {"": {"count": 12, "usualSeconds": 2, "longestSeconds": longest, "last": last}}}}

test_durations_set_the_pace if {
	recent := held("demo", "old", "2026-11-21T11:46:40Z") # 800 s ago
	every longest, certain in {2: 1, 40: 1, 60: 0} { # six times 120, 120 and 180 s
		got := found with input as delete_namespace
			with data.cluster as object.union(cluster([recent], [recent], alive), {"durations": seen(longest, now)})
		count(got.deny) == certain
		count(got.warn) == 1 - certain
	}
	got := found with input as delete_namespace
		with data.cluster as object.union(cluster([recent], [recent], alive), {"durations": seen(3600, now)})
	got == nothing
}

test_durations_are_evidence if {
	got := found with input as delete_namespace
		with data.cluster as object.union(cluster([old], [old], alive), {"durations": seen(40, now)})
	{f.evidence | some f in got.deny} == {[
		"demo/old is Terminating since 2026-01-01T00:00:00Z",
		"finalizer s3.test/f was removed from 12 buckets.s3.test before, usually within 2 s, within 40 s at most",
		"it runs",
	]}
}

# Whoever has cleared others since is not stuck.
test_owner_that_delivers if {
	every last, warnings in {"2026-11-21T11:01:00Z": 1, "2026-11-21T11:10:00Z": 0} {
		every question in [delete_namespace, delete_bucket({})] {
			got := found with input as question
				with data.cluster as object.union(cluster([], [elsewhere], alive), {"durations": seen(2, last)})
			count(got.warn) == warnings
		}
	}
}

# The target itself.

since(timestamp, ownership) := {
	"request": delete_bucket({"deletionTimestamp": timestamp}).request,
	"ownership": {"s3.test/f": ownership},
}

itself := cluster([], [held("demo", "logs", "2026-11-20T12:00:00Z")], alive)

test_itself if {
	got := found with input as since("2026-11-20T12:00:00Z", alive) with data.cluster as itself
	got == {"warn": set(), "deny": {{
		"msg": sprintf("Terminating for 24 hours: %s", [runs]),
		"objects": [{"resource": "buckets.s3.test", "namespace": "demo", "name": "logs"}],
		"evidence": ["it runs"],
		"field": "metadata.finalizers[0]",
		"steps": [look("provider-aws")],
	}}}
}

test_itself_and_nobody_runs if {
	got := found with input as since("2026-11-20T12:00:00Z", object.union(alive, {"state": "down"})) with data.cluster as itself
	got == nothing
}

test_itself_and_kubernetes_removes_it if {
	got := found with input as since("2026-11-20T12:00:00Z", alive) with data.cluster as object.remove(itself, ["terminating"])
	got == nothing
}
