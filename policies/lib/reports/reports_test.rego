package termguard.lib.reports_test

import data.termguard.lib.reports

now := "2026-11-21T12:00:00Z"

condition(type, status, reason, message) := {key: text |
	some key, text in {
		"type": type, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": "2026-11-21T09:00:00Z",
	}
	text != ""
}

test_fails if {
	every case in [
		["ManifestSynchronized", "False", "ApplyFailed", ""],
		["Ready", "False", "Reconciling", "could not log in"],
		["Synced", "False", "AuthExpired", ""],
		["GCError", "True", "", "pods is forbidden"],
		["NotReady", "True", "", ""],
		["Stalled", "True", "BadCredentials", ""],
	] {
		reports.fails(condition(case[0], case[1], case[2], case[3])) with data.cluster.now as now
	}
}

test_does_not_fail if {
	every case in [
		["Progressing", "False", "Completed", "all is done"],
		["Degraded", "False", "Error", "it failed once"],
		["Ready", "False", "Progressing", "0 of 3 are up, no errors so far"],
		["Ready", "True", "Failed", ""],
		["TLSEnabled", "False", "AuthenticationDisabled", ""],
		["Paused", "False", "NotFound", ""],
		["Updated", "False", "NoErrors", ""],
		["Stalled", "Unknown", "Failed", ""],
	] {
		not reports.fails(condition(case[0], case[1], case[2], case[3])) with data.cluster.now as now
	}
}

test_quotes if {
	old := condition("Ready", "True", "AllGood", "")
	event := {
		"type": "Event", "status": "Warning", "reason": "CleanupFailed",
		"lastTransitionTime": "2026-11-21T11:00:00Z", "last": "2026-11-21T11:59:00Z",
	}
	deleted := "2026-11-21T11:30:00Z"
	waits := {
		"type": "phase", "status": "Deleting", "message": "volumes\u001b\nare left",
		"lastTransitionTime": "2026-11-21T11:30:00Z", "deleted": deleted,
	}
	failed := condition("Cleaned", "False", "Failed", "")
	quotes := reports.quotes([old, waits, event, failed]) with data.cluster.now as now
	quotes == [event, failed, waits]
	reports.saying(quotes) == "; it reports Event: CleanupFailed"
	[reports.quoted(said) | some said in quotes] == [
		"Event from 2026-11-21T11:00:00Z to 2026-11-21T11:59:00Z: CleanupFailed",
		"Cleaned is False since 2026-11-21T09:00:00Z: Failed",
		"phase is Deleting since 2026-11-21T11:30:00Z: volumes are left",
	]
	reports.mending([]) == []
	reports.saying([]) == ""
}
