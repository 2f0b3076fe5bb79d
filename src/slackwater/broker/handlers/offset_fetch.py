"""OffsetFetch, v1 to v10.

v0, which read ZooKeeper, is gone in 4.0.

v1   one group; an error of the group is set on every partition
v2   null topics: everything the group has (OF-01); the group's error in a field of its own
v3   throttle time in the response
v5   leader epoch in the response
v6   flexible
v7   require_stable (OF-03)
v8   many groups, each with its error (OF-04)
v9   a member id and epoch for each group, which only a KIP-848 group looks at (OF-05)
v10  topics by their ids, in the response too; an unknown one is UNKNOWN_TOPIC_ID, after the others

Topics are returned as requested: a topic that appears twice is returned twice, and one without partitions stays empty.
For all offsets of a group, v10 returns only topics that still exist.
"""

from collections.abc import Iterable
from itertools import groupby, islice
from operator import attrgetter

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.topics import Topics
from slackwater.group.errors import Error
from slackwater.group.messages import NO_OFFSET, FetchedGroup, FetchedOffset, GroupToFetch, OffsetFetch
from slackwater.group.messages import OffsetFetchResponse as Fetched
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


def handle(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> None:
    """Read committed offsets."""
    groups = _groups(request, context.version)
    if context.version >= 10:
        _name_topics(groups, broker.topics)

    def on_response(answer: Fetched) -> None:
        responses = [
            _group_response(requested, found, context.version, broker.topics)
            for requested, found in zip(groups, answer.groups, strict=True)
        ]
        context.respond(_response(responses, context.version))

    requested = tuple([GroupToFetch(group.group_id, _partitions(group, context.version)) for group in groups])
    broker.groups.submit(OffsetFetch(requested, request.require_stable), on_response)


def error_response(request: OffsetFetchRequest, version: int, error: Error) -> OffsetFetchResponse:
    """Return the error for every group."""
    return _response([_failed(group, error, version) for group in _groups(request, version)], version)


# --- requests -------------------------------------------------------------------------------------------------------


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """Return the requested groups in the form of v8 and later."""
    if version >= 8:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(one.name, partition_indexes=one.partition_indexes) for one in request.topics]
    return [OffsetFetchRequestGroup(request.group_id, topics=topics)]


def _name_topics(groups: Iterable[OffsetFetchRequestGroup], topics: Topics) -> None:
    """Set the names of topics requested by id; unknown topics have no name."""
    for group in groups:
        for topic in group.topics or ():
            if (found := topics.by_id(topic.topic_id)) is not None:
                topic.name = found.name


def _is_known(topic: OffsetFetchRequestTopics, version: int) -> bool:
    return version < 10 or topic.name != ""


def _partitions(group: OffsetFetchRequestGroup, version: int) -> tuple[tuple[str, int], ...] | None:
    if group.topics is None:
        return None
    known = [topic for topic in group.topics if _is_known(topic, version)]
    return tuple([(topic.name, index) for topic in known for index in topic.partition_indexes])


# --- responses ------------------------------------------------------------------------------------------------------


def _group_response(
    requested: OffsetFetchRequestGroup, found: FetchedGroup, version: int, topics: Topics
) -> OffsetFetchResponseGroup:
    if found.error is not Error.NONE:
        return _failed(requested, found.error, version)
    if requested.topics is None:
        return OffsetFetchResponseGroup(requested.group_id, _all_offsets(found.offsets, version, topics))
    offsets = iter(found.offsets)
    responses: list[OffsetFetchResponseTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in requested.topics:
        if _is_known(topic, version):
            offsets_of_topic = islice(offsets, len(topic.partition_indexes))
            responses.append(
                OffsetFetchResponseTopics(topic.name, topic.topic_id, [_partition(one) for one in offsets_of_topic])
            )
        else:
            unknown.append(_failed_topic(topic, Error.UNKNOWN_TOPIC_ID))
    return OffsetFetchResponseGroup(requested.group_id, responses + unknown)


def _all_offsets(offsets: Iterable[FetchedOffset], version: int, topics: Topics) -> list[OffsetFetchResponseTopics]:
    responses = []
    for name, offsets_of_topic in groupby(offsets, attrgetter("topic")):
        topic = OffsetFetchResponseTopics(name, partitions=[_partition(one) for one in offsets_of_topic])
        if version >= 10:
            if (found := topics.get(name)) is None:
                continue
            topic.topic_id = found.topic_id
        responses.append(topic)
    return responses


def _partition(one: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(one.partition, one.offset, one.leader_epoch, one.metadata, one.error)


def _failed(group: OffsetFetchRequestGroup, error: Error, version: int) -> OffsetFetchResponseGroup:
    if version >= 2:
        return OffsetFetchResponseGroup(group.group_id, error_code=error)
    return OffsetFetchResponseGroup(group.group_id, [_failed_topic(topic, error) for topic in group.topics or ()])


def _failed_topic(topic: OffsetFetchRequestTopics, error: Error) -> OffsetFetchResponseTopics:
    partitions = [OffsetFetchResponsePartitions(one, NO_OFFSET, error_code=error) for one in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)


def _response(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= 8:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(topic.name, [_old(one) for one in topic.partitions]) for topic in group.topics
        ],
        error_code=group.error_code,
    )


def _old(one: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code
    )
