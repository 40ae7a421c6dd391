#!/usr/bin/env bash
# Runs every fuzz test of the product for a while each: fuzz.sh [TIME], 5s unless told.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-5s}
grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v '^./test/' | xargs -n1 dirname | sort -u | while read -r package; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$package"/*_test.go | cut -d' ' -f2 | while read -r name; do
		echo "fuzz $package $name for $time"
		go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 1x >/tmp/fuzz.$$ 2>&1 || { cat /tmp/fuzz.$$; exit 1; }
	done
done
rm -f /tmp/fuzz.$$
