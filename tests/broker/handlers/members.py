"""Members of groups for tests of the group APIs."""

from typing import Any

from tests.broker.quiet_broker import QuietClient

GROUP = "g"


def join(client: QuietClient, *, group: str = GROUP, instance: str | None = None, member_id: str = "") -> str:
    """Join a group, a dynamic member in two steps; return the member id."""
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    response = client.request_fields("JoinGroup", 9, **fields)
    if instance is None and not member_id:
        response = client.request_fields("JoinGroup", 9, **fields | {"member_id": response["member_id"]})
    assert response["error_code"] == 0
    return str(response["member_id"])


def join_stable_group(client: QuietClient, *, group: str = GROUP, instance: str | None = None) -> str:
    """Join and sync as the only member of a group, in generation 1; return the member id."""
    member_id = join(client, group=group, instance=instance)
    response = client.request_fields(
        "SyncGroup",
        5,
        group_id=group,
        generation_id=1,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member_id, "assignment": b"part"}],
    )
    assert response["error_code"] == 0
    return member_id


def commit(client: QuietClient, offset: int, *, topic: str = "t", partition: int = 0, group: str = GROUP) -> int:
    """Commit without a member id; return the error."""
    partition_data = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [partition_data]}]
    response = client.request_fields("OffsetCommit", 8, group_id=group, topics=topics)
    return int(response["topics"][0]["partitions"][0]["error_code"])
