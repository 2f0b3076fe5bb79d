"""Spark on a secured Apache Kafka, with two executors: it reads and writes, and no secret is in any of its files."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from scripts.apache_kafka import KAFKA, ROOT, missing

from slackwater import Admin, Producer
from tests.client.security.secured_kafka import PASSWORDS, secured_kafka

SECONDS = 600.0


def test_two_executors_read_and_write_without_showing_a_secret(tmp_path: Path) -> None:
    if reason := missing(KAFKA):
        pytest.skip(reason)
    home = tmp_path / "home"
    for name in ("events", "checkpoint", "local", "secret"):
        (home / name).mkdir(parents=True)
    with secured_kafka(tmp_path / "kafka") as kafka:
        with Admin(kafka.servers("OPEN")) as admin, Producer(kafka.servers("OPEN")) as producer:
            admin.create_topic("orders", 2)
            admin.create_topic("copies", 2)
            for number in range(10):
                producer.send("orders", str(number)).result(SECONDS)
        shutil.copy(kafka.authority.path, home / "ca.pem")
        shutil.copy(kafka.client.key(), home / "secret" / "client.key")
        shutil.copy(kafka.client.certificate(), home / "secret" / "client.crt")
        servers = str(kafka.servers("SASL")["bootstrap.servers"])
        program = str(Path(__file__).with_name("secured_spark_application.py"))
        done = subprocess.run(
            [sys.executable, program, str(home), servers, "orders", "copies", PASSWORDS["alice"]],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "batch: 10\n" in done.stdout
    assert "stream: 10\n" in done.stdout
    assert "copies: 20\n" in done.stdout  # of the batch and of the stream
    assert "failed write:" in done.stdout
    assert "rejected the PLAIN authentication as nobody" in done.stdout
    (home / "output.txt").write_text(done.stdout + done.stderr)
    (application,) = re.findall(r"^application: (\S+)$", done.stdout, re.MULTILINE)
    shutil.move(Path(pyspark.__file__).parent / "work" / application, home / "executors")  # their logs
    key = (home / "secret" / "client.key").read_text().splitlines()[1]
    shutil.rmtree(home / "secret")
    written = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(home / "events") for path in written)
    assert any(path.is_relative_to(home / "checkpoint") for path in written)
    assert any(path.is_relative_to(home / "checkpoint-of-the-sink") for path in written)
    assert any(path.is_relative_to(home / "executors") for path in written)
    for path in written:
        data = path.read_bytes()
        assert PASSWORDS["alice"].encode() not in data, path
        assert key.encode() not in data, path
