"""The broker as a whole: changed group settings, and the partition count of the offsets topic."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from tests.broker.quiet_broker import QuietBroker, QuietClient

from .handlers.members import commit
from .server_client import with_server


def join(client: QuietClient, session_ms: int) -> int:
    response = client.request_fields(
        "JoinGroup",
        9,
        group_id="g",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    return int(response["error_code"])


def test_altered_settings_apply_to_groups(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        assert join(client, 100) == Error.INVALID_SESSION_TIMEOUT
        broker.broker.settings.alter({"group.min.session.timeout.ms": 100, "offsets.retention.minutes": 1})
        assert join(client, 100) == Error.NONE
        assert broker.broker.group_coordinator.config.offsets_retention_ms == 60_000
        broker.broker.settings.alter({"group.min.session.timeout.ms": None})
        assert join(client, 100) == Error.INVALID_SESSION_TIMEOUT


def test_offsets_topic_keeps_its_partition_count(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"offsets.topic.num.partitions": 7}, t=1) as broker:
        for group in "abcdef":
            assert commit(broker.connect(), 5, group=group) == Error.NONE
    for partitions in (3, 50):
        with QuietBroker(tmp_path, {"offsets.topic.num.partitions": partitions}) as broker:
            assert set(broker.broker.group_coordinator.coordinator.groups) == set("abcdef")
            broker.broker.settings.alter({"group.max.size": 5})
            assert commit(broker.connect(), 6, group="a") == Error.NONE


def test_flush_that_ends_during_a_stop_starts_no_other(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        await server.stop()
        server.broker.in_thread(unexpected, unexpected)

    def unexpected() -> None:
        raise AssertionError("the thread has ended")

    with_server(tmp_path, scenario, flush="always")
