package termguard.lib.times_test

import data.termguard.lib.times

test_duration if {
	got := [times.duration(seconds) | some seconds in [1, 119, 120, 7199, 7200]]
	got == ["1 s", "119 s", "2 minutes", "119 minutes", "2 hours"]
}
