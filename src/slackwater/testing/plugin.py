"""The pytest plugin: the fixtures `kafka` and `kafka_session`, and the marker that sets them up.

Rules kept here
- Nothing of the broker is imported before a test asks for one.
- Nothing is changed for tests that do not ask.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from slackwater.testing.kafka import Kafka

MARKER = "kafka(settings=None, virtual_time=False): how the broker of the `kafka` fixture is set up (slackwater)"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Kafka]":
    """A broker of this test's own, with faults to inject; `@pytest.mark.kafka(...)` sets it up."""
    from slackwater.testing.kafka import Kafka

    with Kafka(**_options(request.node)) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_session() -> "Iterator[Kafka]":
    """One broker for the whole run, for tests that keep apart by their topics' and groups' names."""
    from slackwater.testing.kafka import Kafka

    with Kafka() as broker:
        yield broker


def _options(node: pytest.Item) -> dict[str, Any]:
    """What the markers of a test, its class and its module say; the nearest wins, settings add up."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("kafka"))):
        unknown = set(marker.kwargs) - {"settings", "virtual_time"}
        if marker.args or unknown:
            seen = ", ".join([*map(repr, marker.args), *sorted(unknown)])
            raise pytest.UsageError(
                f"{node.nodeid}: @pytest.mark.kafka does not take {seen}; use settings={{...}} and virtual_time=True."
            )
        settings = {**options.get("settings", {}), **(marker.kwargs.get("settings") or {})}
        options = {**options, **marker.kwargs, "settings": settings}
    return options
