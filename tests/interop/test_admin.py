"""The stock clients' admin calls: topics, their settings and records, groups and their offsets, the cluster."""

from collections.abc import Callable

import pytest

from tests.interop.clients import Driver, Refused, consumed, partitions, settled, wait_until

Name = Callable[[str], str]
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


def refused(driver: Driver, do: str, **fields: object) -> int:
    """The error code that a command is answered with."""
    with pytest.raises(Refused) as caught:
        driver.ask(do, **fields)
    return caught.value.code


def test_a_topic_is_made_described_grown_configured_and_deleted(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("admin"), 2, retention_ms="3600000")
    wait_until(lambda: topic in driver.ask("topics"), lambda: driver.ask("topics"))
    assert driver.ask("partitions", topic=topic) == 2
    assert driver.ask("config", topic=topic, name="retention.ms") == "3600000"
    assert driver.ask("config", topic=topic, name="cleanup.policy") == "delete"

    driver.ask("add_partitions", topic=topic, total=5)
    wait_until(lambda: driver.ask("partitions", topic=topic) == 5, lambda: driver.ask("partitions", topic=topic))
    assert refused(driver, "add_partitions", topic=topic, total=3) == INVALID_PARTITIONS
    assert driver.produce(topic, [{"partition": 4, "value": "new"}]) == [(4, 0)]

    driver.ask("set_config", topic=topic, name="cleanup.policy", value="compact")
    wait_until(
        lambda: driver.ask("config", topic=topic, name="cleanup.policy") == "compact",
        lambda: driver.ask("config", topic=topic, name="cleanup.policy"),
    )
    assert refused(driver, "set_config", topic=topic, name="retention.ms", value="soon") == INVALID_CONFIG

    driver.ask("delete_topic", topic=topic)
    wait_until(lambda: topic not in driver.ask("topics"), lambda: driver.ask("topics"))
    assert refused(driver, "delete_topic", topic=topic) == UNKNOWN_TOPIC_OR_PARTITION


def test_records_are_deleted_up_to_an_offset(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("trim"), 1)
    driver.produce(topic, [{"partition": 0, "value": str(number)} for number in range(10)])
    assert driver.ask("delete_records", topic=topic, partition=0, before=4) == 4
    assert driver.offsets(topic, 0) == {0: (4, 10)}
    assert [one["value"] for one in driver.read(topic, {0: 4}, 6)] == ["4", "5", "6", "7", "8", "9"]


def test_a_group_is_listed_and_described_with_its_members_and_offsets(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("described"), 4)
    group = name("described-group")
    a, b = (driver.join(member, group, [topic], assignor="roundrobin") for member in ("a", "b"))
    looks = settled([a, b], partitions(topic, 4))
    driver.produce(topic, [{"partition": number % 4, "value": "v"} for number in range(8)])
    consumed([a, b], 8)
    a.commit()
    b.commit()
    assert group in driver.ask("groups")
    assert driver.ask("group", group=group) == {
        "state": "Stable",
        "protocol": "roundrobin",
        "members": {member: sorted(look.assignment) for member, look in zip("ab", looks, strict=True)},
    }
    assert driver.ask("group_offsets", group=group) == dict.fromkeys(partitions(topic, 4), 2)
    if driver.can("delete_group"):
        assert refused(driver, "delete_group", group=group) == NON_EMPTY_GROUP
    a.close()
    b.close()
    wait_until(lambda: driver.ask("group", group=group)["state"] == "Empty", lambda: driver.ask("group", group=group))


@pytest.mark.needs_call("set_group_offsets")
def test_empty_group_offsets_are_set_and_deleted(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("moved"), 2)
    zero, one = f"{topic}-0", f"{topic}-1"
    group = name("moved-group")
    driver.produce(topic, [{"partition": number % 2, "value": "v"} for number in range(10)])
    driver.ask("set_group_offsets", group=group, offsets={zero: 3, one: 4})
    assert driver.ask("group_offsets", group=group) == {zero: 3, one: 4}
    a = driver.join("a", group, [topic])
    settled([a], {zero, one})
    assert sorted((record["partition"], record["offset"]) for record in consumed([a], 3)) == [(0, 3), (0, 4), (1, 4)]
    a.close()

    left = {zero: 3, one: 4}
    if driver.can("delete_group_offsets"):
        driver.ask("delete_group_offsets", group=group, partitions=[zero])
        left = {one: 4}
    assert driver.ask("group_offsets", group=group) == left
    driver.ask("delete_group", group=group)
    assert group not in driver.ask("groups")
    assert refused(driver, "delete_group", group=group) == GROUP_ID_NOT_FOUND


def test_the_cluster_is_one_node_at_the_address_that_was_given(driver: Driver, bootstrap: str) -> None:
    cluster = driver.ask("cluster")
    assert cluster["nodes"] == [bootstrap]
    assert cluster["id"]
    assert cluster["controller"] >= 0
