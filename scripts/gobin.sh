#!/bin/sh
# Build the franz-go program of tests/interop. Without a Go that can: say what is left out and how to add it; under
# CI=true fail.
set -eu
cd "$(dirname "$0")/.."
PROGRAM=$PWD/.cache/go/clientdriver
test -x "$PROGRAM" && test -z "$(find interop/go -newer "$PROGRAM" -print -quit)" && exit 0

leave_out() {
  echo "slackwater: left out: the tests with the Go client franz-go, $1"
  if [ "${CI:-}" = "true" ]; then
    echo "            CI=true: nothing may be left out here." >&2
    exit 1
  fi
  exit 0
}

command -v go >/dev/null 2>&1 || leave_out "which need Go 1.21 or newer. To add them: install it && make gobin"
echo "== building the franz-go program"
mkdir -p "$(dirname "$PROGRAM")"
(cd interop/go && go build -o "$PROGRAM" .) || leave_out "which could not be built; Go's own message stands above. Try again: make gobin"
touch "$PROGRAM" # Go leaves a program that did not change as old as it was
