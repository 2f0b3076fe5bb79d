"""Spark Connect: source and sink are registered from a process without a JVM; queries are group members."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from slackwater import Admin, Broker, Producer
from slackwater.group.topic_partition import TopicPartition
from tests.spark.applications import ROOT
from tests.waiting import wait_until

COUNT: Final = 100
TIMEOUT_S: Final = 240.0


def test_spark_connect_query_is_a_member(tmp_path: Path) -> None:
    with (
        Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker,
        Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin,
    ):
        broker.create_topic("t", 2)
        for name in ("t-1", "t-2"):
            broker.create_topic(name, 1)
        with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            for number in range(COUNT):
                producer.send("t", b"x", partition=number % 2)
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.spark.connect_application"),
                    *(broker.bootstrap_servers, "t", "g", str(COUNT), str(tmp_path / "checkpoint")),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=tmp_path,
                env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
            ) as application,
        ):
            try:
                assert application.stdin is not None
                assert application.stdout is not None
                messages = (json.loads(line) for line in application.stdout if line.startswith(b"{"))
                assert next(messages) == {"batch": COUNT}
                assert next(messages) == {"written": [10, 10]}
                assert next(messages) == {"stream": COUNT, "distinct": COUNT}
                ends = {TopicPartition("t", 0): COUNT // 2, TopicPartition("t", 1): COUNT // 2}
                wait_until(
                    lambda: {partition: commit.offset for partition, commit in admin.committed("g").items()} == ends,
                    lambda: admin.committed("g"),
                    TIMEOUT_S,
                )
                (group,) = admin.describe_groups(["g"])
                assert [len(member.partitions or ()) for member in group.members] == [2]
                application.stdin.close()
                assert next(messages) == {"stopped": True}
                assert application.wait(TIMEOUT_S) == 0
            finally:
                application.kill()
        wait_until(lambda: not admin.describe_groups(["g"])[0].members, lambda: admin.describe_groups(["g"]), TIMEOUT_S)
