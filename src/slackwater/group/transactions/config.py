"""The settings of the transaction coordinator, with Kafka's names (dots as underscores) and Kafka's defaults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The settings of the transaction coordinator; durations are in milliseconds."""

    transaction_state_log_num_partitions: int = 50
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
