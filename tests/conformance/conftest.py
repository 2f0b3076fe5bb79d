"""The harness, as a fixture: a fresh coordinator with Kafka's defaults, and an empty log."""

import pytest

from .coordinator_harness import CoordinatorHarness


@pytest.fixture
def harness() -> CoordinatorHarness:
    """A coordinator that owns one shard, ready."""
    return CoordinatorHarness()
