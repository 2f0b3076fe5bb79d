"""The coordinator's settings, with Kafka's names (dots as underscores) and Kafka's defaults."""

from dataclasses import dataclass

from slackwater.group.messages import MAX_INT


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """The coordinator's settings; durations are in milliseconds."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = MAX_INT
    offsets_topic_num_partitions: int = 50
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    new_member_join_timeout_ms: int = 300_000  # constant in Kafka; a setting here to keep tests short (JG-24)
    cluster: str | None = None
