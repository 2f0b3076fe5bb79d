"""`slackwater topics`: its tables, JSON output, confirmations and errors."""

import json

from slackwater import Admin

from .conftest import Command


def test_list_and_describe_topics(slackwater: Command) -> None:
    listed = slackwater("topics", "list")
    assert [line.split() for line in listed.out.splitlines()][:2] == [
        ["TOPIC", "PARTITIONS", "REPLICAS"],
        ["orders", "3", "1"],
    ]
    assert "__" not in listed.out
    assert {json.loads(line)["topic"] for line in slackwater("topics", "list", "--json").out.splitlines()} >= {
        "orders",
        "payments",
    }
    (topic,) = map(json.loads, slackwater("topics", "describe", "orders", "--json").out.splitlines())
    assert [(row["partition"], row["start"], row["end"], row["leader"]) for row in topic["partitions"]] == [
        (number, 0, 10, 1) for number in range(3)
    ]
    described = slackwater("topics", "describe", "orders").out.splitlines()
    assert described[0] == "Topic orders"
    assert described[-1].split() == ["2", "1", "1", "1", "0", "10"]
    assert slackwater("topics", "describe", "order") == (
        1,
        "",
        "slackwater: There is no topic order; did you mean orders?\n",
    )


def test_create_topic(slackwater: Command, admin: Admin) -> None:
    create = ["topics", "create", "fresh", "--partitions", "2", "--set", "retention.ms=60000"]
    assert slackwater(*create, "--dry-run").out == "Topic fresh could be created.\n"
    assert "fresh" not in {topic.name for topic in admin.list_topics()}
    assert slackwater(*create).out == "Created topic fresh.\n"
    repeated = slackwater(*create)
    assert repeated.code == 1
    assert "already exists" in repeated.err
    assert slackwater(*create, "--if-not-exists").code == 0
    assert json.loads(slackwater(*create, "--if-not-exists", "--json").out) == {"topic": "fresh", "created": False}
    assert admin.describe_configs("topic", "fresh")["retention.ms"].value == "60000"
    assert slackwater("topics", "create", "other", "--partitions", "0").code == 2
    assert slackwater("topics", "create", "other", "--set", "retention").err == (
        "slackwater: --set retention is not a setting. Use --set name=value.\n"
    )


def test_topic_changes_need_confirmation(slackwater: Command, admin: Admin) -> None:
    admin.create_topic("grows", 1)
    assert slackwater("topics", "add-partitions", "grows", "--total", 3).code == 2
    assert slackwater("topics", "add-partitions", "grows", "--total", 3, "--dry-run").code == 0
    assert len(admin.describe_topics(["grows"])[0].partitions) == 1
    assert slackwater("topics", "add-partitions", "grows", "--total", 3, "--yes").code == 0
    assert len(admin.describe_topics(["grows"])[0].partitions) == 3
    shrink = slackwater("topics", "add-partitions", "grows", "--total", 2, "--yes")
    assert (shrink.code, shrink.out) == (1, "")

    change = ["topics", "set", "grows", "retention.ms=60000"]
    assert slackwater(*change).code == 2
    assert "604800000  60000" in slackwater(*change, "--dry-run").out
    assert admin.describe_configs("topic", "grows")["retention.ms"].is_default
    (row,) = map(json.loads, slackwater(*change, "--yes", "--json").out.splitlines())
    assert (row["from"], row["to"], row["changed"]) == ("604800000", "60000", True)
    assert slackwater("topics", "set", "grows", "--unset", "retention.ms", "--yes").code == 0
    assert admin.describe_configs("topic", "grows")["retention.ms"].is_default
    assert slackwater("topics", "set", "grows", "no.such=1", "--yes").code == 1
    assert slackwater("topics", "set", "grows", "--yes").code == 2
    assert slackwater("topics", "set", "grows", "retention", "--yes").err == (
        "slackwater: retention is not NAME=VALUE. Use for example retention.ms=3600000.\n"
    )


def test_delete_topics_needs_confirmation(slackwater: Command, admin: Admin) -> None:
    admin.create_topic("doomed", 1)
    assert slackwater("topics", "delete", "doomed").code == 2
    assert slackwater("topics", "delete", "doomed", "--dry-run").out.startswith("Would delete 1 topic:\n")
    assert "doomed" in {topic.name for topic in admin.list_topics()}
    assert slackwater("topics", "delete", "doomed", "absent", "--yes").code == 1
    assert "doomed" in {topic.name for topic in admin.list_topics()}
    assert slackwater("topics", "delete", "doomed", "--yes").out.endswith("Deleted 1 topic.\n")
    assert "doomed" not in {topic.name for topic in admin.list_topics()}
