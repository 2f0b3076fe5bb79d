"""Sections 6 and 8 of the catalogue in the broker: topics, partitions on disk, slow writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.wire.records.batch import iter_batches
from slackwater.wire.records.record import decode_records
from tests.broker.handlers.members import GROUP, commit, join_stable_group
from tests.broker.quiet_broker import QuietBroker, QuietClient

OFFSETS_PARTITIONS = 50
# Group ids and their Java hash codes (`String.hashCode`); the third is Integer.MIN_VALUE.
HASHES = {"orders": -1008770331, "g": 103, "polygenelubricants": -(2**31), "": 0, "größe-😀": 175616671}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[QuietBroker]:
    with QuietBroker(tmp_path, {"offsets.topic.num.partitions": OFFSETS_PARTITIONS}, t=3, u=1) as broker:
        yield broker


def stored_keys(broker: QuietBroker) -> dict[int, list[bytes | None]]:
    """Return the record keys by partition of the offsets topic, without empty partitions."""
    topic = broker.broker.topics.get(OFFSETS_TOPIC)
    assert topic is not None
    keys_by_partition: dict[int, list[bytes | None]] = {}
    for partition in topic.partitions:
        data = partition.log.read(0, 1_000_000)
        assert isinstance(data, memoryview)
        if keys := [record.key for batch in iter_batches(data) for record in decode_records(batch)]:
            keys_by_partition[partition.index] = keys
    return keys_by_partition


@pytest.mark.proves("CO-01")
@pytest.mark.parametrize("group", HASHES)
def test_group_partition_is_java_hash_of_its_id(broker: QuietBroker, group: str) -> None:
    client = broker.connect()
    assert commit(client, 5, group=group) == Error.NONE
    java_hash = HASHES[group]
    expected = 0 if java_hash == -(2**31) else abs(java_hash) % OFFSETS_PARTITIONS
    ((partition, (key,)),) = stored_keys(broker).items()
    assert partition == expected
    assert key is not None
    assert group.encode() in key
    (coordinator,) = client.request_fields("FindCoordinator", 4, key_type=0, coordinator_keys=[group])["coordinators"]
    assert coordinator["node_id"] == broker.broker.node_id  # it leads all partitions


def _errors_of_all_requests(client: QuietClient) -> dict[str, int]:
    """Send every group request and return the error codes."""
    member: dict[str, Any] = {"group_id": GROUP, "member_id": "m", "generation_id": 1}
    join = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
    protocols = [{"name": "range", "metadata": b""}]
    protocol = {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    (fetched,) = client.request_fields("OffsetFetch", 9, groups=[{"group_id": GROUP, "topics": None}])["groups"]
    (described,) = client.request_fields("DescribeGroups", 6, groups=[GROUP])["groups"]
    (deleted,) = client.request_fields("DeleteGroups", 2, groups_names=[GROUP])["results"]
    leavers = [{"member_id": "m", "group_instance_id": None}]
    return {
        "JoinGroup": client.request_fields(
            "JoinGroup", 9, group_id=GROUP, member_id="m", protocols=protocols, group_instance_id=None, **join
        )["error_code"],
        "SyncGroup": client.request_fields("SyncGroup", 5, **member, **protocol)["error_code"],
        "Heartbeat": client.request_fields("Heartbeat", 4, **member)["error_code"],
        "LeaveGroup": client.request_fields("LeaveGroup", 5, group_id=GROUP, members=leavers)["error_code"],
        "OffsetCommit": commit(client, 1),
        "OffsetFetch": fetched["error_code"],
        "DescribeGroups": described["error_code"],
        "DeleteGroups": deleted["error_code"],
    }


@pytest.mark.proves("CO-02")
def test_not_coordinator_without_the_partition(broker: QuietBroker) -> None:
    client = broker.connect()
    coordinator = broker.broker.group_coordinator.coordinator
    coordinator.unload(coordinator.offsets_partition_of(GROUP), None, broker.clock.now_ms())
    assert set(_errors_of_all_requests(client).values()) == {Error.NOT_COORDINATOR}


@pytest.mark.proves("CO-02", "CO-03")
def test_load_in_progress_while_loading(broker: QuietBroker) -> None:
    client = broker.connect()
    join_stable_group(client)
    coordinator = broker.broker.group_coordinator.coordinator
    partition, now_ms = coordinator.offsets_partition_of(GROUP), broker.clock.now_ms()
    coordinator.load(partition, 1, now_ms)
    errors = _errors_of_all_requests(client)
    exceptions = {"Heartbeat": Error.NONE, "SyncGroup": Error.REBALANCE_IN_PROGRESS}
    assert errors == dict.fromkeys(errors, Error.COORDINATOR_LOAD_IN_PROGRESS) | exceptions
    coordinator.finish_loading(partition, now_ms)
    assert commit(client, 1) == Error.NONE


@pytest.mark.proves("OC-10")
@pytest.mark.parametrize("version", range(2, 10))
def test_commit_rejects_only_missing_partitions(broker: QuietBroker, version: int) -> None:
    client = broker.connect()
    offset = {"committed_offset": 5, "committed_metadata": ""}
    topics = [
        {"name": name, "partitions": [{"partition_index": index} | offset for index in indexes]}
        for name, indexes in (("t", [0, 3, 2, -1]), ("nowhere", [0]), ("u", [0]))
    ]
    response = client.request_fields("OffsetCommit", version, group_id=GROUP, topics=topics)
    errors = {
        (topic["name"], partition["partition_index"]): partition["error_code"]
        for topic in response["topics"]
        for partition in topic["partitions"]
    }
    rejected = dict.fromkeys([("t", 3), ("t", -1), ("nowhere", 0)], int(Error.UNKNOWN_TOPIC_OR_PARTITION))
    assert errors == rejected | dict.fromkeys([("t", 0), ("t", 2), ("u", 0)], 0)
    assert set(broker.broker.group_coordinator.coordinator.groups[GROUP].offsets) == {("t", 0), ("t", 2), ("u", 0)}


@pytest.mark.proves("OC-12")
def test_commit_response_waits_for_flush_always(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always"}, t=1) as broker:
        held = broker.hold_flushes()
        response = _commit_later(broker.connect())
        broker.pass_ms(4_999)
        assert response() is None
        assert not broker.broker.group_coordinator.coordinator.groups[GROUP].offsets
        held.release()
        assert _error(response()) == Error.NONE
        assert broker.broker.group_coordinator.coordinator.groups[GROUP].offsets


@pytest.mark.proves("OC-12")
def test_slow_commit_times_out_and_is_still_applied(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always"}, t=1) as broker:
        held = broker.hold_flushes()
        client = broker.connect()
        first = _commit_later(client)
        broker.pass_ms(5_000)
        assert _error(first()) == Error.COORDINATOR_NOT_AVAILABLE
        second = _commit_later(client, 6)  # shares the next flush
        held.release()
        assert _error(second()) == Error.NONE
        (offset,) = broker.broker.group_coordinator.coordinator.groups[GROUP].offsets.values()
        assert offset.offset == 6


@pytest.mark.proves("OC-12")
def test_commit_response_waits_for_write_by_default(broker: QuietBroker) -> None:
    assert commit(broker.connect(), 5) == Error.NONE
    ((_, keys),) = stored_keys(broker).items()
    assert len(keys) == 1


def _commit_later(client: QuietClient, offset: int = 5) -> Any:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    return client.send_fields("OffsetCommit", 8, group_id=GROUP, topics=[{"name": "t", "partitions": [partition]}])


def _error(response: dict[str, Any] | None) -> int:
    assert response is not None
    return int(response["topics"][0]["partitions"][0]["error_code"])
