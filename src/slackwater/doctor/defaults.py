"""Kafka's defaults, where a history does not tell what was set."""

from typing import Final

INITIAL_DELAY_MS: Final = 3_000
"""group.initial.rebalance.delay.ms: members that come within it of each other are one start."""
SESSION_TIMEOUT_MS: Final = 45_000
MAX_POLL_INTERVAL_MS: Final = 300_000
"""max.poll.interval.ms, which is also a classic member's rebalance timeout."""
METADATA_MAX_AGE_MS: Final = 300_000
"""metadata.max.age.ms: a client sees a change of a topic at the latest after this."""
