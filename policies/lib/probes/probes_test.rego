package termguard.lib.probes_test

import data.termguard.lib.probes

delete_pod(uid) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "web-0", "uid": uid}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}},
}}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

found(cause, certainty, uid) := {"cause": cause, "certainty": certainty, "evidence": "E", "remedy": "", "uid": uid}

facts(at, node_wide, by_name) := {
	"now": "2026-11-21T08:00:00Z",
	"pods": {"demo": {
		"web-0": {"node": "n1", "phase": "Running"},
		"own": {"node": "n1", "phase": "Running", "hazards": ["immutable"]},
		"done": {"node": "n1", "phase": "Succeeded"},
		"moved": {"node": "n2", "phase": "Running"},
	}},
	"podsByNode": {"demo": {"n1": {"count": 3, "names": ["web-0"]}}},
	"probes": {"n1": {"at": at, "all": node_wide, "pods": {"demo": by_name}}},
}

now := "2026-11-21T07:59:00Z"

held(names, which) := {"n1": {"namespace": "demo", "names": names, "count": count(names), "found": which}}

test_age if {
	every at, want in {
		"2026-11-21T07:50:00Z": true, "2026-11-21T07:49:59Z": false,
		"2026-11-21T08:01:00Z": true, "2026-11-21T08:01:01Z": false,
	} {
		got := count(probes.reported("immutable")) with input as delete_pod("u")
			with data.cluster as facts(at, [], {"web-0": [found("immutable", "will", "u")]})
		got == 1 == want
	}
}

test_pod if {
	by_name := {
		"web-0": [found("immutable", "will", "u"), found("busy", "may", "u"), found("immutable", "will", "before")],
		"own": [found("immutable", "will", "o")],
	}
	will := probes.will("immutable") with input as delete_pod("u") with data.cluster as facts(now, [], by_name)
	will == held(["web-0"], [found("immutable", "will", "u")])
	may := probes.may("busy") with input as delete_pod("u") with data.cluster as facts(now, [], by_name)
	may == held(["web-0"], [found("busy", "may", "u")])
	another := probes.reported("immutable") with input as delete_pod("v") with data.cluster as facts(now, [], by_name)
	another == {}
}

test_namespace if {
	by_name := {name: [found("immutable", "will", name)] | some name in ["web-0", "own", "done", "moved", "gone"]}
	will := probes.will("immutable") with input as delete_namespace with data.cluster as facts(now, [], by_name)
	will == held(["own", "web-0"], [found("immutable", "will", "own"), found("immutable", "will", "web-0")])
	alone := object.remove(by_name, ["web-0"])
	may := probes.may("immutable") with input as delete_namespace with data.cluster as facts(now, [], alone)
	may == held(["own"], [found("immutable", "will", "own")])
}

test_everywhere if {
	node_wide := [found("runtime", "may", ""), found("full", "may", "")]
	got := probes.everywhere({"runtime"}) with input as delete_pod("u") with data.cluster as facts(now, node_wide, {})
	got == held(["web-0"], [found("runtime", "may", "")])
	none := probes.everywhere({"readOnly"}) with input as delete_pod("u") with data.cluster as facts(now, node_wide, {})
	none == {}
}

test_finding if {
	which := [
		{"cause": "busy", "certainty": "will", "evidence": "E", "remedy": "umount /m"},
		{"cause": "busy", "certainty": "may", "evidence": "F", "remedy": ""},
	]
	plan := [{"kind": "force", "do": "F"}]
	ahead := facts("2026-11-21T08:00:30Z", [], {})
	got := probes.finding("fails", "n1", held(["web-0"], which).n1, "may", plan) with input as delete_pod("u") with data.cluster as ahead
	got == {
		"msg": "node n1 fails, so this pod may stay Terminating",
		"cause": {"node": "n1", "title": "fails"},
		"objects": [
			{"resource": "nodes", "namespace": "", "name": "n1"},
			{"resource": "pods", "namespace": "demo", "name": "web-0"},
		],
		"evidence": ["the node probe saw 0 s ago: E", "the node probe saw 0 s ago: F"],
		"steps": [{"kind": "mend", "do": "On node n1, run: umount /m"}, {"kind": "force", "do": "F"}],
	}
}
