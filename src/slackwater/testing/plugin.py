"""The pytest plugin: the fixtures `kafka` and `kafka_session`, and the marker that configures them.

The broker is imported only when a test uses one of the fixtures.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from slackwater.testing.kafka import Kafka

MARKER = (
    "kafka(settings=None, virtual_time=False): configures the broker of the `kafka` fixture; "
    'security="SASL_SSL" gives it TLS and SASL (slackwater)'
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Kafka]":
    """A broker for this test, with fault injection; `@pytest.mark.kafka(...)` configures it."""
    from slackwater.testing.kafka import Kafka

    with Kafka(**_options(request.node)) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_session() -> "Iterator[Kafka]":
    """One broker for the whole test run; use distinct topic and group names."""
    from slackwater.testing.kafka import Kafka

    with Kafka() as broker:
        yield broker


def _options(node: pytest.Item) -> dict[str, Any]:
    """Merge the markers of a test, its class and its module; the nearest wins, settings are combined."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("kafka"))):
        unknown = set(marker.kwargs) - {"settings", "virtual_time", "security"}
        if marker.args or unknown:
            arguments = ", ".join([*map(repr, marker.args), *sorted(unknown)])
            raise pytest.UsageError(
                f"{node.nodeid}: @pytest.mark.kafka does not take {arguments}; "
                "use settings={...} and virtual_time=True. "
                'With TLS or SASL: security="SASL_SSL".'
            )
        settings = {**options.get("settings", {}), **(marker.kwargs.get("settings") or {})}
        options = {**options, **marker.kwargs, "settings": settings}
    return options
