"""Members of groups, for tests of the group APIs: made through the broker's own requests."""

from typing import Any

from tests.broker.quiet_broker import QuietClient

GROUP = "g"


def join(client: QuietClient, *, group: str = GROUP, instance: str | None = None, member_id: str = "") -> str:
    """Join, as a dynamic member in two steps; the member's id."""
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    answer = client.ask_fields("JoinGroup", 9, **fields)
    if instance is None and not member_id:
        answer = client.ask_fields("JoinGroup", 9, **fields | {"member_id": answer["member_id"]})
    assert answer["error_code"] == 0
    return str(answer["member_id"])


def settle(client: QuietClient, *, group: str = GROUP, instance: str | None = None) -> str:
    """Be the one member of a stable group, in generation 1; the member's id."""
    member_id = join(client, group=group, instance=instance)
    answer = client.ask_fields(
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
    assert answer["error_code"] == 0
    return member_id


def commit(client: QuietClient, offset: int, *, topic: str = "t", partition: int = 0, group: str = GROUP) -> int:
    """Commit as nobody's member; the error."""
    one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [one]}]
    answer = client.ask_fields("OffsetCommit", 8, group_id=group, topics=topics)
    return int(answer["topics"][0]["partitions"][0]["error_code"])
