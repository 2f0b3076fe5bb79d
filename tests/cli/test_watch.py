"""`slackwater watch` on a broker: alerts that begin and end, exit codes and errors."""

import json
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater import Admin, Broker, Producer
from slackwater.doctor.alerts.rules import prometheus_rules
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.consumer_pool import ConsumerPool
from tests.waiting import wait_until

from .conftest import Command, CommandResult

DEADLINE_S = 60.0
IMMEDIATE_RULES = "[IdleMembers]\nfor_s = 0\n[RebalancesTooOften]\noff = true\n"


@pytest.fixture
def immediate_rules(tmp_path: Path) -> Path:
    """Rules that report idle members at once and ignore rebalances."""
    path = tmp_path / "rules.toml"
    path.write_text(IMMEDIATE_RULES)
    return path


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_group_without_idle_members_has_no_alert(slackwater: Command, broker: Broker) -> None:
    with ConsumerPool(broker.bootstrap_servers, "watched-calm", ["orders"]) as pool:
        pool.join()
        pool.settle(3)
        result = slackwater("watch", "--once", "--group", "watched-calm")
    assert result.code == 0
    assert "1 check" in result.out
    assert result.out.endswith(": no alert.\n")
    assert "rebalances are counted by __group_events" in result.err


def test_idle_members_are_an_alert(slackwater: Command, broker: Broker, immediate_rules: Path) -> None:
    with ConsumerPool(broker.bootstrap_servers, "watched-idle", ["payments"]) as pool:
        pool.join(2)
        pool.settle(1)
        result = slackwater("watch", "--once", "--group", "watched-idle", "--rules", immediate_rules)
        default_rules = slackwater("watch", "--once", "--json", "--group", "watched-idle")
        pending_text = slackwater("watch", "--once", "--group", "watched-idle").out
    assert result.code == 1
    assert "ALERT    watched-idle  IdleMembers: 1 of 2 members have no partition: consumer-watched-idle-" in result.out
    assert "First: add partitions or remove members: there are more members than partitions." in result.out
    assert re.search(
        r"pending  watched-idle  IdleMembers: .* for \d+ seconds? so far; the alert fires after 600 seconds\.",
        pending_text,
    )
    pending = next(alert for alert in objects(default_rules.out) if alert.get("rule") == "IdleMembers")
    assert (pending["event"], pending["value"], pending["for_s"]) == ("alert_pending", 1, 600)


def test_frequent_rebalances_are_an_alert(slackwater: Command, broker: Broker) -> None:
    with ConsumerPool(broker.bootstrap_servers, "watched-storm", ["orders"]) as pool:
        pool.join(2)
        pool.settle(3)
        pool.leave()
        pool.settle(3)
        pool.join()
        pool.settle(3)

        def fired() -> CommandResult | None:
            result = slackwater("watch", "--once", "--group", "watched-storm")
            return result if result.code == 1 else None  # events are written with a delay

        result = wait_until(fired, lambda: "no alert", DEADLINE_S)
    assert result is not None
    assert re.search(
        r"ALERT    watched-storm  RebalancesTooOften: \d rebalances in the last hour, the last ", result.out
    )
    assert "First: run slackwater doctor to find which member starts them, and why." in result.out


class WatchProcess:
    """The command as a process, and the JSON objects that it has printed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[dict[str, object]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def kill(self) -> None:
        """Kill the process and close its output."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def next(self, kind: str) -> dict[str, object]:
        """The next object of this kind."""
        while (event := self._lines.get(timeout=DEADLINE_S))["event"] != kind:
            pass
        return event


@contextmanager
def running(*arguments: object) -> Iterator[WatchProcess]:
    command = [sys.executable, "-m", "slackwater", "watch", "--json", *map(str, arguments)]
    watch = WatchProcess(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    try:
        yield watch
    finally:
        watch.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_alert_begins_and_ends_until_ctrl_c(broker: Broker, immediate_rules: Path, number: signal.Signals) -> None:
    group = f"watched-{number.name.lower()}"
    with ConsumerPool(broker.bootstrap_servers, group, ["payments"]) as pool:
        pool.join()
        pool.settle(1)
        arguments = (
            "--bootstrap",
            broker.bootstrap_servers,
            "--group",
            group,
            "--interval",
            "0.1s",
            "--rules",
            immediate_rules,
        )
        with running(*arguments) as watch:
            assert watch.next("watching")["groups"] == [group]
            pool.join()
            assert watch.next("alert_began")["rule"] == "IdleMembers"
            pool.leave()
            assert watch.next("alert_ended")["rule"] == "IdleMembers"
            watch.process.send_signal(number)
            summary = watch.next("account")
            assert watch.process.wait(DEADLINE_S) == 1
    assert summary["fired"] == [{"group": group, "rule": "IdleMembers"}]
    assert summary["firing"] == []


def test_unreachable_cluster_is_unknown(slackwater: Command) -> None:
    result = slackwater("watch", "--for", "0.2s", "--interval", "0.1s", "--bootstrap", "127.0.0.1:1")
    assert result.code == 2
    assert result.out.endswith("none succeeded: state unknown.\n")
    assert result.err.count("\n") == 1
    assert "127.0.0.1:1 could not be reached" in result.err


def test_without_authorization_snapshots_are_compared(slackwater: Command) -> None:
    with Kafka() as kafka:
        kafka.create_topic("t", 1)
        with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
            producer.send("t", "v", partition=0)
        with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
            admin.alter_offsets("g", {TopicPartition("t", 0): 1})
        kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
        result = slackwater("watch", "--once", "--json", "--bootstrap", kafka.bootstrap_servers)
    assert result.code == 0
    start = objects(result.out)[0]
    assert start["counted_by"] == ["members and partitions at each check"]
    assert start["not_measured"] == ["RebalancesFail"]


def test_unauthorized_group_is_unknown(slackwater: Command) -> None:
    with Kafka() as kafka:
        kafka.create_topic("t", 1)
        with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
            admin.alter_offsets("g", {TopicPartition("t", 0): 0})
        kafka.fail("DescribeGroups", "GROUP_AUTHORIZATION_FAILED", times=None)
        result = slackwater("watch", "--once", "--bootstrap", kafka.bootstrap_servers)
    assert result.code == 2
    assert "Group g cannot be described: GROUP_AUTHORIZATION_FAILED." in result.err


def test_missing_group_is_named(slackwater: Command, admin: Admin) -> None:
    admin.alter_offsets("watched", {TopicPartition("orders", 0): 0})
    once = slackwater("watch", "--once", "--group", "wached")
    assert (once.code, once.out) == (3, "")
    assert once.err == "slackwater: There is no group wached; did you mean watched?\n"
    longer = slackwater("watch", "--for", "0.2s", "--interval", "0.1s", "--group", "wached")
    assert longer.code == 2
    assert longer.err.count("There is no group wached") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--interval", "soon"), "--interval soon is not a duration"),
        (("--interval", "0.01s"), "too short"),
        (("--for", "soon"), "--for soon is not a duration"),
        (("--for", "1s", "--once"), "Use one of them"),
        (("--rules", "/nowhere/rules.toml"), "cannot be read: No such file"),
        (("--rules", __file__), "is not TOML"),
        (("--bootstrap", "no port"), "no port"),
        (("--prometheus", "--rules", "RULES"), "prints the default rules"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_3(
    slackwater: Command, immediate_rules: Path, arguments: tuple[str, ...], message: str
) -> None:
    rules = str(immediate_rules)
    result = slackwater("watch", *(rules if argument == "RULES" else argument for argument in arguments))
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("slackwater: ")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_unknown_option_is_bad_input(slackwater: Command) -> None:
    assert slackwater("watch", "--bad").code == 3
    assert slackwater("doctor", "--bad").code == 3


def test_prometheus_rules(slackwater: Command) -> None:
    assert slackwater("watch", "--prometheus").out == prometheus_rules()
