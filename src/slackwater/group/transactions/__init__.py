"""The transaction coordinator, as a state machine without I/O."""

from slackwater.group.transactions.config import TransactionConfig
from slackwater.group.transactions.coordinator import TransactionCoordinator
from slackwater.group.transactions.effects import (
    AppendTransactionRecords,
    SendTransactionResponse,
    TransactionEffect,
    TransactionEvent,
    WriteMarkers,
)
from slackwater.group.transactions.records import StoredTransaction, TransactionRecord
from slackwater.group.transactions.states import TransactionInput, TransactionState

__all__ = [
    "AppendTransactionRecords",
    "SendTransactionResponse",
    "StoredTransaction",
    "TransactionConfig",
    "TransactionCoordinator",
    "TransactionEffect",
    "TransactionEvent",
    "TransactionInput",
    "TransactionRecord",
    "TransactionState",
    "WriteMarkers",
]
