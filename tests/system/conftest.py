"""Fixtures of the system tests: the broker under test, and groups of verifiable consumers on it.

Invariants:
- Every scenario runs on our broker with Java, librdkafka and our consumer, and on Apache Kafka with our consumer.
- The whole suite takes many minutes and runs only when this directory is named (`make interop`). Otherwise the tests
  of QUICK run.
- The scenarios share a broker and restart it; every topic and group has a unique name.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.client.clusters import ClusterUnderTest
from tests.interop_heavy.restartable_brokers import BrokerUnderTest, started_broker
from tests.java import require_jars
from tests.system.clients import JAVA, Client
from tests.system.consumer_group import ConsumerGroup

HERE: Final = Path(__file__).parent
QUICK: Final = frozenset(
    {
        "test_broker_failure_causes_no_rebalance[hard-sync-commit-slackwater-ours]",
        "test_broker_failure_causes_no_rebalance[hard-sync-commit-slackwater-librdkafka]",
        "test_broker_failure_causes_no_rebalance[hard-sync-commit-slackwater-java]",
        "test_duplicate_instance_id_fences_stable_member[1-slackwater-ours]",
        "test_members_join_and_leave_one_by_one[slackwater-ours]",
    }
)

NewGroup = Callable[..., ConsumerGroup]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all scenarios but those of QUICK, unless the command line names this directory or a path in it."""
    named = ((config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args)
    if any(path.is_relative_to(HERE) for path in named):
        return
    items[:] = [item for item in items if not _is_scenario(item) or item.name in QUICK]


def _is_scenario(item: pytest.Item) -> bool:
    return item.path.is_relative_to(HERE) and "client" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    """The broker."""
    with started_broker(request.param, tmp_path_factory.mktemp("system")) as running:
        yield running
        running.check()


@pytest.fixture
def new_group(client: Client, broker: BrokerUnderTest, tmp_path: Path) -> Iterator[NewGroup]:
    """Creates groups with the keyword arguments of `ConsumerGroup`, and stops them after the test."""
    if client is JAVA:
        require_jars()
    cluster = ClusterUnderTest(broker.bootstrap)
    groups: list[ConsumerGroup] = []

    def create(**options: object) -> ConsumerGroup:
        groups.append(ConsumerGroup(client, cluster, tmp_path, **options))  # type: ignore[arg-type]
        return groups[-1]

    yield create
    for group in groups:
        group.close()
        print(group.report())  # pytest shows it if the test failed
    print(broker.log_tail())
    cluster.admin.close()
