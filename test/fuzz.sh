#!/usr/bin/env bash
# Runs every fuzz test of the product for a while each, packages in parallel: fuzz.sh [TIME], default 3s.
set -euo pipefail
cd "$(dirname "$0")/.."
export FUZZ_TIME=${1:-3s} BINARIES
BINARIES=$(mktemp -d)
trap 'rm -rf "$BINARIES"' EXIT
# A binary for each package: go test would link one for each fuzz test.
grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v '^./test/' | xargs -n1 dirname | sort -u | xargs -P "$(nproc)" -n 1 bash -euo pipefail -c '
	binary=$BINARIES/${0//\//_}
	go test -c -fuzz . -o "$binary" "$0"
	cd "$0"
	cache=$(go env GOCACHE)/fuzz/$(go list)
	for name in $(grep -hoE "^func Fuzz[A-Za-z0-9_]+" ./*_test.go | cut -d" " -f2); do
		echo "fuzz $0 $name for $FUZZ_TIME"
		said=$("$binary" -test.run "^$" -test.fuzz "^$name\$" -test.fuzztime "$FUZZ_TIME" -test.fuzzminimizetime 1x -test.fuzzcachedir "$cache" -test.parallel 1 2>&1) && continue
		# Before Go 1.27 the end of the time may be reported as a failure, of no input (golang/go#75804).
		[ "$(grep -A1 "^--- FAIL: $name " <<<"$said" | tail -n1)" = "    context deadline exceeded" ] || { echo "$said"; exit 1; }
	done'
