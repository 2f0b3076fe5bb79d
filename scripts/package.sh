#!/bin/sh
# Build the wheel and the sdist, install each into an empty environment, and use it: package.sh BIN.
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
  rm -rf "$work"
  echo "$package: installed and used"
done
