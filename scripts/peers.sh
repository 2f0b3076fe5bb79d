#!/bin/sh
# Install the clients of `make interop`: Kerberos, kcat, Sarama, KafkaJS, Kafka Streams and Connect, unless they are installed.
# Where a tool is missing, print what is skipped and how to add it; under CI=true, fail.
set -eu
cd "$(dirname "$0")/.."
PEERS=.cache/peers
JARS=.jars/streams-connect-$KAFKA
mkdir -p "$PEERS"
skipped=no

skip() { # what, and how to add it
  echo "slackwater: skipped in \`make interop\`: $1. To add it: $2 && make peers"
  skipped=yes
}

is_newer() { # a file, than all of these files
  mark=$1; shift
  test -f "$mark" && test -z "$(find "$@" -newer "$mark" -print -quit)"
}

failed() {
  echo "slackwater: $1 could not be installed; see the message above. Try again: make peers" >&2
  exit 1
}

make_kcat() { # Debian's package, extracted into .cache and not installed
  test -x "$PEERS/kcat/kcat" && return
  if ! command -v kcat >/dev/null 2>&1 && ! { command -v apt-get && command -v dpkg-deb; } >/dev/null 2>&1; then
    skip kcat "install kcat"
    return
  fi
  echo "== fetching kcat"
  rm -rf "$PEERS/kcat"; mkdir -p "$PEERS/kcat/packages"
  if path=$(command -v kcat); then
    ln -s "$path" "$PEERS/kcat/kcat"
    return
  fi
  wanted=$(apt-get install --simulate kcat 2>/dev/null | awk '$1 == "Inst" { print $2 }')
  if [ -z "$wanted" ]; then
    apt-get -qq update || failed kcat
    wanted=$(apt-get install --simulate kcat | awk '$1 == "Inst" { print $2 }')
  fi
  # shellcheck disable=SC2086
  (cd "$PEERS/kcat/packages" && apt-get -qq -o APT::Sandbox::User=root download $wanted >/dev/null) || failed kcat
  for package in "$PEERS"/kcat/packages/*.deb; do
    dpkg-deb --extract "$package" "$PEERS/kcat/root" || failed kcat
  done
  libraries=$(dirname "$(find "$PWD/$PEERS/kcat/root" -name 'librdkafka.so.1' -print -quit)")
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' \
    "$libraries" "$PWD/$PEERS/kcat/root/usr/bin/kcat" > "$PEERS/kcat/kcat"
  chmod +x "$PEERS/kcat/kcat"
}

make_sarama() {
  if ! command -v go >/dev/null 2>&1; then
    skip Sarama "apt-get install golang"
    return
  fi
  is_newer "$PEERS/sarama" interop/go-sarama && return
  echo "== building the Sarama program"
  (cd interop/go-sarama && go build -o "../../$PEERS/sarama" .) || failed Sarama
}

make_kafkajs() {
  if ! command -v npm >/dev/null 2>&1; then
    skip KafkaJS "apt-get install nodejs npm"
    return
  fi
  is_newer "$PEERS/kafkajs/.ready" interop/kafkajs/package.json interop/kafkajs/package-lock.json && return
  echo "== fetching KafkaJS"
  mkdir -p "$PEERS/kafkajs"
  cp interop/kafkajs/package.json interop/kafkajs/package-lock.json "$PEERS/kafkajs"
  (cd "$PEERS/kafkajs" && npm ci --no-audit --no-fund --silent) || failed KafkaJS
  touch "$PEERS/kafkajs/.ready"
}

make_streams_and_connect() {
  if ! { command -v javac && command -v mvn; } >/dev/null 2>&1; then
    skip "Kafka Streams and Connect" "apt-get install openjdk-17-jdk-headless maven"
    return
  fi
  if ! is_newer "$JARS/.ready" interop/streams-connect/pom.xml; then
    echo "== fetching Kafka Streams and Connect $KAFKA"
    mkdir -p "$JARS"
    mvn -q -B -f interop/streams-connect/pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/$JARS" ||
      failed "Kafka Streams and Connect"
    touch "$JARS/.ready"
  fi
  if ! is_newer "$PEERS/classes/WordCount.class" interop/streams-connect/WordCount.java; then
    javac -cp "$JARS/*" -d "$PEERS/classes" interop/streams-connect/WordCount.java || failed "the word count"
  fi
}

make_kerberos() { # Debian's KDC must be installed; the Python package is built from source
  if ! { PATH="$PATH:/usr/sbin" command -v krb5kdc && PATH="$PATH:/usr/sbin" command -v kadmin.local &&
    command -v kinit && command -v krb5-config && command -v cc; } >/dev/null 2>&1; then
    skip Kerberos "apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc"
    return
  fi
  .venv/bin/python -c 'import gssapi' 2>/dev/null && return
  echo "== building the Python package gssapi"
  PIP_CONSTRAINT=requirements.lock .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[kerberos]' ||
    failed gssapi
}

make_kerberos
make_kcat
make_sarama
make_kafkajs
make_streams_and_connect
if [ "$skipped" = yes ] && [ "${CI:-}" = "true" ]; then
  echo "            CI=true: nothing may be skipped." >&2
  exit 1
fi
