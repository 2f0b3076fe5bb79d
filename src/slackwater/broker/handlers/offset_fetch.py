"""OffsetFetch, v1 to v9.

v0, which read ZooKeeper, is gone in 4.0. v10 names topics by id, which needs the broker's metadata.

v1  one group; an error of the group stands on every partition asked for
v2  null topics: everything the group has (OF-01); the group's error in a field of its own
v3  throttle time in the answer
v5  leader epoch in the answer
v6  flexible
v7  require_stable (OF-03)
v8  many groups, each with its error (OF-04)
v9  a member id and epoch for each group, which only a KIP-848 group looks at (OF-05)
"""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Final, NotRequired, TypedDict

from slackwater.group.errors import Error
from slackwater.group.messages import FetchedGroup, FetchedOffset, GroupToFetch, OffsetFetch, OffsetFetchResponse

VERSIONS: Final = range(1, 10)


class WireTopic(TypedDict):
    """One entry of `topics`."""

    name: str
    partition_indexes: list[int]


class WireGroup(TypedDict):
    """One entry of `groups`."""

    group_id: str
    member_id: NotRequired[str | None]
    member_epoch: NotRequired[int]
    topics: list[WireTopic] | None


def request(
    version: int,
    *,
    group_id: str = "",
    topics: list[WireTopic] | None = None,
    groups: Iterable[WireGroup] = (),
    require_stable: bool = False,
) -> OffsetFetch:
    """What the core is asked."""
    asked: Iterable[WireGroup] = groups if version >= 8 else [{"group_id": group_id, "topics": topics}]
    return OffsetFetch(
        tuple(GroupToFetch(group["group_id"], _partitions(group["topics"])) for group in asked),
        require_stable=require_stable and version >= 7,
    )


def answer(version: int, response: OffsetFetchResponse, asked: OffsetFetch | None = None) -> dict[str, object]:
    """What the client is told; v1 needs what was asked, to say a group's error on every partition of it."""
    fields: dict[str, object] = {"throttle_time_ms": 0} if version >= 3 else {}
    if version >= 8:
        fields["groups"] = [
            {
                "group_id": group.group_id,
                "topics": _topics(version, group.offsets),
                "error_code": int(group.error),
            }
            for group in response.groups
        ]
        return fields
    group = response.groups[0]
    fields["topics"] = _topics(version, group.offsets if version >= 2 else _with_error(group, asked))
    if version >= 2:
        fields["error_code"] = int(group.error)
    return fields


def _partitions(topics: list[WireTopic] | None) -> tuple[tuple[str, int], ...] | None:
    if topics is None:
        return None
    return tuple((topic["name"], partition) for topic in topics for partition in topic["partition_indexes"])


def _with_error(group: FetchedGroup, asked: OffsetFetch | None) -> tuple[FetchedOffset, ...]:
    if group.error is Error.NONE or asked is None:
        return group.offsets
    return tuple(
        FetchedOffset(topic, partition, error=group.error) for topic, partition in asked.groups[0].partitions or ()
    )


def _topics(version: int, offsets: Iterable[FetchedOffset]) -> list[dict[str, object]]:
    """In the order asked: a topic named in two places is answered in two places."""
    return [
        {"name": name, "partitions": [_partition(version, offset) for offset in run]}
        for name, run in groupby(offsets, attrgetter("topic"))
    ]


def _partition(version: int, fetched: FetchedOffset) -> dict[str, object]:
    fields: dict[str, object] = {"partition_index": fetched.partition, "committed_offset": fetched.offset}
    if version >= 5:
        fields["committed_leader_epoch"] = fetched.leader_epoch
    fields["metadata"] = fetched.metadata
    fields["error_code"] = int(fetched.error)
    return fields
