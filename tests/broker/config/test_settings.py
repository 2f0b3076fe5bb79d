"""Broker and topic settings."""

from pathlib import Path

import pytest

from slackwater.broker.config import (
    BROKER_SETTINGS,
    SYNONYMS,
    Settings,
    format_value,
    parse_topic_settings,
)
from slackwater.broker.config.listeners import advertised_address
from slackwater.group.errors import UsageError
from slackwater.properties import read_properties


def test_defaults_are_kafkas() -> None:
    settings = Settings()

    assert settings.number("group.initial.rebalance.delay.ms") == 3_000
    assert settings.number("offsets.topic.num.partitions") == 50
    assert settings.flag("auto.create.topics.enable")
    assert settings["log.cleanup.policy"] == ("delete",)
    assert settings.text("flush") == "os"


def test_dynamic_settings_override_static_ones() -> None:
    settings, partitions = Settings({"num.partitions": "3"}), list[int]()
    settings.watch(lambda: partitions.append(settings.number("num.partitions")))
    assert settings.number("num.partitions") == 3

    settings.alter({"num.partitions": 5})
    settings.alter({"num.partitions": None})

    assert partitions == [5, 3]


def test_topic_setting_overrides_broker_setting() -> None:
    settings = Settings({"log.retention.ms": "1000"})

    assert settings.for_topic("retention.ms", {}) == 1_000
    assert settings.for_topic("retention.ms", parse_topic_settings({"retention.ms": "5"})) == 5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("num.partitons", "1", "num.partitons is not a broker setting; did you mean num.partitions?"),
        ("zzz", "1", "zzz is not a broker setting."),
        ("num.partitions", "0", "num.partitions = 0 is too small; use 1 or more."),
        ("num.partitions", "99999999999", "num.partitions = 99999999999 is too large; use 2147483647 or less."),
        ("num.partitions", "many", "num.partitions = 'many' is not a whole number."),
        ("auto.create.topics.enable", "yes", "auto.create.topics.enable = 'yes' is not true or false."),
        ("log.cleaner.min.cleanable.ratio", "half", "log.cleaner.min.cleanable.ratio = 'half' is not a number."),
        ("log.cleaner.min.cleanable.ratio", "2", "log.cleaner.min.cleanable.ratio = 2 is too large; use 1 or less."),
        ("log.cleanup.policy", "keep", "log.cleanup.policy = keep is unknown; use one of delete, compact."),
        ("flush", "never", "flush = never is unknown; use one of os, always."),
    ],
)
def test_invalid_setting_message(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        Settings({name: text})
    assert str(raised.value) == message


def test_cluster_settings_of_kafka_are_ignored() -> None:
    settings = Settings({"process.roles": "broker,controller", "log.dirs": "/var/lib/kafka", "node.id": "7"})

    assert settings.ignored == ["process.roles", "log.dirs"]
    assert settings.number("node.id") == 7


def test_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# a comment\n! another\nnum.partitions = 3\nlog.cleanup.policy=delete,\\\ncompact\n\n")

    properties = read_properties(path)

    assert Settings(properties)["log.cleanup.policy"] == ("delete", "compact")
    assert properties["num.partitions"] == "3"


def test_variables_are_replaced_in_static_settings_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLL_HOURS", "2")
    (tmp_path / "password").write_text("secret\n")
    password = f"${{file:{tmp_path / 'password'}}}"
    settings = Settings({"log.roll.hours": "${ROLL_HOURS}", "ssl.keystore.password": password, "log.dir": "${NONE}"})
    assert settings.number("log.roll.ms") == 7_200_000
    assert settings.text("ssl.keystore.password") == "secret"
    altered = settings.with_dynamic({}, {"ssl.key.password": password})
    assert altered.text("ssl.key.password") == password
    with pytest.raises(UsageError, match=r"ssl\.key\.password needs the environment variable NONE, which is not set"):
        Settings({"ssl.key.password": "${NONE}"})


def test_unreadable_properties_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"The file .* cannot be read: No such file or directory"):
        read_properties(tmp_path / "missing", allow_name_only=False)
    (tmp_path / "bad").write_text("num.partitions\n")
    with pytest.raises(UsageError, match=r"line 1 is not a setting; use name=value\."):
        read_properties(tmp_path / "bad", allow_name_only=False)


def test_values_are_formatted_as_in_kafka() -> None:
    assert [format_value(value) for value in (True, False, 5, 0.5, ("a", "b"), "x")] == [
        "true",
        "false",
        "5",
        "0.5",
        "a,b",
        "x",
    ]


def test_every_topic_setting_has_a_broker_setting() -> None:
    assert all(synonym in BROKER_SETTINGS for synonym in SYNONYMS.values())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
            (
                "group.min.session.timeout.ms = 9 is above group.max.session.timeout.ms = 8; "
                "use a smaller minimum or a larger maximum."
            ),
        ),
        ({"default.replication.factor": "3"}, "default.replication.factor = 3 is not possible with one broker; use 1."),
        (
            {"offsets.topic.replication.factor": "3"},
            "offsets.topic.replication.factor = 3 is not possible with one broker; use 1.",
        ),
        (
            {"advertised.listeners": "kafka:9092"},
            "advertised.listeners = kafka:9092 is not valid; use PLAINTEXT://HOST:PORT.",
        ),
        ({"log.retention.hours": "long"}, "log.retention.hours = 'long' is not a whole number."),
    ],
)
def test_contradictory_settings_message(values: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        Settings(values)
    assert str(raised.value) == message


def test_other_names_and_units_of_a_setting() -> None:
    settings = Settings({"broker.id": "5", "log.retention.hours": "2", "log.roll.hours": "1"})
    assert (settings.number("node.id"), settings.number("log.retention.ms")) == (5, 7_200_000)
    assert settings.number("log.roll.ms") == 3_600_000
    assert Settings({"log.retention.hours": "2", "log.retention.minutes": "3"}).number("log.retention.ms") == 180_000
    assert Settings({"log.retention.hours": "2", "log.retention.ms": "4"}).number("log.retention.ms") == 4
    assert Settings({"log.retention.hours": "-1"}).number("log.retention.ms") == -1


def test_unknown_authorizer_is_rejected() -> None:
    Settings({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    with pytest.raises(UsageError, match="authorizer"):
        Settings({"authorizer.class.name": "com.example.OwnAuthorizer"})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None),
        ("PLAINTEXT://kafka:9092", ("kafka", 9092)),
        ("CONTROLLER://a:1, PLAINTEXT://[::1]:9093,OTHER://b:2", ("::1", 9093)),
    ],
)
def test_advertised_address_is_the_plaintext_listener(text: str, address: tuple[str, int] | None) -> None:
    assert advertised_address(text) == address
