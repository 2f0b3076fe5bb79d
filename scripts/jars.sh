#!/bin/sh
# Fetch Kafka's jars through Maven. Without Java or Maven: say what is left out and how to add it; under CI=true fail.
set -eu
test -f "$JARS/.ready" && test "$JARS/.ready" -nt interop/pom.xml && exit 0

missing=""
command -v java >/dev/null 2>&1 || missing="openjdk-17-jdk-headless"
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
if [ -n "$missing" ]; then
  echo "slackwater: left out: the tests that compare with Apache Kafka $KAFKA, which need Java and Maven."
  echo "            To add them: apt-get install $missing && make jars"
  if [ "${CI:-}" = "true" ]; then
    echo "            CI=true: nothing may be left out here." >&2
    exit 1
  fi
  exit 0
fi

echo "== fetching Apache Kafka $KAFKA (jars for the tests that compare with the real one)"
mkdir -p "$JARS"
if ! mvn -q -B -f interop/pom.xml dependency:copy-dependencies -DoutputDirectory="$(cd "$JARS" && pwd)"; then
  echo "slackwater: Maven could not fetch Kafka's jars; its own message stands above. Try again: make jars" >&2
  exit 1
fi
touch "$JARS/.ready"
