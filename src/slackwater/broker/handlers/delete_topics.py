"""DeleteTopics, v1 to v6.

v3   TOPIC_DELETION_DISABLED; before, INVALID_REQUEST
v5   error messages
v6   by name or by topic id (KIP-516)

The offsets of a deleted topic are deleted as well (EX-10). `__consumer_offsets` cannot be deleted. Kafka would delete
it, and every group would lose its members and offsets.
"""

from collections import Counter
from collections.abc import Iterable

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.topics import OFFSETS_TOPIC, Topic
from slackwater.group.errors import BrokerError, Error
from slackwater.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from slackwater.wire.schema import NO_UUID


def handle(broker: Broker, context: RequestContext, request: DeleteTopicsRequest) -> None:
    """Delete topics."""
    requested = _requested(request, context.version)
    if not broker.settings.flag("delete.topic.enable"):
        error = Error.TOPIC_DELETION_DISABLED if context.version >= 3 else Error.INVALID_REQUEST
        context.respond(_answer(_result(one, error, "Topic deletion is disabled.") for one in requested))
        return
    counts = Counter((one.name, one.topic_id) for one in requested)
    by_id = {one.topic_id for one in requested if one.topic_id != NO_UUID}
    gone: list[str] = []
    results = []
    for one in {(one.name, one.topic_id): one for one in requested}.values():
        try:
            topic = _found(broker, one)
            if counts[one.name, one.topic_id] > 1:
                raise BrokerError(Error.INVALID_REQUEST, f"Duplicate topic {'name' if one.name else 'id'}.")
            if one.name is not None and topic.topic_id in by_id:
                continue  # the response has it under its id
            if one.name is None and any(other.name == topic.name for other in requested):
                raise BrokerError(
                    Error.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            if topic.name == OFFSETS_TOPIC:
                raise BrokerError(
                    Error.INVALID_TOPIC_EXCEPTION, f"{OFFSETS_TOPIC} stores the groups and cannot be deleted."
                )
            broker.topics.delete(topic)
            gone.append(topic.name)
            results.append(DeletableTopicResult(topic.name, topic.topic_id))
        except BrokerError as error:
            results.append(_result(one, error.error, str(error)))
        except OSError as error:
            results.append(_result(one, Error.KAFKA_STORAGE_ERROR, f"Disk error: {error.strerror}."))
    if gone:
        broker.groups.topics_deleted(gone)
    context.respond(_answer(results))


def error_response(request: DeleteTopicsRequest, version: int, error: Error) -> DeleteTopicsResponse:
    """Return the error for every topic."""
    return _answer(_result(one, error, None) for one in _requested(request, version))


def _requested(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    return request.topics if version >= 6 else [DeleteTopicState(name) for name in request.topic_names]


def _found(broker: Broker, one: DeleteTopicState) -> Topic:
    if one.name is not None and one.topic_id != NO_UUID:
        raise BrokerError(Error.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if one.name is None and one.topic_id == NO_UUID:
        raise BrokerError(Error.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = broker.topics.by_id(one.topic_id) if one.name is None else broker.topics.get(one.name)
    if topic is None:
        if one.name is None:
            raise BrokerError(Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def _result(one: DeleteTopicState, error: Error, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(one.name, one.topic_id, error, message)


def _answer(results: Iterable[DeletableTopicResult]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=list(results))
