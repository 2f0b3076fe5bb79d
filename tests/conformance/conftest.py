"""Fixtures of the conformance tests."""

import pytest

from .coordinator_harness import CoordinatorHarness


@pytest.fixture
def harness() -> CoordinatorHarness:
    """A new coordinator with Kafka's defaults and an empty log."""
    return CoordinatorHarness()
