#!/bin/sh
# Build the wheel and the sdist, install each into an empty environment, and use it: package.sh BIN.
# The wheel is then installed with the extra `doctor`, which must work without Spark.
set -eu
bin=$1
rm -rf dist
"$bin/python" -m build --outdir dist . >/dev/null
for package in dist/*.whl dist/*.tar.gz; do
  work=$(mktemp -d)
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --constraint requirements.lock "$package"
  (cd "$work" && venv/bin/slackwater --version && venv/bin/python -c '
from slackwater import Broker, Consumer, Producer

with Broker() as broker:
    broker.create_topic("t")
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("t", "value")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe(["t"])
        while not (records := list(consumer.poll(timeout=1.0))):
            pass
assert records[0].value == b"value"
')
  case $package in
  *.whl)
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --constraint requirements.lock "$package[doctor]"
    line='[2026-01-01 00:00:00,000] WARN [Consumer clientId=c, groupId=g] consumer poll timeout has expired. This means'
    line="$line the time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, which"
    line="$line typically implies that the poll loop is spending too much time processing messages."
    (cd "$work" && echo "$line" | { venv/bin/slackwater doctor - || true; } | grep '^g: poll_delay, caused by c')
    ;;
  esac
  rm -rf "$work"
  echo "$package: installed and used"
done
