"""The producer."""

from slackwater.client.producer.delivery import RecordMetadata
from slackwater.client.producer.producer import Producer, SerializationError, UnknownTopicError
from slackwater.client.producer.transaction_errors import (
    AbortableTransactionError,
    FatalTransactionError,
    ProducerFencedError,
    RetriableTransactionError,
    TransactionAbortedError,
    TransactionError,
)

__all__ = [
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
]
