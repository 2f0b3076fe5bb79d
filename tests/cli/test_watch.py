"""`slackwater watch` on a broker: what begins, what ends, its exit codes, and what it says to wrong input."""

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

from .conftest import Command, Done

DEADLINE_S = 60.0
AT_ONCE = "[IdleMembers]\nfor_s = 0\n[RebalancesTooOften]\noff = true\n"


@pytest.fixture
def at_once(tmp_path: Path) -> Path:
    """Rules under which idle members are told at once, and rebalances not at all."""
    path = tmp_path / "rules.toml"
    path.write_text(AT_ONCE)
    return path


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_group_with_work_for_everybody_is_calm(slackwater: Command, broker: Broker) -> None:
    with ConsumerPool(broker.bootstrap_servers, "watched-calm", ["orders"]) as crowd:
        crowd.join()
        crowd.settle(3)
        done = slackwater("watch", "--once", "--group", "watched-calm")
    assert done.code == 0
    assert "1 check" in done.out
    assert done.out.endswith(": no alert.\n")
    assert "rebalances are counted by __group_events" in done.err


def test_members_without_partitions_are_an_alert(slackwater: Command, broker: Broker, at_once: Path) -> None:
    with ConsumerPool(broker.bootstrap_servers, "watched-idle", ["payments"]) as crowd:
        crowd.join(2)
        crowd.settle(1)
        done = slackwater("watch", "--once", "--group", "watched-idle", "--rules", at_once)
        soon = slackwater("watch", "--once", "--json", "--group", "watched-idle")
    assert done.code == 1
    assert "ALERT    watched-idle  IdleMembers: 1 of 2 members have no partition: consumer-watched-idle-" in done.out
    assert "First: there are more members than partitions" in done.out
    pending = next(one for one in objects(soon.out) if one.get("rule") == "IdleMembers")
    assert (pending["event"], pending["value"], pending["for_s"]) == ("alert_pending", 1, 600)


def test_members_that_go_and_come_are_an_alert(slackwater: Command, broker: Broker) -> None:
    with ConsumerPool(broker.bootstrap_servers, "watched-storm", ["orders"]) as crowd:
        crowd.join(2)
        crowd.settle(3)
        crowd.leave()
        crowd.settle(3)
        crowd.join()
        crowd.settle(3)

        def fired() -> Done | None:
            done = slackwater("watch", "--once", "--group", "watched-storm")
            return done if done.code == 1 else None  # what happened is written down a moment later

        done = wait_until(fired, lambda: "no alert", DEADLINE_S)
    assert done is not None
    assert re.search(r"ALERT    watched-storm  RebalancesTooOften: \d rebalances in the last hour, the last ", done.out)
    assert "First: run slackwater doctor to find which member starts them, and why." in done.out


class Running:
    """The command as a process, and the objects that it has printed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[dict[str, object]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def end(self) -> None:
        """Whatever happened, leave no process behind."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def next(self, what: str) -> dict[str, object]:
        """The next object of this kind."""
        while (found := self._lines.get(timeout=DEADLINE_S))["event"] != what:
            pass
        return found


@contextmanager
def running(*words: object) -> Iterator[Running]:
    command = [sys.executable, "-m", "slackwater", "watch", "--json", *map(str, words)]
    watch = Running(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    try:
        yield watch
    finally:
        watch.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_alert_begins_and_ends_until_ctrl_c(broker: Broker, at_once: Path, number: signal.Signals) -> None:
    group = f"watched-{number.name.lower()}"
    with ConsumerPool(broker.bootstrap_servers, group, ["payments"]) as crowd:
        crowd.join()
        crowd.settle(1)
        words = ("--bootstrap", broker.bootstrap_servers, "--group", group, "--interval", "0.1s", "--rules", at_once)
        with running(*words) as watch:
            assert watch.next("watching")["groups"] == [group]
            crowd.join()
            assert watch.next("alert_began")["rule"] == "IdleMembers"
            crowd.leave()
            assert watch.next("alert_ended")["rule"] == "IdleMembers"
            watch.process.send_signal(number)
            account = watch.next("account")
            assert watch.process.wait(DEADLINE_S) == 1
    assert account["fired"] == [{"group": group, "rule": "IdleMembers"}]
    assert account["firing"] == []


def test_unreachable_cluster_is_unknown(slackwater: Command) -> None:
    done = slackwater("watch", "--for", "0.2s", "--interval", "0.1s", "--bootstrap", "127.0.0.1:1")
    assert done.code == 2
    assert done.out.endswith("none succeeded: state unknown.\n")
    assert done.err.count("\n") == 1
    assert "127.0.0.1:1 could not be reached" in done.err


def test_without_authorization_snapshots_are_compared(slackwater: Command) -> None:
    with Kafka() as kafka:
        kafka.create_topic("t", 1)
        with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
            producer.send("t", "v", partition=0)
        with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
            admin.alter_offsets("g", {TopicPartition("t", 0): 1})
        kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
        done = slackwater("watch", "--once", "--json", "--bootstrap", kafka.bootstrap_servers)
    assert done.code == 0
    start = objects(done.out)[0]
    assert start["counted_by"] == ["members and partitions at each check"]
    assert start["not_measured"] == ["RebalancesFail"]


def test_unauthorized_group_is_unknown(slackwater: Command) -> None:
    with Kafka() as kafka:
        kafka.create_topic("t", 1)
        with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
            admin.alter_offsets("g", {TopicPartition("t", 0): 0})
        kafka.fail("DescribeGroups", "GROUP_AUTHORIZATION_FAILED", times=None)
        done = slackwater("watch", "--once", "--bootstrap", kafka.bootstrap_servers)
    assert done.code == 2
    assert "Group g cannot be described: GROUP_AUTHORIZATION_FAILED." in done.err


def test_a_group_that_is_not_there(slackwater: Command, admin: Admin) -> None:
    admin.alter_offsets("watched", {TopicPartition("orders", 0): 0})
    once = slackwater("watch", "--once", "--group", "wached")
    assert (once.code, once.out) == (3, "")
    assert once.err == "slackwater: There is no group wached; did you mean watched?\n"
    longer = slackwater("watch", "--for", "0.2s", "--interval", "0.1s", "--group", "wached")
    assert longer.code == 2
    assert longer.err.count("There is no group wached") == 1


@pytest.mark.parametrize(
    ("words", "said"),
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
    slackwater: Command, at_once: Path, words: tuple[str, ...], said: str
) -> None:
    done = slackwater("watch", *(str(at_once) if word == "RULES" else word for word in words))
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("slackwater: ")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_an_unknown_option_is_bad_input_too(slackwater: Command) -> None:
    assert slackwater("watch", "--bad").code == 3
    assert slackwater("doctor", "--bad").code == 3


def test_the_rules_for_prometheus(slackwater: Command) -> None:
    assert slackwater("watch", "--prometheus").out == prometheus_rules()
