"""OffsetFetch, v1 to v10.

Kafka 4 has no v0, which read from ZooKeeper.

v1   one group; an error of the group is set on every partition
v2   null topics: all offsets of the group (OF-01); a top-level error
v3   throttle time in the response
v5   leader epoch in the response
v6   flexible
v7   require_stable (OF-03)
v8   many groups, each with its error (OF-04)
v9   member id and epoch of each group, used only by KIP-848 groups (OF-05)
v10  topic ids in request and response; topics with an unknown id come last, with UNKNOWN_TOPIC_ID

Topics that the client may not describe also come last; all offsets of a group omit them.

The response has the topics of the request: a topic that appears twice is returned twice, and a topic without partitions
is returned without partitions. All offsets of a group are returned up to `MAX_REPEATS` times.
For all offsets of a group, v10 returns only topics that still exist.
"""

from collections.abc import Callable, Iterable
from itertools import compress, groupby, islice
from operator import attrgetter

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.repeats import MAX_REPEATS, limit_repeats
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import Topics
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
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

_IsAllowed = Callable[[str], bool]  # of a topic's name


def handle(broker: BrokerState, context: RequestContext, request: OffsetFetchRequest) -> None:
    """Read committed offsets."""
    version = context.version
    groups = _limit_repeats(_groups(request, version))
    if version >= 10:
        _name_topics(groups, broker.topics)

    def is_allowed(topic: str) -> bool:
        return broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)

    allowed = [broker.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id) for group in groups]

    def on_response(response: messages.OffsetFetchResponse) -> None:
        fetched = iter(response.groups)
        responses = [
            _group_response(group, next(fetched), version, broker.topics, is_allowed)
            if is_group_allowed
            else _failed(group, Error.GROUP_AUTHORIZATION_FAILED, version)
            for group, is_group_allowed in zip(groups, allowed, strict=True)
        ]
        context.respond(_response(responses, version))

    requested = tuple(
        [
            messages.GroupToFetch(group.group_id, _partitions(group, version, is_allowed))
            for group in compress(groups, allowed)
        ]
    )
    broker.group_coordinator.submit(messages.OffsetFetch(requested, request.require_stable), on_response)


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
        topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(request.group_id, topics=topics)]


def _limit_repeats(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Remove repeated requests for all offsets of a group."""
    if len(groups) <= MAX_REPEATS:
        return groups
    complete = limit_repeats((group for group in groups if group.topics is None), attrgetter("group_id"))
    kept = set(map(id, complete))
    return [group for group in groups if group.topics is not None or id(group) in kept]


def _name_topics(groups: Iterable[OffsetFetchRequestGroup], topics: Topics) -> None:
    """Set the names of topics requested by id; unknown topics have no name."""
    for group in groups:
        for topic in group.topics or ():
            if (known := topics.by_id(topic.topic_id)) is not None:
                topic.name = known.name


def _is_known(topic: OffsetFetchRequestTopics, version: int) -> bool:
    return version < 10 or topic.name != ""


def _partitions(
    group: OffsetFetchRequestGroup, version: int, is_allowed: _IsAllowed
) -> tuple[tuple[str, int], ...] | None:
    if group.topics is None:
        return None
    known = [topic for topic in group.topics if _is_known(topic, version) and is_allowed(topic.name)]
    return tuple([(topic.name, index) for topic in known for index in topic.partition_indexes])


# --- responses ------------------------------------------------------------------------------------------------------


def _group_response(
    requested: OffsetFetchRequestGroup,
    fetched: messages.FetchedGroup,
    version: int,
    topics: Topics,
    is_allowed: _IsAllowed,
) -> OffsetFetchResponseGroup:
    if fetched.error is not Error.NONE:
        return _failed(requested, fetched.error, version)
    if requested.topics is None:
        return OffsetFetchResponseGroup(requested.group_id, _all_offsets(fetched.offsets, version, topics, is_allowed))
    offsets = iter(fetched.offsets)
    responses: list[OffsetFetchResponseTopics] = []
    failed: list[OffsetFetchResponseTopics] = []
    for topic in requested.topics:
        if not _is_known(topic, version):
            failed.append(_failed_topic(topic, Error.UNKNOWN_TOPIC_ID))
        elif not is_allowed(topic.name):
            failed.append(_failed_topic(topic, Error.TOPIC_AUTHORIZATION_FAILED))
        else:
            offsets_of_topic = islice(offsets, len(topic.partition_indexes))
            responses.append(
                OffsetFetchResponseTopics(
                    topic.name, topic.topic_id, [_partition(offset) for offset in offsets_of_topic]
                )
            )
    return OffsetFetchResponseGroup(requested.group_id, responses + failed)


def _all_offsets(
    offsets: Iterable[messages.FetchedOffset], version: int, topics: Topics, is_allowed: _IsAllowed
) -> list[OffsetFetchResponseTopics]:
    responses = []
    for name, offsets_of_topic in groupby(offsets, attrgetter("topic")):
        if not is_allowed(name):
            continue
        topic = OffsetFetchResponseTopics(name, partitions=[_partition(offset) for offset in offsets_of_topic])
        if version >= 10:
            if (existing := topics.get(name)) is None:
                continue
            topic.topic_id = existing.topic_id
        responses.append(topic)
    return responses


def _partition(offset: messages.FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        offset.partition, offset.offset, offset.leader_epoch, offset.metadata, offset.error
    )


def _failed(group: OffsetFetchRequestGroup, error: Error, version: int) -> OffsetFetchResponseGroup:
    if version >= 2:
        return OffsetFetchResponseGroup(group.group_id, error_code=error)
    return OffsetFetchResponseGroup(group.group_id, [_failed_topic(topic, error) for topic in group.topics or ()])


def _failed_topic(topic: OffsetFetchRequestTopics, error: Error) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(index, messages.NO_OFFSET, error_code=error) for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)


def _response(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= 8:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(topic.name, [_old_partition(partition) for partition in topic.partitions])
            for topic in group.topics
        ],
        error_code=group.error_code,
    )


def _old_partition(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.metadata,
        partition.error_code,
    )
