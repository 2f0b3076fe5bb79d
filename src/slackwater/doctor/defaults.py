"""Kafka's default settings, used where a history does not contain the actual value."""

from typing import Final

SESSION_TIMEOUT_MS: Final = 45_000
MAX_POLL_INTERVAL_MS: Final = 300_000
"""max.poll.interval.ms; also the rebalance timeout of a classic member."""
METADATA_MAX_AGE_MS: Final = 300_000
"""metadata.max.age.ms: a client notices a topic change after this time at the latest."""
