#!/bin/sh
# Fetch the jars of a peer through Maven: jars.sh NAME DIRECTORY POM. Without Java or Maven, print what is skipped and how
# to add it; under CI=true, fail.
set -eu
PEER=$1
JARS=.jars/$2
POM=$3
test -f "$JARS/.ready" && test "$JARS/.ready" -nt "$POM" && exit 0

missing=""
command -v java >/dev/null 2>&1 || missing="openjdk-17-jdk-headless"
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
if [ -n "$missing" ]; then
  echo "slackwater: skipped: the tests that compare with $PEER; they need Java and Maven."
  echo "            To add them: apt-get install $missing && make jars"
  if [ "${CI:-}" = "true" ]; then
    echo "            CI=true: nothing may be skipped." >&2
    exit 1
  fi
  exit 0
fi

echo "== fetching $PEER (jars for the comparison tests)"
mkdir -p "$JARS"
if ! mvn -q -B -f "$POM" dependency:copy-dependencies -DoutputDirectory="$(cd "$JARS" && pwd)"; then
  echo "slackwater: Maven could not fetch the jars of $PEER; see its message above. Try again: make jars" >&2
  exit 1
fi
touch "$JARS/.ready"
