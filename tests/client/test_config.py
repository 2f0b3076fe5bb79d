"""Client settings: parsing, defaults and errors."""

import logging
import re
from collections.abc import Callable

import pytest

from slackwater import Admin, Consumer, Producer
from slackwater.client.config import CONSUMER_SETTINGS, PRODUCER_SETTINGS, parse_settings
from slackwater.group.errors import UsageError

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


def test_defaults_match_kafka() -> None:
    values = parse_settings({}, CONSUMER_SETTINGS, ignored=print)
    assert values["session.timeout.ms"] == 45_000
    assert values["heartbeat.interval.ms"] == 3_000
    assert values["max.poll.interval.ms"] == 300_000
    assert values["max.poll.records"] == 500
    assert values["fetch.max.bytes"] == 52_428_800
    assert values["auto.offset.reset"] == "latest"


@pytest.mark.parametrize(
    ("table", "foreign"),
    [
        (CONSUMER_SETTINGS, ["linger.ms", "acks", "batch.size", "key.serializer", "queued.max.messages.kbytes"]),
        (PRODUCER_SETTINGS, ["group.id", "session.timeout.ms", "auto.offset.reset", "value.deserializer"]),
    ],
)
def test_settings_of_other_clients_are_ignored(table: object, foreign: list[str]) -> None:
    assert isinstance(table, dict)
    ignored: list[str] = []
    parse_settings(dict.fromkeys(foreign, "1"), table, ignored=ignored.append)
    assert ignored == foreign


def test_shared_settings_work_for_both_clients(caplog: pytest.LogCaptureFixture) -> None:
    shared = SERVERS | {"group.id": "g", "linger.ms": "3", "metric.reporters": "x"}
    with caplog.at_level(logging.INFO, "slackwater"):
        Producer(shared).close()
        Consumer(shared).close()
    assert "ignored: group.id, metric.reporters." in caplog.text
    assert "ignored: linger.ms, metric.reporters." in caplog.text


def test_misspelt_setting_suggests_closest_name() -> None:
    with pytest.raises(UsageError, match=r"sesion\.timeout\.ms is not a setting of this client; did you mean session"):
        Consumer(SERVERS | {"sesion.timeout.ms": 1})
    with pytest.raises(UsageError, match=r"lingr\.ms .* did you mean linger\.ms"):
        Producer(SERVERS | {"lingr.ms": 1})


@pytest.mark.parametrize("make", [Consumer, Producer, Admin])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
        ("ssl.engine.factory.class", "com.x.F"),
        ("sasl.client.callback.handler.class", "com.x.H"),
        ("sasl.oauthbearer.assertion.file", "/x"),
        ("oauth_cb", print),
    ],
)
def test_unknown_security_settings_are_refused(make: Callable[..., object], name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(name)} is not supported"):
        make(SERVERS | {name: value})


@pytest.mark.parametrize(
    ("make", "name", "value", "message"),
    [
        (Producer, "partitioner.class", "com.x.P", "loads no classes"),
        (Producer, "interceptor.classes", "com.x.I", "has no interceptors"),
        (Producer, "message.timeout.ms", 5, "is the name of another client; use delivery.timeout.ms"),
        (Consumer, "interceptor.classes", ["com.x.I"], "has no interceptors"),
        (Consumer, "config.providers", "vault", "has the providers env and file"),
        (Consumer, "enable.auto.offset.store", False, "commit offsets yourself"),
        (Consumer, "enable.partition.eof", True, "Compare position"),
        (Consumer, "error_cb", print, "errors are raised and logged"),
        (Consumer, "fetch.message.max.bytes", 5, "use max.partition.fetch.bytes"),
        (Consumer, "auto.commit.enable", False, "use enable.auto.commit"),
    ],
)
def test_settings_that_change_the_meaning_are_refused(
    make: Callable[..., object], name: str, value: object, message: str
) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(name)} .*{message}"):
        make(SERVERS | {name: value})


def test_values_that_change_nothing_are_accepted() -> None:
    harmless = {"security.protocol": "plaintext", "sasl.mechanism": "", "interceptor.classes": None}
    Consumer(SERVERS | harmless | {"enable.auto.offset.store": True, "transactional.id": "of a producer"}).close()
    Producer(SERVERS | harmless | {"transactional.id": None, "message.max.bytes.unknown": 1}).close()


def test_names_may_be_given_as_keywords() -> None:
    with Consumer(bootstrap_servers="127.0.0.1:1", client_id="named") as client:
        assert client.client_id == "named"


def test_environment_variables_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "pod-7")
    monkeypatch.setenv("STRATEGY", "roundrobin")
    settings = {"group.id": "g", "group.instance.id": "${POD_NAME}", "partition.assignment.strategy": "${STRATEGY}"}
    with Consumer(SERVERS | settings) as client:
        assert client.group_metadata().group_instance_id == "pod-7"
        config = client.engine.require_group("test").member.config
        assert [assignor.name for assignor in config.assignors] == ["roundrobin"]


def test_missing_environment_variable_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    with pytest.raises(UsageError, match=r"needs the environment variable POD_NAME, which is not set"):
        Consumer(SERVERS | {"group.instance.id": "${POD_NAME}"})


def test_heartbeat_interval_must_be_below_session_timeout() -> None:
    with pytest.raises(UsageError, match=r"heartbeat\.interval\.ms = 5000 must be lower than session"):
        Consumer(SERVERS | {"group.id": "g", "heartbeat.interval.ms": 5000, "session.timeout.ms": 5000})


def test_risky_settings_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"heartbeat.interval.ms": 4_000, "session.timeout.ms": 10_000, "max.poll.interval.ms": 9_000}
    Consumer({**SERVERS, "group.id": "g", **settings}).close()
    assert "more than a third of session.timeout.ms = 10000" in caplog.text
    assert "KIP-62" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max.poll.records", "many", "is not a whole number"),
        ("max.poll.records", 0, "too small"),
        ("isolation.level", "dirty", "read_uncommitted, read_committed"),
        ("auto.offset.reset", "somewhere", "earliest, latest, none, or by_duration"),
        ("bootstrap.servers", "nowhere", "write host:port"),
        ("enable.auto.commit", "perhaps", "true or false"),
    ],
)
def test_invalid_value_is_rejected(name: str, value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Consumer(SERVERS | {name: value})


def test_rebalance_timeout_defaults_to_poll_interval() -> None:
    with Consumer(SERVERS | {"group.id": "g", "max.poll.interval.ms": 60_000}) as client:
        assert client.engine.require_group("test").member.config.join_rebalance_timeout_ms == 60_000
    with Consumer(SERVERS | {"group.id": "g", "rebalance.timeout.ms": 7_000}) as client:
        assert client.engine.require_group("test").member.config.join_rebalance_timeout_ms == 7_000
