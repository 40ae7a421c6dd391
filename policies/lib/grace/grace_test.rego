package termguard.lib.grace_test

import data.termguard.lib.grace

test_overdue if {
	pods := [{"deadline": "2026-11-21T07:58:59Z"}, {"deadline": "2026-11-21T07:59:00Z"}]
	got := grace.overdue({"count": 2, "pods": pods}) with data.cluster.now as "2026-11-21T08:00:00Z"
	got == [{"deadline": "2026-11-21T07:58:59Z"}]
}

test_stops if {
	every case in [
		[{"containers": [{"name": "web"}]}, 30, 30],
		[{"containers": [{"name": "web"}]}, 1, 2],
		[{"containers": [{"name": "web", "lifecycle": {"preStop": {"exec": {}}}}]}, 30, 32],
		[{"containers": [{"name": "web", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}]}, 30, 30],
		[{"containers": [{"name": "idle", "lifecycle": {"preStop": {"exec": {}}}}]}, 30, 30],
		[{"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}, 30, 32],
		[{"containers": ["{{ .Values.container }}"]}, 30, 30],
	] {
		grace.stops(case[0], case[1], {"idle"}) == case[2]
	}
}

test_effective if {
	default_period := grace.effective({}) with input as {"request": {"operation": "DELETE"}}
	default_period == 30
	every want, request in {
		5: {"operation": "DELETE", "options": {"gracePeriodSeconds": 5}},
		1: {"operation": "DELETE", "options": {"gracePeriodSeconds": -7}},
		60: {"operation": "DELETE"},
	} {
		got := grace.effective({"terminationGracePeriodSeconds": 60}) with input as {"request": request}
		got == want
	}
}
