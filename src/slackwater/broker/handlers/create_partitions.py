"""CreatePartitions, v0 to v3: more partitions for topics there are.

No version differs in what the broker does. `__consumer_offsets` does not grow: its partitions are the coordinator's
shards, and groups would be looked for in the wrong one.
"""

from collections import Counter

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.placement import check_replicas, invalid_assignment
from slackwater.broker.storage.topics import MAX_PARTITIONS, OFFSETS_TOPIC, Topic
from slackwater.group.errors import BrokerError, Error
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def handle(broker: Broker, context: RequestContext, request: CreatePartitionsRequest) -> None:
    """Let topics grow, or say what would come of it."""
    counts = Counter(topic.name for topic in request.topics)
    results = []
    for wanted in {topic.name: topic for topic in request.topics}.values():
        error, message = Error.NONE, None
        try:
            if counts[wanted.name] > 1:
                raise BrokerError(Error.INVALID_REQUEST, "Duplicate topic name.")
            topic = _check(broker, wanted)
            if not request.validate_only:
                broker.topics.add_partitions(topic, wanted.count)
        except BrokerError as refused:
            error, message = refused.error, str(refused)
        except OSError as failed:
            error, message = Error.KAFKA_STORAGE_ERROR, f"The disk refused it: {failed.strerror}."
        results.append(CreatePartitionsTopicResult(wanted.name, error, message))
    context.respond(CreatePartitionsResponse(results=results))


def error_response(request: CreatePartitionsRequest, version: int, error: Error) -> CreatePartitionsResponse:
    """An error on every topic."""
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(topic.name, error) for topic in request.topics]
    )


def _check(broker: Broker, wanted: CreatePartitionsTopic) -> Topic:
    topic = broker.topics.get(wanted.name)
    if topic is None:
        raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {wanted.name!r}.")
    more = wanted.count - len(topic.partitions)
    if more == 0:
        raise _cannot(f"Topic already has {wanted.count} partition(s).")
    if more < 0:
        raise _cannot(
            f"The topic {wanted.name} currently has {len(topic.partitions)} partition(s); {wanted.count} would not be "
            "an increase."
        )
    if wanted.count > MAX_PARTITIONS:
        raise _cannot(f"{wanted.count} partitions are too many; use {MAX_PARTITIONS} or less.")
    if topic.name == OFFSETS_TOPIC:
        raise _cannot(f"{OFFSETS_TOPIC} cannot grow: groups would be looked for in the wrong partition.")
    if wanted.assignments is not None:
        if len(wanted.assignments) != more:
            only = "only " if len(wanted.assignments) < more else ""
            raise invalid_assignment(
                f"Attempted to add {more} additional partition(s), but {only}{len(wanted.assignments)} assignment(s) "
                "were specified."
            )
        for assignment in wanted.assignments:
            check_replicas(assignment.broker_ids, broker.node_id)
    return topic


def _cannot(message: str) -> BrokerError:
    return BrokerError(Error.INVALID_PARTITIONS, message)
