"""The stock clients' admin calls: topics, their settings and records, groups and their offsets, the cluster."""

from collections.abc import Callable

import pytest

from tests.interop.clients import ClientError, Driver, partitions, wait_for_assignment, wait_for_records, wait_until

Name = Callable[[str], str]
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


def error_code(driver: Driver, do: str, **fields: object) -> int:
    """Send a command that fails; return its error code."""
    with pytest.raises(ClientError) as caught:
        driver.call(do, **fields)
    return caught.value.code


def test_topic_lifecycle(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("admin"), 2, retention_ms="3600000")
    wait_until(lambda: topic in driver.call("topics"), lambda: driver.call("topics"))
    assert driver.call("partitions", topic=topic) == 2
    assert driver.call("config", topic=topic, name="retention.ms") == "3600000"
    assert driver.call("config", topic=topic, name="cleanup.policy") == "delete"

    driver.call("add_partitions", topic=topic, total=5)
    wait_until(lambda: driver.call("partitions", topic=topic) == 5, lambda: driver.call("partitions", topic=topic))
    assert error_code(driver, "add_partitions", topic=topic, total=3) == INVALID_PARTITIONS
    assert driver.produce(topic, [{"partition": 4, "value": "new"}]) == [(4, 0)]

    driver.call("set_config", topic=topic, name="cleanup.policy", value="compact")
    wait_until(
        lambda: driver.call("config", topic=topic, name="cleanup.policy") == "compact",
        lambda: driver.call("config", topic=topic, name="cleanup.policy"),
    )
    assert error_code(driver, "set_config", topic=topic, name="retention.ms", value="soon") == INVALID_CONFIG

    driver.call("delete_topic", topic=topic)
    wait_until(lambda: topic not in driver.call("topics"), lambda: driver.call("topics"))
    assert error_code(driver, "delete_topic", topic=topic) == UNKNOWN_TOPIC_OR_PARTITION


def test_delete_records(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("trim"), 1)
    driver.produce(topic, [{"partition": 0, "value": str(number)} for number in range(10)])
    assert driver.call("delete_records", topic=topic, partition=0, before=4) == 4
    assert driver.offsets(topic, 0) == {0: (4, 10)}
    assert [record["value"] for record in driver.read(topic, {0: 4}, 6)] == ["4", "5", "6", "7", "8", "9"]


def test_list_and_describe_group(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("described"), 4)
    group = name("described-group")
    a, b = (driver.join(member, group, [topic], assignor="roundrobin") for member in ("a", "b"))
    snapshots = wait_for_assignment([a, b], partitions(topic, 4))
    driver.produce(topic, [{"partition": number % 4, "value": "v"} for number in range(8)])
    wait_for_records([a, b], 8)
    a.commit()
    b.commit()
    assert group in driver.call("groups")
    assert driver.call("group", group=group) == {
        "state": "Stable",
        "protocol": "roundrobin",
        "members": {member: sorted(snapshot.assignment) for member, snapshot in zip("ab", snapshots, strict=True)},
    }
    assert driver.call("group_offsets", group=group) == dict.fromkeys(partitions(topic, 4), 2)
    if driver.can("delete_group"):
        assert error_code(driver, "delete_group", group=group) == NON_EMPTY_GROUP
    a.close()
    b.close()
    wait_until(lambda: driver.call("group", group=group)["state"] == "Empty", lambda: driver.call("group", group=group))


@pytest.mark.needs_call("set_group_offsets")
def test_empty_group_offsets_are_set_and_deleted(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("moved"), 2)
    partition_0, partition_1 = f"{topic}-0", f"{topic}-1"
    group = name("moved-group")
    driver.produce(topic, [{"partition": number % 2, "value": "v"} for number in range(10)])
    driver.call("set_group_offsets", group=group, offsets={partition_0: 3, partition_1: 4})
    assert driver.call("group_offsets", group=group) == {partition_0: 3, partition_1: 4}
    a = driver.join("a", group, [topic])
    wait_for_assignment([a], {partition_0, partition_1})
    assert sorted((record["partition"], record["offset"]) for record in wait_for_records([a], 3)) == [
        (0, 3),
        (0, 4),
        (1, 4),
    ]
    a.close()

    remaining = {partition_0: 3, partition_1: 4}
    if driver.can("delete_group_offsets"):
        driver.call("delete_group_offsets", group=group, partitions=[partition_0])
        remaining = {partition_1: 4}
    assert driver.call("group_offsets", group=group) == remaining
    driver.call("delete_group", group=group)
    assert group not in driver.call("groups")
    assert error_code(driver, "delete_group", group=group) == GROUP_ID_NOT_FOUND


def test_cluster_has_one_node_at_the_bootstrap_address(driver: Driver, bootstrap: str) -> None:
    cluster = driver.call("cluster")
    assert cluster["nodes"] == [bootstrap]
    assert cluster["id"]
    assert cluster["controller"] >= 0
