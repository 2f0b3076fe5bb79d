"""AddPartitionsToTxn (key 24), v0 to v5.

v1   throttling by the client: the response is sent at once
v2   PRODUCER_FENCED may be returned
v3   flexible; the last version that clients use
v4   several transactions in one request, or only a check that the partitions are in it: for brokers (KIP-890)
v5   TRANSACTION_ABORTABLE (KIP-890)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import ADD_PARTITIONS_TO_TXN
from slackwater.wire.schema import Boolean, Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class AddPartitionsToTxnTopic(Struct):
    """A topic and its partitions."""

    name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnTransaction(Struct):
    """One entry of `transactions`."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Boolean = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnRequest(Request):
    """Adds partitions to a transaction."""

    API: ClassVar = ADD_PARTITIONS_TO_TXN

    transactions: Annotated[list[AddPartitionsToTxnTransaction], Versions("4+")] = field(default_factory=list)
    v3_and_below_transactional_id: Annotated[String, Versions("0-3")] = ""
    v3_and_below_producer_id: Annotated[Int64, Versions("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Versions("0-3")] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Versions("0-3")] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult(Struct):
    """The result for one partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult(Struct):
    """The result for one topic."""

    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnResult(Struct):
    """One entry of `results_by_transaction`."""

    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnResponse(Response):
    """The result of each entry."""

    API: ClassVar = ADD_PARTITIONS_TO_TXN

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions("4+", ignorable=True)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Versions("4+")] = field(default_factory=list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Versions("0-3")] = field(
        default_factory=list
    )
