"""FindCoordinator in all versions."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.quiet_broker import LISTENER, QuietBroker, QuietClient

GROUP, TRANSACTION, SHARE, UNKNOWN = range(4)


def find(client: QuietClient, version: int, *keys: str, key_type: int = GROUP) -> list[Coordinator]:
    """Return the coordinators in the form of v4 and later."""
    if version >= 4:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        return client.request(request, FindCoordinatorResponse, version).coordinators
    (key,) = keys
    response = client.request(FindCoordinatorRequest(key=key, key_type=key_type), FindCoordinatorResponse, version)
    return [
        Coordinator(key, response.node_id, response.host, response.port, response.error_code, response.error_message)
    ]


@pytest.mark.parametrize("version", range(7))
def test_this_broker_coordinates_every_group(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        find(client, version, "g")
        (coordinator,) = find(client, version, "g")
        host, port = LISTENER
        assert (coordinator.node_id, coordinator.host, coordinator.port, coordinator.error_code) == (
            broker.broker.node_id,
            host,
            port,
            0,
        )
        assert coordinator.error_message == ("NONE" if 1 <= version <= 3 else "")


@pytest.mark.proves("CO-05")
@pytest.mark.parametrize("version", range(7))
def test_first_request_creates_the_offsets_topic(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, {"offsets.topic.num.partitions": 3}) as broker:
        client = broker.connect()
        (coordinator,) = find(client, version, "g")
        assert (coordinator.error_code, coordinator.node_id, coordinator.host, coordinator.port) == (15, -1, "", -1)
        topic = broker.broker.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 3
        assert find(client, version, "g")[0].error_code == Error.NONE


def test_no_keys_create_no_topic(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        assert find(broker.connect(), 4) == []
        assert broker.broker.topics.get(OFFSETS_TOPIC) is None


@pytest.mark.proves("CO-05")
@pytest.mark.parametrize("version", range(4, 7))
def test_each_key_has_a_result_since_v4(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        find(client, version, "g")
        coordinators = find(client, version, "g", "h", "g")
    assert [(coordinator.key, coordinator.error_code) for coordinator in coordinators] == [("g", 0), ("h", 0), ("g", 0)]


@pytest.mark.proves("CO-05")
@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [SHARE, UNKNOWN])
def test_other_key_types_are_rejected(tmp_path: Path, version: int, key_type: int) -> None:
    with QuietBroker(tmp_path) as broker:
        (coordinator,) = find(broker.connect(), version, "g", key_type=key_type)
    assert (coordinator.error_code, coordinator.node_id) == (Error.INVALID_REQUEST, -1)


@pytest.mark.proves("TX-55")
@pytest.mark.parametrize("version", range(1, 7))
def test_first_request_creates_the_topic_of_transactions(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, {"transaction.state.log.num.partitions": 3}) as broker:
        client = broker.connect()
        (coordinator,) = find(client, version, "tx", key_type=TRANSACTION)
        assert (coordinator.error_code, coordinator.node_id) == (Error.COORDINATOR_NOT_AVAILABLE, -1)
        assert broker.broker.topics.get(OFFSETS_TOPIC) is None
        topic = broker.broker.topics.get(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 3
        (coordinator,) = find(client, version, "tx", key_type=TRANSACTION)
        assert (coordinator.error_code, coordinator.node_id) == (Error.NONE, broker.broker.node_id)


def test_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(broker.broker.topics, "create", full)
            (coordinator,) = find(client, 4, "g")
        assert coordinator.error_code == Error.COORDINATOR_NOT_AVAILABLE
        assert "No space left on device" in (coordinator.error_message or "")
        find(client, 4, "g")
        assert find(client, 4, "g")[0].error_code == Error.NONE
