package termguard.lib.owners_test

import data.termguard.lib.owners

test_reason if {
	every case in [
		[{"state": "absent", "certainty": "will"}, "no controller that could remove it is running"],
		[{"state": "absent", "certainty": "may", "owner": "kro"}, "its owner, kro, was not found"],
		[{"state": "down"}, "its controller is not running"],
		[{"state": "unknown", "owner": "kro"}, "its owner, kro, may not be running"],
	] {
		owners.reason(case[0]) == case[1]
	}
}
