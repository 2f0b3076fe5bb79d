"""OffsetDelete, v0.

Unknown partitions get an error here; the others go to the coordinator (AD-05). The response lists the unknown ones
first, then the others in the order of the request, merged by topic if there are unknown ones.
"""

from itertools import islice

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.group.messages import OffsetDelete
from slackwater.group.messages import OffsetDeleteResponse as Deleted
from slackwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> None:
    """Delete offsets of topics that no member is subscribed to."""
    partitions: list[tuple[str, int]] = []
    requested: list[tuple[str, int]] = []  # the topics of these partitions, and how many are each one's
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in request.topics:
        found = broker.topics.get(topic.name)
        end, before = len(found.partitions) if found is not None else 0, len(partitions)
        unknown: list[int] = []
        for one in topic.partitions:
            if 0 <= one.partition_index < end:
                partitions.append((topic.name, one.partition_index))
            else:
                unknown.append(one.partition_index)
        if unknown or found is None:
            results = [OffsetDeleteResponsePartition(index, Error.UNKNOWN_TOPIC_OR_PARTITION) for index in unknown]
            refused.setdefault(topic.name, OffsetDeleteResponseTopic(topic.name)).partitions.extend(results)
        if len(partitions) > before:
            requested.append((topic.name, len(partitions) - before))

    def on_response(answer: Deleted) -> None:
        if answer.error is not Error.NONE:
            context.respond(OffsetDeleteResponse(error_code=answer.error))
            return
        results = iter(answer.partitions)
        topics = [
            OffsetDeleteResponseTopic(
                name, [OffsetDeleteResponsePartition(one.partition, one.error) for one in islice(results, count)]
            )
            for name, count in requested
        ]
        context.respond(OffsetDeleteResponse(topics=_merged(refused, topics) if refused else topics))

    broker.groups.submit(OffsetDelete(request.group_id, tuple(partitions)), on_response)


def error_response(request: OffsetDeleteRequest, version: int, error: Error) -> OffsetDeleteResponse:
    """Return a response with only the error."""
    return OffsetDeleteResponse(error_code=error)


def _merged(
    refused: dict[str, OffsetDeleteResponseTopic], topics: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    for topic in topics:
        known = refused.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)
    return list(refused.values())
