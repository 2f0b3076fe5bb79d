"""CreatePartitions, v0 to v3: add partitions to topics.

All versions behave the same. `__consumer_offsets` cannot grow: the partition of a group depends on their number.
"""

from collections import Counter
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.sliced_handling import handle_in_slices
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import Sliced
from slackwater.broker.storage.replica_assignment import check_replicas, invalid_assignment
from slackwater.broker.storage.topics import MAX_PARTITIONS, Topic
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_CONTENTS: Final = {OFFSETS_TOPIC: "groups", TRANSACTIONS_TOPIC: "transactional ids"}


def handle(broker: BrokerState, context: RequestContext, request: CreatePartitionsRequest) -> None:
    """Add partitions, or only validate the request."""
    counts = Counter(topic.name for topic in request.topics)

    def create() -> Sliced[None]:
        results = []
        for change in changes:
            results.append(
                (yield from _result(broker, context, change, counts[change.name], validate_only=request.validate_only))
            )
            yield None
        context.respond(CreatePartitionsResponse(results=results))

    changes = list({topic.name: topic for topic in request.topics}.values())
    handle_in_slices(broker, context, request, create(), error_response)


def error_response(request: CreatePartitionsRequest, version: int, error: Error) -> CreatePartitionsResponse:
    """Return the error for every topic."""
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(topic.name, error) for topic in request.topics]
    )


def _result(
    broker: BrokerState, context: RequestContext, change: CreatePartitionsTopic, count: int, *, validate_only: bool
) -> Sliced[CreatePartitionsTopicResult]:
    error, message = Error.NONE, None
    try:
        if count > 1:
            raise BrokerError(Error.INVALID_REQUEST, "Duplicate topic name.")
        if not broker.allows(context, AclOperation.ALTER, AclResourceType.TOPIC, change.name):
            return CreatePartitionsTopicResult(change.name, Error.TOPIC_AUTHORIZATION_FAILED, None)
        topic = _check_change(broker, change)
        if not validate_only:
            yield from broker.topics.add_partitions_in_slices(topic, change.count)
    except BrokerError as rejected:
        error, message = rejected.error, str(rejected)
    except OSError as failed:
        error, message = Error.KAFKA_STORAGE_ERROR, f"Disk error: {failed.strerror}."
    return CreatePartitionsTopicResult(change.name, error, message)


def _check_change(broker: BrokerState, change: CreatePartitionsTopic) -> Topic:
    topic = broker.topics.get(change.name)
    if topic is None:
        raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {change.name!r}.")
    added = change.count - len(topic.partitions)
    if added == 0:
        raise _invalid_partitions(f"Topic already has {change.count} partition(s).")
    if added < 0:
        raise _invalid_partitions(
            f"The topic {change.name} currently has {len(topic.partitions)} partition(s); {change.count} would not be "
            "an increase."
        )
    if change.count > MAX_PARTITIONS:
        raise _invalid_partitions(f"{change.count} partitions is too many; use {MAX_PARTITIONS} or less.")
    if topic.name in _CONTENTS:
        raise _invalid_partitions(
            f"{topic.name} cannot grow, because {_CONTENTS[topic.name]} would be looked up in the wrong partition."
        )
    if change.assignments is not None:
        if len(change.assignments) != added:
            only = "only " if len(change.assignments) < added else ""
            raise invalid_assignment(
                f"Attempted to add {added} additional partition(s), but {only}{len(change.assignments)} assignment(s) "
                "were specified."
            )
        for assignment in change.assignments:
            check_replicas(assignment.broker_ids, broker.node_id)
    broker.topics.check_room(topic.name, range(len(topic.partitions), change.count))
    return topic


def _invalid_partitions(message: str) -> BrokerError:
    return BrokerError(Error.INVALID_PARTITIONS, message)
