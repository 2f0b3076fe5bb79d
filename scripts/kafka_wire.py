"""Encodes and decodes Kafka's requests and responses for the scenarios, independent of `src/`.

Invariants:
- Nothing is imported from slackwater, so that an error there is detected here.
- A message is a dict with Kafka's field names in snake_case. A missing field of a request has the schema's default; a
  field that the version does not have is not sent. A response has exactly the fields of its version.
- Tagged fields are not sent, and received ones are skipped.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Message = Mapping[str, Any]
_NO_DEFAULT: Final = object()


class Field(NamedTuple):
    """One field; its type is a name, the fields of an array entry, or an array type in brackets."""

    name: str
    type: "str | Schema"
    since: int = 0
    until: int = 99
    default: Any = _NO_DEFAULT
    nullable_since: int = 99


Schema = tuple[Field, ...]


class Api(NamedTuple):
    """One API: its key, its first flexible version, and its request and response."""

    key: int
    flexible_since: int
    request: Schema
    response: Schema


_F = Field
_THROTTLE: Final = "throttle_time_ms"

APIS: Final[Mapping[str, Api]] = {
    "Produce": Api(  # to v12
        0,
        9,
        (
            _F("transactional_id", "string", default=None, nullable_since=0),
            _F("acks", "int16", default=-1),
            _F("timeout_ms", "int32", default=5000),
            _F(
                "topic_data",
                (
                    _F("name", "string"),
                    _F("partition_data", (_F("index", "int32"), _F("records", "bytes", nullable_since=0))),
                ),
            ),
        ),
        (
            _F(
                "responses",
                (
                    _F("name", "string"),
                    _F(
                        "partition_responses",
                        (
                            _F("index", "int32"),
                            _F("error_code", "int16"),
                            _F("base_offset", "int64"),
                            _F("log_append_time_ms", "int64"),
                            _F("log_start_offset", "int64", 5),
                            _F(
                                "record_errors",
                                (_F("batch_index", "int32"), _F("batch_index_error_message", "string")),
                                8,
                            ),
                            _F("error_message", "string", 8),
                        ),
                    ),
                ),
            ),
            _F(_THROTTLE, "int32"),
        ),
    ),
    "Fetch": Api(  # v11 and v12
        1,
        12,
        (
            _F("replica_id", "int32", default=-1),
            _F("max_wait_ms", "int32", default=0),
            _F("min_bytes", "int32", default=1),
            _F("max_bytes", "int32", default=1 << 20),
            _F("isolation_level", "int8", default=0),
            _F("session_id", "int32", default=0),
            _F("session_epoch", "int32", default=-1),
            _F(
                "topics",
                (
                    _F("topic", "string"),
                    _F(
                        "partitions",
                        (
                            _F("partition", "int32"),
                            _F("current_leader_epoch", "int32", default=-1),
                            _F("fetch_offset", "int64"),
                            _F("last_fetched_epoch", "int32", 12, default=-1),
                            _F("log_start_offset", "int64", default=-1),
                            _F("partition_max_bytes", "int32", default=1 << 20),
                        ),
                    ),
                ),
            ),
            _F("forgotten_topics_data", (_F("topic", "string"), _F("partitions", "[int32]")), default=()),
            _F("rack_id", "string", default=""),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F("error_code", "int16"),
            _F("session_id", "int32"),
            _F(
                "responses",
                (
                    _F("topic", "string"),
                    _F(
                        "partitions",
                        (
                            _F("partition_index", "int32"),
                            _F("error_code", "int16"),
                            _F("high_watermark", "int64"),
                            _F("last_stable_offset", "int64"),
                            _F("log_start_offset", "int64"),
                            _F("aborted_transactions", (_F("producer_id", "int64"), _F("first_offset", "int64"))),
                            _F("preferred_read_replica", "int32"),
                            _F("records", "bytes"),
                        ),
                    ),
                ),
            ),
        ),
    ),
    "ListOffsets": Api(  # v2 to v9
        2,
        6,
        (
            _F("replica_id", "int32", default=-1),
            _F("isolation_level", "int8", default=0),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F(
                        "partitions",
                        (
                            _F("partition_index", "int32"),
                            _F("current_leader_epoch", "int32", 4, default=-1),
                            _F("timestamp", "int64"),
                        ),
                    ),
                ),
            ),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F(
                        "partitions",
                        (
                            _F("partition_index", "int32"),
                            _F("error_code", "int16"),
                            _F("timestamp", "int64"),
                            _F("offset", "int64"),
                            _F("leader_epoch", "int32", 4),
                        ),
                    ),
                ),
            ),
        ),
    ),
    "Metadata": Api(  # only v12
        3,
        9,
        (
            _F("topics", (_F("topic_id", "uuid", default=bytes(16)), _F("name", "string", nullable_since=10))),
            _F("allow_auto_topic_creation", "bool", default=False),
            _F("include_topic_authorized_operations", "bool", default=False),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F(
                "brokers",
                (_F("node_id", "int32"), _F("host", "string"), _F("port", "int32"), _F("rack", "string")),
            ),
            _F("cluster_id", "string"),
            _F("controller_id", "int32"),
            _F(
                "topics",
                (
                    _F("error_code", "int16"),
                    _F("name", "string"),
                    _F("topic_id", "uuid"),
                    _F("is_internal", "bool"),
                    _F(
                        "partitions",
                        (
                            _F("error_code", "int16"),
                            _F("partition_index", "int32"),
                            _F("leader_id", "int32"),
                            _F("leader_epoch", "int32"),
                            _F("replica_nodes", "[int32]"),
                            _F("isr_nodes", "[int32]"),
                            _F("offline_replicas", "[int32]"),
                        ),
                    ),
                    _F("topic_authorized_operations", "int32"),
                ),
            ),
        ),
    ),
    "OffsetCommit": Api(
        8,
        8,
        (
            _F("group_id", "string"),
            _F("generation_id_or_member_epoch", "int32", 1, default=-1),
            _F("member_id", "string", 1, default=""),
            _F("group_instance_id", "string", 7, default=None, nullable_since=7),
            _F("retention_time_ms", "int64", 2, 4, default=-1),
            _F(
                "topics",
                (
                    _F("name", "string", 0, 9),
                    _F("topic_id", "uuid", 10),
                    _F(
                        "partitions",
                        (
                            _F("partition_index", "int32"),
                            _F("committed_offset", "int64"),
                            _F("committed_leader_epoch", "int32", 6, default=-1),
                            _F("committed_metadata", "string", nullable_since=0),
                        ),
                    ),
                ),
            ),
        ),
        (
            _F(_THROTTLE, "int32", 3),
            _F(
                "topics",
                (
                    _F("name", "string", 0, 9),
                    _F("topic_id", "uuid", 10),
                    _F("partitions", (_F("partition_index", "int32"), _F("error_code", "int16"))),
                ),
            ),
        ),
    ),
    "OffsetFetch": Api(
        9,
        6,
        (
            _F("group_id", "string", 0, 7, default=""),
            _F(
                "topics",
                (_F("name", "string"), _F("partition_indexes", "[int32]")),
                0,
                7,
                default=None,
                nullable_since=2,
            ),
            _F(
                "groups",
                (
                    _F("group_id", "string"),
                    _F("member_id", "string", 9, default=None, nullable_since=9),
                    _F("member_epoch", "int32", 9, default=-1),
                    _F(
                        "topics",
                        (
                            _F("name", "string", 0, 9),
                            _F("topic_id", "uuid", 10),
                            _F("partition_indexes", "[int32]"),
                        ),
                        nullable_since=8,
                    ),
                ),
                8,
                default=(),
            ),
            _F("require_stable", "bool", 7, default=False),
        ),
        (
            _F(_THROTTLE, "int32", 3),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F(
                        "partitions",
                        (
                            _F("partition_index", "int32"),
                            _F("committed_offset", "int64"),
                            _F("committed_leader_epoch", "int32", 5),
                            _F("metadata", "string", nullable_since=0),
                            _F("error_code", "int16"),
                        ),
                    ),
                ),
                0,
                7,
            ),
            _F("error_code", "int16", 2, 7),
            _F(
                "groups",
                (
                    _F("group_id", "string"),
                    _F(
                        "topics",
                        (
                            _F("name", "string", 0, 9),
                            _F("topic_id", "uuid", 10),
                            _F(
                                "partitions",
                                (
                                    _F("partition_index", "int32"),
                                    _F("committed_offset", "int64"),
                                    _F("committed_leader_epoch", "int32"),
                                    _F("metadata", "string", nullable_since=8),
                                    _F("error_code", "int16"),
                                ),
                            ),
                        ),
                    ),
                    _F("error_code", "int16"),
                ),
                8,
            ),
        ),
    ),
    "FindCoordinator": Api(
        10,
        3,
        (_F("key_type", "int8"), _F("coordinator_keys", "[string]")),
        (
            _F(_THROTTLE, "int32"),
            _F(
                "coordinators",
                (
                    _F("key", "string"),
                    _F("node_id", "int32"),
                    _F("host", "string"),
                    _F("port", "int32"),
                    _F("error_code", "int16"),
                    _F("error_message", "string", nullable_since=4),
                ),
            ),
        ),
    ),
    "JoinGroup": Api(
        11,
        6,
        (
            _F("group_id", "string"),
            _F("session_timeout_ms", "int32"),
            _F("rebalance_timeout_ms", "int32", 1, default=-1),
            _F("member_id", "string", default=""),
            _F("group_instance_id", "string", 5, default=None, nullable_since=5),
            _F("protocol_type", "string"),
            _F("protocols", (_F("name", "string"), _F("metadata", "bytes"))),
            _F("reason", "string", 8, default=None, nullable_since=8),
        ),
        (
            _F(_THROTTLE, "int32", 2),
            _F("error_code", "int16"),
            _F("generation_id", "int32"),
            _F("protocol_type", "string", 7, nullable_since=7),
            _F("protocol_name", "string", nullable_since=7),
            _F("leader", "string"),
            _F("skip_assignment", "bool", 9),
            _F("member_id", "string"),
            _F(
                "members",
                (
                    _F("member_id", "string"),
                    _F("group_instance_id", "string", 5, nullable_since=5),
                    _F("metadata", "bytes"),
                ),
            ),
        ),
    ),
    "Heartbeat": Api(
        12,
        4,
        (
            _F("group_id", "string"),
            _F("generation_id", "int32"),
            _F("member_id", "string"),
            _F("group_instance_id", "string", 3, default=None, nullable_since=3),
        ),
        (_F(_THROTTLE, "int32", 1), _F("error_code", "int16")),
    ),
    "LeaveGroup": Api(
        13,
        4,
        (
            _F("group_id", "string"),
            _F("member_id", "string", 0, 2, default=""),
            _F(
                "members",
                (
                    _F("member_id", "string"),
                    _F("group_instance_id", "string", default=None, nullable_since=3),
                    _F("reason", "string", 5, default=None, nullable_since=5),
                ),
                3,
                default=(),
            ),
        ),
        (
            _F(_THROTTLE, "int32", 1),
            _F("error_code", "int16"),
            _F(
                "members",
                (
                    _F("member_id", "string"),
                    _F("group_instance_id", "string", nullable_since=3),
                    _F("error_code", "int16"),
                ),
                3,
            ),
        ),
    ),
    "SyncGroup": Api(
        14,
        4,
        (
            _F("group_id", "string"),
            _F("generation_id", "int32"),
            _F("member_id", "string"),
            _F("group_instance_id", "string", 3, default=None, nullable_since=3),
            _F("protocol_type", "string", 5, default=None, nullable_since=5),
            _F("protocol_name", "string", 5, default=None, nullable_since=5),
            _F("assignments", (_F("member_id", "string"), _F("assignment", "bytes"))),
        ),
        (
            _F(_THROTTLE, "int32", 1),
            _F("error_code", "int16"),
            _F("protocol_type", "string", 5, nullable_since=5),
            _F("protocol_name", "string", 5, nullable_since=5),
            _F("assignment", "bytes"),
        ),
    ),
    "DescribeGroups": Api(
        15,
        5,
        (_F("groups", "[string]"), _F("include_authorized_operations", "bool", 3, default=False)),
        (
            _F(_THROTTLE, "int32", 1),
            _F(
                "groups",
                (
                    _F("error_code", "int16"),
                    _F("error_message", "string", 6, nullable_since=6),
                    _F("group_id", "string"),
                    _F("group_state", "string"),
                    _F("protocol_type", "string"),
                    _F("protocol_data", "string"),
                    _F(
                        "members",
                        (
                            _F("member_id", "string"),
                            _F("group_instance_id", "string", 4, nullable_since=4),
                            _F("client_id", "string"),
                            _F("client_host", "string"),
                            _F("member_metadata", "bytes"),
                            _F("member_assignment", "bytes"),
                        ),
                    ),
                    _F("authorized_operations", "int32", 3),
                ),
            ),
        ),
    ),
    "ListGroups": Api(
        16,
        3,
        (
            _F("states_filter", "[string]", 4, default=()),
            _F("types_filter", "[string]", 5, default=()),
        ),
        (
            _F(_THROTTLE, "int32", 1),
            _F("error_code", "int16"),
            _F(
                "groups",
                (
                    _F("group_id", "string"),
                    _F("protocol_type", "string"),
                    _F("group_state", "string", 4),
                    _F("group_type", "string", 5),
                ),
            ),
        ),
    ),
    "CreateTopics": Api(
        19,
        5,
        (
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F("num_partitions", "int32"),
                    _F("replication_factor", "int16"),
                    _F("assignments", (_F("partition_index", "int32"), _F("broker_ids", "[int32]")), default=()),
                    _F("configs", (_F("name", "string"), _F("value", "string", nullable_since=0)), default=()),
                ),
            ),
            _F("timeout_ms", "int32"),
            _F("validate_only", "bool", default=False),
        ),
        (
            _F(_THROTTLE, "int32", 2),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F("error_code", "int16"),
                    _F("error_message", "string", nullable_since=1),
                ),
            ),
        ),
    ),
    "DeleteGroups": Api(
        42,
        2,
        (_F("groups_names", "[string]"),),
        (_F(_THROTTLE, "int32"), _F("results", (_F("group_id", "string"), _F("error_code", "int16")))),
    ),
    "InitProducerId": Api(  # to v5
        22,
        2,
        (
            _F("transactional_id", "string", nullable_since=0),
            _F("transaction_timeout_ms", "int32"),
            _F("producer_id", "int64", 3, default=-1),
            _F("producer_epoch", "int16", 3, default=-1),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F("error_code", "int16"),
            _F("producer_id", "int64"),
            _F("producer_epoch", "int16"),
        ),
    ),
    "AddPartitionsToTxn": Api(
        24,
        3,
        (
            _F(
                "transactions",
                (
                    _F("transactional_id", "string"),
                    _F("producer_id", "int64"),
                    _F("producer_epoch", "int16"),
                    _F("verify_only", "bool", default=False),
                    _F("topics", (_F("name", "string"), _F("partitions", "[int32]"))),
                ),
                4,
            ),
            _F("v3_and_below_transactional_id", "string", 0, 3),
            _F("v3_and_below_producer_id", "int64", 0, 3),
            _F("v3_and_below_producer_epoch", "int16", 0, 3),
            _F("v3_and_below_topics", (_F("name", "string"), _F("partitions", "[int32]")), 0, 3),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F("error_code", "int16", 4),
            _F(
                "results_by_transaction",
                (
                    _F("transactional_id", "string"),
                    _F(
                        "topic_results",
                        (
                            _F("name", "string"),
                            _F(
                                "results_by_partition",
                                (_F("partition_index", "int32"), _F("partition_error_code", "int16")),
                            ),
                        ),
                    ),
                ),
                4,
            ),
            _F(
                "results_by_topic_v3_and_below",
                (
                    _F("name", "string"),
                    _F("results_by_partition", (_F("partition_index", "int32"), _F("partition_error_code", "int16"))),
                ),
                0,
                3,
            ),
        ),
    ),
    "AddOffsetsToTxn": Api(
        25,
        3,
        (
            _F("transactional_id", "string"),
            _F("producer_id", "int64"),
            _F("producer_epoch", "int16"),
            _F("group_id", "string"),
        ),
        (_F(_THROTTLE, "int32"), _F("error_code", "int16")),
    ),
    "EndTxn": Api(
        26,
        3,
        (
            _F("transactional_id", "string"),
            _F("producer_id", "int64"),
            _F("producer_epoch", "int16"),
            _F("committed", "bool"),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F("error_code", "int16"),
            _F("producer_id", "int64", 5),
            _F("producer_epoch", "int16", 5),
        ),
    ),
    "WriteTxnMarkers": Api(
        27,
        1,
        (
            _F(
                "markers",
                (
                    _F("producer_id", "int64"),
                    _F("producer_epoch", "int16"),
                    _F("transaction_result", "bool"),
                    _F("topics", (_F("name", "string"), _F("partition_indexes", "[int32]"))),
                    _F("coordinator_epoch", "int32"),
                    _F("transaction_version", "int8", 2),
                ),
            ),
        ),
        (
            _F(
                "markers",
                (
                    _F("producer_id", "int64"),
                    _F(
                        "topics",
                        (
                            _F("name", "string"),
                            _F("partitions", (_F("partition_index", "int32"), _F("error_code", "int16"))),
                        ),
                    ),
                ),
            ),
        ),
    ),
    "TxnOffsetCommit": Api(
        28,
        3,
        (
            _F("transactional_id", "string"),
            _F("group_id", "string"),
            _F("producer_id", "int64"),
            _F("producer_epoch", "int16"),
            _F("generation_id", "int32", 3, default=-1),
            _F("member_id", "string", 3, default=""),
            _F("group_instance_id", "string", 3, default=None, nullable_since=3),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F(
                        "partitions",
                        (
                            _F("partition_index", "int32"),
                            _F("committed_offset", "int64"),
                            _F("committed_leader_epoch", "int32", 2, default=-1),
                            _F("committed_metadata", "string", nullable_since=0),
                        ),
                    ),
                ),
            ),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F("partitions", (_F("partition_index", "int32"), _F("error_code", "int16"))),
                ),
            ),
        ),
    ),
    "DescribeProducers": Api(
        61,
        0,
        (_F("topics", (_F("name", "string"), _F("partition_indexes", "[int32]"))),),
        (
            _F(_THROTTLE, "int32"),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F(
                        "partitions",
                        (
                            _F("partition_index", "int32"),
                            _F("error_code", "int16"),
                            _F("error_message", "string"),
                            _F(
                                "active_producers",
                                (
                                    _F("producer_id", "int64"),
                                    _F("producer_epoch", "int32"),
                                    _F("last_sequence", "int32"),
                                    _F("last_timestamp", "int64"),
                                    _F("coordinator_epoch", "int32"),
                                    _F("current_txn_start_offset", "int64"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
    "DescribeTransactions": Api(
        65,
        0,
        (_F("transactional_ids", "[string]"),),
        (
            _F(_THROTTLE, "int32"),
            _F(
                "transaction_states",
                (
                    _F("error_code", "int16"),
                    _F("transactional_id", "string"),
                    _F("transaction_state", "string"),
                    _F("transaction_timeout_ms", "int32"),
                    _F("transaction_start_time_ms", "int64"),
                    _F("producer_id", "int64"),
                    _F("producer_epoch", "int16"),
                    _F("topics", (_F("topic", "string"), _F("partitions", "[int32]"))),
                ),
            ),
        ),
    ),
    "ListTransactions": Api(
        66,
        0,
        (
            _F("state_filters", "[string]", default=()),
            _F("producer_id_filters", "[int64]", default=()),
            _F("duration_filter", "int64", 1, default=-1),
            _F("transactional_id_pattern", "string", 2, default=None, nullable_since=2),
        ),
        (
            _F(_THROTTLE, "int32"),
            _F("error_code", "int16"),
            _F("unknown_state_filters", "[string]"),
            _F(
                "transaction_states",
                (_F("transactional_id", "string"), _F("producer_id", "int64"), _F("transaction_state", "string")),
            ),
        ),
    ),
    "OffsetDelete": Api(
        47,
        99,
        (
            _F("group_id", "string"),
            _F("topics", (_F("name", "string"), _F("partitions", (_F("partition_index", "int32"),)))),
        ),
        (
            _F("error_code", "int16"),
            _F(_THROTTLE, "int32"),
            _F(
                "topics",
                (
                    _F("name", "string"),
                    _F("partitions", (_F("partition_index", "int32"), _F("error_code", "int16"))),
                ),
            ),
        ),
    ),
}


def encode_request(api: str, version: int, correlation_id: int, client_id: str, fields: Message) -> bytes:
    """Return a frame: size, header and body."""
    shape = APIS[api]
    flexible = version >= shape.flexible_since
    out = bytearray(struct.pack(">hhi", shape.key, version, correlation_id))
    out += _length(len(client_id.encode()), "int16") + client_id.encode()  # never compact in a header
    if flexible:
        out += b"\0"
    _write_struct(out, shape.request, fields, version, flexible)
    return struct.pack(">i", len(out)) + bytes(out)


def decode_response(api: str, version: int, frame: bytes) -> tuple[int, dict[str, Any]]:
    """Return the correlation id and the fields of a response; trailing bytes are an error."""
    shape = APIS[api]
    flexible = version >= shape.flexible_since
    reader = _Reader(frame, flexible)
    correlation_id = reader.number("int32")
    reader.skip_tags()
    fields = reader.struct(shape.response, version)
    if reader.at != len(frame):
        raise ValueError(f"{api} v{version}: {len(frame) - reader.at} unread bytes in the response {frame!r}")
    return correlation_id, fields


# --- encoding -------------------------------------------------------------------------------------------------------

_FIXED: Final = {"bool": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uuid": ">16s"}


def _length(value: int, plain: str, *, compact: bool = False) -> bytes:
    """Encode a length; -1 means null."""
    if not compact:
        return struct.pack(_FIXED[plain], value)
    value += 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _write_struct(out: bytearray, schema: Schema, fields: Message, version: int, flexible: bool) -> None:
    unknown = set(fields) - {field.name for field in schema}
    if unknown:
        raise ValueError(f"no such field: {sorted(unknown)}; there are {[field.name for field in schema]}")
    for field in schema:
        if field.since <= version <= field.until:
            value = fields.get(field.name, field.default)
            if value is _NO_DEFAULT:
                raise ValueError(f"{field.name} is missing in {fields}")
            if value is None and version < field.nullable_since:
                raise ValueError(f"{field.name} cannot be null in v{version}")
            _write(out, field.type, value, version, flexible)
    if flexible:
        out += b"\0"


def _write(out: bytearray, kind: str | Schema, value: Any, version: int, flexible: bool) -> None:
    if isinstance(kind, tuple) or kind[0] == "[":
        entries: Sequence[Any] | None = value
        out += _length(-1 if entries is None else len(entries), "int32", compact=flexible)
        for entry in entries or ():
            if isinstance(kind, tuple):
                _write_struct(out, kind, entry, version, flexible)
            else:
                _write(out, kind[1:-1], entry, version, flexible)
    elif kind in _FIXED:
        out += struct.pack(_FIXED[kind], value)
    else:
        data = value.encode() if isinstance(value, str) else value
        out += _length(-1 if data is None else len(data), "int16" if kind == "string" else "int32", compact=flexible)
        out += data or b""


# --- decoding -------------------------------------------------------------------------------------------------------


class _Reader:
    """A position in a frame."""

    def __init__(self, frame: bytes, flexible: bool) -> None:
        self.frame = frame
        self.flexible = flexible
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.frame):
            raise ValueError(f"cannot read {size} bytes at position {self.at} of {len(self.frame)}")
        self.at += size
        return self.frame[self.at - size : self.at]

    def number(self, kind: str) -> Any:
        shape = _FIXED[kind]
        return struct.unpack(shape, self.take(struct.calcsize(shape)))[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def length(self, plain: str) -> int:
        return self.varint() - 1 if self.flexible else int(self.number(plain))

    def skip_tags(self) -> None:
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.take(self.varint())

    def struct(self, schema: Schema, version: int) -> dict[str, Any]:
        fields = {
            field.name: self.value(field.type, version) for field in schema if field.since <= version <= field.until
        }
        self.skip_tags()
        return fields

    def value(self, kind: str | Schema, version: int) -> Any:
        if isinstance(kind, tuple) or kind[0] == "[":
            count = self.length("int32")
            if count < 0:
                return None
            if isinstance(kind, tuple):
                return [self.struct(kind, version) for _ in range(count)]
            return [self.value(kind[1:-1], version) for _ in range(count)]
        if kind in _FIXED:
            return self.number(kind)
        size = self.length("int16" if kind == "string" else "int32")
        if size < 0:
            return None
        data = self.take(size)
        return data.decode() if kind == "string" else data
