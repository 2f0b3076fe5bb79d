"""FindCoordinator in its versions."""

from pathlib import Path

import pytest

from slackwater.broker.handlers.find_coordinator import NO_TRANSACTIONS
from slackwater.broker.storage.topics import OFFSETS_TOPIC
from slackwater.group.errors import Error
from slackwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.quiet_broker import LISTENER, QuietBroker, QuietClient

GROUP, TRANSACTION, SHARE, UNHEARD_OF = range(4)


def find(client: QuietClient, version: int, *keys: str, kind: int = GROUP) -> list[Coordinator]:
    """What is answered, in the form of v4 and later."""
    if version >= 4:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        return client.ask(request, FindCoordinatorResponse, version).coordinators
    (key,) = keys
    one = client.ask(FindCoordinatorRequest(key=key, key_type=kind), FindCoordinatorResponse, version)
    return [Coordinator(key, one.node_id, one.host, one.port, one.error_code, one.error_message)]


@pytest.mark.parametrize("version", range(7))
def test_this_node_coordinates_every_group(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        find(client, version, "g")
        (found,) = find(client, version, "g")
        host, port = LISTENER
        assert (found.node_id, found.host, found.port, found.error_code) == (broker.broker.node_id, host, port, 0)
        assert found.error_message == ("NONE" if 1 <= version <= 3 else "")


@pytest.mark.proves("CO-05")
@pytest.mark.parametrize("version", range(7))
def test_whoever_asks_first_has_the_offsets_topic_made_and_asks_again(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, {"offsets.topic.num.partitions": 3}) as broker:
        client = broker.connect()
        (found,) = find(client, version, "g")
        assert (found.error_code, found.node_id, found.host, found.port) == (15, -1, "", -1)
        topic = broker.broker.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 3
        assert find(client, version, "g")[0].error_code == Error.NONE


def test_no_key_makes_no_topic(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        assert find(broker.connect(), 4) == []
        assert broker.broker.topics.get(OFFSETS_TOPIC) is None


@pytest.mark.proves("CO-05")
@pytest.mark.parametrize("version", range(4, 7))
def test_from_v4_on_there_is_a_result_for_each_key(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        find(client, version, "g")
        found = find(client, version, "g", "h", "g")
    assert [(one.key, one.error_code) for one in found] == [("g", 0), ("h", 0), ("g", 0)]


@pytest.mark.proves("CO-05")
@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("kind", [SHARE, UNHEARD_OF])
def test_keys_of_share_groups_and_of_kinds_nobody_knows_are_no_request(tmp_path: Path, version: int, kind: int) -> None:
    with QuietBroker(tmp_path) as broker:
        (found,) = find(broker.connect(), version, "g", kind=kind)
    assert (found.error_code, found.node_id) == (Error.INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_producer_is_told_that_there_are_no_transactions(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        (found,) = find(broker.connect(), version, "tx", kind=TRANSACTION)
    assert (found.error_code, found.error_message) == (Error.INVALID_REQUEST, NO_TRANSACTIONS)


def test_a_disk_without_room_for_the_topic_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(broker.broker.topics, "create", full)
            (found,) = find(client, 4, "g")
        assert found.error_code == Error.COORDINATOR_NOT_AVAILABLE
        assert "No space left on device" in (found.error_message or "")
        find(client, 4, "g")
        assert find(client, 4, "g")[0].error_code == Error.NONE
