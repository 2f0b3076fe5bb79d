"""DeleteTopics, v1 to v6.

v3   TOPIC_DELETION_DISABLED; before, INVALID_REQUEST
v5   error messages
v6   by name or by topic id (KIP-516)

The offsets of a deleted topic are deleted as well (EX-10). `__consumer_offsets` cannot be deleted. Kafka would delete
it, and every group would lose its members and offsets.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from slackwater.wire.schema import NO_UUID

_CONTENTS: Final = {OFFSETS_TOPIC: "groups", TRANSACTIONS_TOPIC: "transactions"}


def handle(broker: BrokerState, context: RequestContext, request: DeleteTopicsRequest) -> None:
    """Delete topics."""
    requested = _requested(request, context.version)
    if not broker.settings.flag("delete.topic.enable"):
        error = Error.TOPIC_DELETION_DISABLED if context.version >= 3 else Error.INVALID_REQUEST
        context.respond(_response(_result(state, error, "Topic deletion is disabled.") for state in requested))
        return
    counts = Counter((state.name, state.topic_id) for state in requested)
    by_id = {state.topic_id for state in requested if state.topic_id != NO_UUID}
    deleted: list[str] = []
    results = []
    deletes_all = broker.allows_cluster(context, AclOperation.DELETE)
    for state in {(state.name, state.topic_id): state for state in requested}.values():
        try:
            topic = _find_topic(broker, context, state, deletes_all=deletes_all)
            if counts[state.name, state.topic_id] > 1:
                raise BrokerError(Error.INVALID_REQUEST, f"Duplicate topic {'name' if state.name else 'id'}.")
            if state.name is not None and topic.topic_id in by_id:
                continue  # the response lists the topic by its id
            if state.name is None and any(other.name == topic.name for other in requested):
                raise BrokerError(
                    Error.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            if topic.name in _CONTENTS:
                message = f"{topic.name} stores the {_CONTENTS[topic.name]} and cannot be deleted."
                raise BrokerError(Error.INVALID_TOPIC_EXCEPTION, message)
            broker.topics.delete(topic)
            deleted.append(topic.name)
            results.append(DeletableTopicResult(topic.name, topic.topic_id))
        except _NotAllowed as error:
            name = error.shown_name if state.name is None else state.name
            results.append(DeletableTopicResult(name, state.topic_id, error.error, str(error)))
        except BrokerError as error:
            results.append(_result(state, error.error, str(error)))
        except OSError as error:
            results.append(_result(state, Error.KAFKA_STORAGE_ERROR, f"Disk error: {error.strerror}."))
    if deleted:
        broker.topics_deleted(deleted)
    context.respond(_response(results))


def error_response(request: DeleteTopicsRequest, version: int, error: Error) -> DeleteTopicsResponse:
    """Return the error for every topic."""
    return _response(_result(topic, error, None) for topic in _requested(request, version))


def _requested(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    return request.topics if version >= 6 else [DeleteTopicState(name) for name in request.topic_names]


class _NotAllowed(BrokerError):
    """The client may not delete a topic; `shown_name` is None unless it may know the name of the id."""

    def __init__(self, shown_name: str | None) -> None:
        super().__init__(Error.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        self.shown_name = shown_name


def _find_topic(
    broker: BrokerState, context: RequestContext, requested: DeleteTopicState, *, deletes_all: bool
) -> Topic:
    if requested.name is not None and requested.topic_id != NO_UUID:
        raise BrokerError(Error.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if requested.name is None and requested.topic_id == NO_UUID:
        raise BrokerError(Error.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = broker.topics.by_id(requested.topic_id) if requested.name is None else broker.topics.get(requested.name)
    if topic is None and requested.name is None:
        raise BrokerError(Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    name = requested.name or (topic.name if topic is not None else "")
    is_visible = deletes_all or broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    if not is_visible:
        raise _NotAllowed(None)
    if (
        topic is not None
        and not deletes_all
        and not broker.allows(context, AclOperation.DELETE, AclResourceType.TOPIC, name)
    ):
        raise _NotAllowed(name)
    if topic is None:
        raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def _result(requested: DeleteTopicState, error: Error, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(requested.name, requested.topic_id, error, message)


def _response(results: Iterable[DeletableTopicResult]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=list(results))
