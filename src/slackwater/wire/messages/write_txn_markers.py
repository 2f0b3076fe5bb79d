"""WriteTxnMarkers (key 27), v1 to v2. Brokers send it to each other.

v1   flexible
v2   the transaction version of each marker (KIP-1228)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import WRITE_TXN_MARKERS
from slackwater.wire.schema import Boolean, Int8, Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class WritableTxnMarkerTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarker(Struct):
    """One entry of `markers`."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Boolean = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, Versions("2+", ignorable=True)] = 0


@dataclass(slots=True)
class WriteTxnMarkersRequest(Request):
    """The markers."""

    API: ClassVar = WRITE_TXN_MARKERS

    markers: list[WritableTxnMarker] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class WritableTxnMarkerTopicResult(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarkerResult(Struct):
    """One entry of `markers`."""

    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@dataclass(slots=True)
class WriteTxnMarkersResponse(Response):
    """The results by producer id."""

    API: ClassVar = WRITE_TXN_MARKERS

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
