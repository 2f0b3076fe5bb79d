#!/bin/sh
# Build the franz-go program of tests/interop. Without Go, print what is skipped and how to add it; under CI=true, fail.
set -eu
cd "$(dirname "$0")/.."
PROGRAM=$PWD/.cache/go/clientdriver
test -x "$PROGRAM" && test -z "$(find interop/go -newer "$PROGRAM" -print -quit)" && exit 0

skip() {
  echo "slackwater: skipped: the tests with the Go client franz-go: $1"
  if [ "${CI:-}" = "true" ]; then
    echo "            CI=true: nothing may be skipped." >&2
    exit 1
  fi
  exit 0
}

command -v go >/dev/null 2>&1 || skip "Go 1.21 or newer is not installed. To add them: install Go && make gobin"
echo "== building the franz-go program"
mkdir -p "$(dirname "$PROGRAM")"
(cd interop/go && go build -o "$PROGRAM" .) || skip "the build failed, see its message above. Try again: make gobin"
touch "$PROGRAM" # go build does not update the time of an unchanged program
