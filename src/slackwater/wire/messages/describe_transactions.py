"""DescribeTransactions (key 65), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DESCRIBE_TRANSACTIONS
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String, Struct


@dataclass(slots=True)
class DescribeTransactionsRequest(Request):
    """The transactional ids."""

    API: ClassVar = DESCRIBE_TRANSACTIONS

    transactional_ids: list[String] = field(default_factory=list)


@dataclass(slots=True)
class TopicData(Struct):
    """One entry of `topics`."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class TransactionState(Struct):
    """One entry of `transaction_states`."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(default_factory=list)


@dataclass(slots=True)
class DescribeTransactionsResponse(Response):
    """State and partitions of their transactions."""

    API: ClassVar = DESCRIBE_TRANSACTIONS

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
