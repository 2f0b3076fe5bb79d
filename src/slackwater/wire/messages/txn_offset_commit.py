"""TxnOffsetCommit (key 28), v0 to v5.

v1   throttling by the client: the response is sent at once
v2   leader epoch
v3   flexible; member, instance and generation, checked as in OffsetCommit (KIP-447)
v4   TRANSACTION_ABORTABLE (KIP-890)
v5   the group is added to the transaction implicitly (KIP-890)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import TXN_OFFSET_COMMIT
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class TxnOffsetCommitRequestPartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Versions("2+", ignorable=True)] = -1
    committed_metadata: String | None = ""


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class TxnOffsetCommitRequest(Request):
    """Offsets to commit with the transaction."""

    API: ClassVar = TXN_OFFSET_COMMIT

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, Versions("3+")] = -1
    member_id: Annotated[String, Versions("3+")] = ""
    group_instance_id: Annotated[String | None, Versions("3+")] = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class TxnOffsetCommitResponse(Response):
    """The result."""

    API: ClassVar = TXN_OFFSET_COMMIT

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
