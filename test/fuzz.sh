#!/usr/bin/env bash
# Runs every fuzz test of the product for a while each, one on each core: fuzz.sh [TIME], 5s unless told.
set -euo pipefail
cd "$(dirname "$0")/.."
export FUZZ_TIME=${1:-5s}
grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v '^./test/' | xargs -n1 dirname | sort -u | while read -r package; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$package"/*_test.go | cut -d' ' -f2 | while read -r name; do
		echo "$package $name"
	done
done | xargs -P "$(nproc)" -n 2 bash -c '
	echo "fuzz $0 $1 for $FUZZ_TIME"
	said=$(go test "$0" -run "^$" -fuzz "^$1\$" -fuzztime "$FUZZ_TIME" -fuzzminimizetime 1x -parallel 1 2>&1) && exit
	# Before Go 1.27 the end of the time may be reported as a failure, of no input (golang/go#75804).
	[ "$(grep -A1 "^--- FAIL: $1 " <<<"$said" | tail -n1)" = "    context deadline exceeded" ] || { echo "$said"; exit 1; }'
