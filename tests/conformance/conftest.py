"""The room, as a fixture: a fresh coordinator with Kafka's defaults, and an empty log."""

import pytest

from .room import Room


@pytest.fixture
def room() -> Room:
    """A coordinator that owns one shard, ready."""
    return Room()
