"""OffsetCommit, v2 to v9.

v0 and v1, from before Kafka 0.9, are gone in 4.0. v10 names topics by id, which needs the broker's metadata.

v2  retention time, for all offsets together (OC-13)
v3  throttle time in the answer
v5  no retention time any more
v6  leader epoch
v7  instance id
v8  flexible
v9  a generation of a group that does not exist is GROUP_ID_NOT_FOUND, before it is ILLEGAL_GENERATION (OC-02); the
    generation may be a KIP-848 member's epoch
"""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Final, NotRequired, TypedDict

from slackwater.group.messages import (
    NO_GENERATION,
    NO_MEMBER,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetToCommit,
)

VERSIONS: Final = range(2, 10)


class WirePartition(TypedDict):
    """One entry of a topic's `partitions`."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: NotRequired[int]
    committed_metadata: str | None


class WireTopic(TypedDict):
    """One entry of `topics`."""

    name: str
    partitions: list[WirePartition]


def request(
    version: int,
    *,
    group_id: str,
    topics: Iterable[WireTopic],
    generation_id_or_member_epoch: int = NO_GENERATION,
    member_id: str = NO_MEMBER,
    group_instance_id: str | None = None,
    retention_time_ms: int = -1,
) -> OffsetCommit:
    """What the core is asked."""
    return OffsetCommit(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=group_instance_id if version >= 7 else None,
        generation_id=generation_id_or_member_epoch,
        offsets=tuple(
            OffsetToCommit(
                topic["name"],
                partition["partition_index"],
                partition["committed_offset"],
                partition.get("committed_leader_epoch", -1) if version >= 6 else -1,
                partition["committed_metadata"],
            )
            for topic in topics
            for partition in topic["partitions"]
        ),
        retention_ms=retention_time_ms if version <= 4 else -1,
        reports_missing_group=version >= 9,
    )


def answer(version: int, response: OffsetCommitResponse) -> dict[str, object]:
    """What the client is told, in the order asked: a topic named in two places is answered in two places."""
    fields: dict[str, object] = {"throttle_time_ms": 0} if version >= 3 else {}
    fields["topics"] = [
        {"name": name, "partitions": [{"partition_index": one.partition, "error_code": int(one.error)} for one in run]}
        for name, run in groupby(response.partitions, attrgetter("topic"))
    ]
    return fields
