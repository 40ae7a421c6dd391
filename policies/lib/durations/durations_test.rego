package termguard.lib.durations_test

import data.termguard.lib.durations

seen(n, longest) := {"count": n, "usualSeconds": 2, "longestSeconds": longest, "last": "2026-11-21T12:00:00Z"}

cluster := {"durations": {"x.io/f": {"things.x.io": {"": seen(12, 40), "slow": seen(12, 3600), "few": seen(2, 50)}}}}

test_what_was_seen_in_the_namespace_comes_first if {
	every ns, longest in {"other": 40, "slow": 3600} {
		got := durations.of("x.io/f", "things.x.io", ns).longestSeconds with data.cluster as cluster
		got == longest
	}
}

test_evidence if {
	got := durations.evidence("x.io/f", "things.x.io", "other") with data.cluster as cluster
	got == ["finalizer x.io/f was removed from 12 things.x.io before, usually within 2 s, at most 40 s"]
	nothing := durations.evidence("y.io/f", "things.x.io", "other") with data.cluster as cluster
	nothing == []
}

test_patience if {
	every ns, seconds in {"other": 120, "slow": 10800} {
		got := durations.patience("x.io/f", "things.x.io", ns) with data.cluster as cluster
		got == seconds
	}
}

test_too_few if {
	not durations.patience("x.io/f", "things.x.io", "few") with data.cluster as cluster
}
