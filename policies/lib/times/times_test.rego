package termguard.lib.times_test

import data.termguard.lib.times

test_duration if {
	got := [times.duration(seconds) | some seconds in [1, 119, 120, 7199, 7200]]
	got == ["1 s", "119 s", "2 minutes", "119 minutes", "2 hours"]
}

test_readable if {
	every text in ["2026-11-21T09:00:00Z", "2026-11-21T09:00:00.123456+01:00", "2024-02-29T00:00:00Z"] {
		times.readable(text)
		is_number(times.since(text)) with data.cluster.now as "2026-11-21T12:00:00Z"
	}
}

test_unreadable if {
	every text in [
		"", "now", "09:00:00Z", "2026-11-21", "2026-02-30T09:00:00Z",
		"2026-02-29T09:00:00Z", "2026-04-31T09:00:00Z", "2026-13-01T09:00:00Z",
		"2026-11-21T24:00:00Z", "0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "2026-11-21T09:00:00Z\n",
	] {
		not times.readable(text)
	}
}
