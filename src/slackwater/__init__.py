"""Slackwater: Kafka's consumer-group system, end to end, in Python."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from slackwater.version import __version__

if TYPE_CHECKING:
    from slackwater.broker.embedded import EmbeddedBroker as Broker
    from slackwater.client.admin import Admin, ResetTo
    from slackwater.client.consumer.consumer import Consumer
    from slackwater.client.consumer.deserialization import DeserializationError
    from slackwater.client.consumer.fetcher import NoOffsetForPartitionError, OffsetOutOfRangeError
    from slackwater.client.consumer.rebalance_listener import RebalanceListener
    from slackwater.client.consumer.records import ConsumerRecord
    from slackwater.client.consumer.runner import DeadLetterError, HandlerFailedError
    from slackwater.client.deduplication import SqliteDeduplicationStore, deduplicate
    from slackwater.client.errors import (
        ClientClosedError,
        ClientTimeoutError,
        NetworkError,
        ResponseTooLargeError,
        UnsupportedVersionError,
    )
    from slackwater.client.group_metadata import ConsumerGroupMetadata
    from slackwater.client.network.offsets import OffsetAndTimestamp
    from slackwater.client.producer import (
        AbortableTransactionError,
        FatalTransactionError,
        Producer,
        ProducerFencedError,
        RecordMetadata,
        RetriableTransactionError,
        SerializationError,
        TransactionAbortedError,
        TransactionError,
        UnknownTopicError,
    )
    from slackwater.group.batches.config import DataLossError
    from slackwater.group.errors import (
        AuthorizationError,
        BrokerError,
        ClusterAuthorizationError,
        Error,
        GroupAuthorizationError,
        PeerError,
        SlackwaterError,
        TopicAuthorizationError,
        TransactionalIdAuthorizationError,
        UsageError,
    )
    from slackwater.group.events import GroupEvent
    from slackwater.group.member.errors import (
        AssignorFailed,
        CommitFailed,
        FencedInstanceId,
        GroupMaxSizeReached,
        ListenerFailed,
        OperationTimedOut,
        RebalanceInProgress,
        RetriableCommitFailed,
        Wakeup,
    )
    from slackwater.group.offset_and_metadata import OffsetAndMetadata
    from slackwater.group.topic_partition import TopicPartition
    from slackwater.security.errors import (
        AuthenticationError,
        IllegalSaslStateError,
        SaslAuthenticationError,
        SslAuthenticationError,
        UnsupportedSaslMechanismError,
    )

__all__ = [
    "AbortableTransactionError",
    "Admin",
    "AssignorFailed",
    "AuthenticationError",
    "AuthorizationError",
    "Broker",
    "BrokerError",
    "ClientClosedError",
    "ClientTimeoutError",
    "ClusterAuthorizationError",
    "CommitFailed",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "DataLossError",
    "DeadLetterError",
    "DeserializationError",
    "Error",
    "FatalTransactionError",
    "FencedInstanceId",
    "GroupAuthorizationError",
    "GroupEvent",
    "GroupMaxSizeReached",
    "HandlerFailedError",
    "IllegalSaslStateError",
    "ListenerFailed",
    "NetworkError",
    "NoOffsetForPartitionError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "OperationTimedOut",
    "PeerError",
    "Producer",
    "ProducerFencedError",
    "RebalanceInProgress",
    "RebalanceListener",
    "RecordMetadata",
    "ResetTo",
    "ResponseTooLargeError",
    "RetriableCommitFailed",
    "RetriableTransactionError",
    "SaslAuthenticationError",
    "SerializationError",
    "SlackwaterError",
    "SqliteDeduplicationStore",
    "SslAuthenticationError",
    "TopicAuthorizationError",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionalIdAuthorizationError",
    "UnknownTopicError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "UsageError",
    "Wakeup",
    "__version__",
    "deduplicate",
]

# Each name is imported on first use, so that a program that needs one part does not load the others.
_MODULES: Final = {
    "broker.embedded": ("Broker",),
    "client.admin": ("Admin", "ResetTo"),
    "client.consumer.consumer": ("Consumer",),
    "client.consumer.deserialization": ("DeserializationError",),
    "client.consumer.fetcher": ("NoOffsetForPartitionError", "OffsetOutOfRangeError"),
    "client.consumer.rebalance_listener": ("RebalanceListener",),
    "client.consumer.records": ("ConsumerRecord",),
    "client.consumer.runner": ("DeadLetterError", "HandlerFailedError"),
    "client.deduplication": ("SqliteDeduplicationStore", "deduplicate"),
    "client.errors": (
        "ClientClosedError",
        "ClientTimeoutError",
        "NetworkError",
        "ResponseTooLargeError",
        "UnsupportedVersionError",
    ),
    "client.group_metadata": ("ConsumerGroupMetadata",),
    "client.network.offsets": ("OffsetAndTimestamp",),
    "client.producer": (
        "AbortableTransactionError",
        "FatalTransactionError",
        "Producer",
        "ProducerFencedError",
        "RecordMetadata",
        "RetriableTransactionError",
        "SerializationError",
        "TransactionAbortedError",
        "TransactionError",
        "UnknownTopicError",
    ),
    "group.batches.config": ("DataLossError",),
    "group.errors": (
        "AuthorizationError",
        "BrokerError",
        "ClusterAuthorizationError",
        "Error",
        "GroupAuthorizationError",
        "PeerError",
        "SlackwaterError",
        "TopicAuthorizationError",
        "TransactionalIdAuthorizationError",
        "UsageError",
    ),
    "group.events": ("GroupEvent",),
    "group.member.errors": (
        "AssignorFailed",
        "CommitFailed",
        "FencedInstanceId",
        "GroupMaxSizeReached",
        "ListenerFailed",
        "OperationTimedOut",
        "RebalanceInProgress",
        "RetriableCommitFailed",
        "Wakeup",
    ),
    "group.offset_and_metadata": ("OffsetAndMetadata",),
    "group.topic_partition": ("TopicPartition",),
    "security.errors": (
        "AuthenticationError",
        "IllegalSaslStateError",
        "SaslAuthenticationError",
        "SslAuthenticationError",
        "UnsupportedSaslMechanismError",
    ),
}
_LOCATIONS: Final = {name: module for module, names in _MODULES.items() for name in names}
_OTHER_NAMES: Final = {"Broker": "EmbeddedBroker"}


def __getattr__(name: str) -> object:
    if name not in _LOCATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_LOCATIONS[name]}"), _OTHER_NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
