#!/usr/bin/env bash
# Makes a release of the commit that is checked out twice, from clones in two folders,
# and compares them byte by byte: release-twice.sh [OS/ARCH,...], all platforms unless
# told. What Go has compiled already is taken from its cache: where GOCACHE and
# GOCACHE_AGAIN name two empty folders, everything is compiled twice.
set -euo pipefail
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
commit=$(git -C "$root" rev-parse HEAD) # the branch may move meanwhile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_in() {
	git clone -q "$root" "$work/$1/termguard"
	git -C "$work/$1/termguard" -c advice.detachedHead=false checkout -q "$commit"
	(cd "$work/$1/termguard/test/tools/release" && go run . -root ../../.. -out "$work/$1/dist" ${2:+-platforms "$2"} >/dev/null)
	rm -rf "$work/$1/termguard"
}
make_in first "${1-}"
GOCACHE=${GOCACHE_AGAIN:-$(go env GOCACHE)} make_in "a longer name/second" "${1-}"
diff -r "$work/first/dist" "$work/a longer name/second/dist"
cat "$work/first/dist/checksums.txt"
echo "the same bytes twice: $(wc -l <"$work/first/dist/checksums.txt") files of $commit"
