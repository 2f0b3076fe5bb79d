"""TxnOffsetCommit, v0 to v5.

v2   COORDINATOR_LOAD_IN_PROGRESS; in older versions it is COORDINATOR_NOT_AVAILABLE (TX-08)
v3   member, instance and generation (KIP-447)
v4   TRANSACTION_ABORTABLE; in older versions it is INVALID_TXN_STATE (KIP-890)
v5   the request adds the group to the transaction (KIP-890)

The transaction coordinator verifies the group's partition of `__consumer_offsets` first.
"""

from collections.abc import Mapping
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.broker.storage.topics import Partition
from slackwater.broker.transactions.verification import BatchToVerify, ClientSupport, verify
from slackwater.group import messages
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_LOADING_SINCE: Final = 2
_ABORTABLE_SINCE: Final = 4
_ADDS_GROUP_SINCE: Final = 5
_NO_SEQUENCE: Final = -1


def handle(broker: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest) -> None:
    """Store offsets until the transaction ends; the response follows when they are written."""
    version = context.version
    if not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
        context.respond(error_response(request, version, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, version, Error.GROUP_AUTHORIZATION_FAILED))
        return
    response = error_response(request, version, Error.NONE)
    offsets: list[messages.OffsetToCommit] = []
    rows: list[TxnOffsetCommitResponsePartition] = []  # of `offsets`, in the same order
    for topic, results in zip(request.topics, response.topics, strict=True):
        is_allowed = broker.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name)
        for partition, row in zip(topic.partitions, results.partitions, strict=True):
            if not is_allowed:
                row.error_code = Error.TOPIC_AUTHORIZATION_FAILED
            elif broker.topics.partition(topic.name, partition.partition_index) is None:
                row.error_code = Error.UNKNOWN_TOPIC_OR_PARTITION
            else:
                rows.append(row)
                offsets.append(
                    messages.OffsetToCommit(
                        topic.name,
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                    )
                )

    def respond(errors: list[Error]) -> None:
        for row, error in zip(rows, errors, strict=True):
            is_loading = error is Error.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE
            row.error_code = Error.COORDINATOR_NOT_AVAILABLE if is_loading else error
        context.respond(response)

    def fail(error: Error) -> None:
        respond([error] * len(rows))

    if not offsets:
        respond([])
        return
    if not request.group_id:
        fail(Error.INVALID_GROUP_ID)
        return
    try:
        stored = (broker.topics.get(OFFSETS_TOPIC) or broker.create_offsets_topic()).partitions
    except (OSError, BrokerError):
        fail(Error.COORDINATOR_NOT_AVAILABLE)
        return
    group_partition = stored[broker.group_coordinator.coordinator.offsets_partition_of(request.group_id)]

    def commit(guards: Mapping[Partition, VerificationGuard | None], errors: Mapping[Partition, Error]) -> None:
        if errors:
            fail(errors[group_partition])
            return
        broker.group_coordinator.submit(
            messages.TxnOffsetCommit(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                tuple(offsets),
                request.producer_id,
                request.producer_epoch,
                guards[group_partition],
            ),
            on_response,
        )

    def on_response(result: messages.OffsetCommitResponse) -> None:
        respond([committed.error for committed in result.partitions])

    verify(
        broker.transaction_coordinator,
        request.transactional_id,
        [BatchToVerify(group_partition, request.producer_id, request.producer_epoch, _NO_SEQUENCE)],
        ClientSupport(version >= _ADDS_GROUP_SINCE, version >= _ABORTABLE_SINCE),
        broker.clock.now_ms(),
        commit,
    )


def error_response(request: TxnOffsetCommitRequest, version: int, error: Error) -> TxnOffsetCommitResponse:
    """Return the error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(partition.partition_index, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )
