"""The transaction coordinator in a broker: its topic, restarts, timers, features."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from slackwater.broker.storage.log.files import LOG, file_name
from slackwater.group.errors import Error
from slackwater.group.internal_topics import TRANSACTIONS_TOPIC
from slackwater.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from slackwater.wire.messages.produce import ProduceResponse
from slackwater.wire.records.batch import TRANSACTIONAL_BIT, iter_batches
from tests.broker.handlers.data_requests import LAST_BY_NAME, produce_request, produced
from tests.broker.quiet_broker import QuietBroker, QuietClient
from tests.broker.storage.log.batches import batch

SETTINGS = {
    "transaction.state.log.num.partitions": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
}
ID = "payments"


def start(directory: Path, **settings: object) -> QuietBroker:
    return QuietBroker(directory, SETTINGS | settings, t=2)


def find(client: QuietClient) -> int:
    (row,) = client.request_fields("FindCoordinator", 4, key_type=1, coordinator_keys=[ID])["coordinators"]
    return int(row["error_code"])


def init(client: QuietClient, timeout_ms: int = 60_000) -> tuple[int, int, int]:
    response = client.request_fields("InitProducerId", 5, transactional_id=ID, transaction_timeout_ms=timeout_ms)
    return response["error_code"], response["producer_id"], response["producer_epoch"]


def add(client: QuietClient, producer: tuple[int, int]) -> int:
    response = client.request_fields(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[{"name": "t", "partitions": [0]}],
    )
    return int(response["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"])


def write(client: QuietClient, producer: tuple[int, int]) -> int:
    """Produce a transactional batch and return the error."""
    records = batch(producer_id=producer[0], epoch=producer[1], sequence=0, attributes=TRANSACTIONAL_BIT)
    request = produce_request("t", 0, records)
    request.transactional_id = ID
    return produced(client.request(request, ProduceResponse, LAST_BY_NAME)).error_code


def describe(client: QuietClient) -> dict[str, Any]:
    (row,) = client.request_fields("DescribeTransactions", 0, transactional_ids=[ID])["transaction_states"]
    assert isinstance(row, dict)
    return row


def end(client: QuietClient, producer: tuple[int, int], *, commit: bool = True) -> tuple[int, int, int]:
    response = client.request_fields(
        "EndTxn", 5, transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=commit
    )
    return response["error_code"], response["producer_id"], response["producer_epoch"]


@pytest.mark.proves("TX-55")
def test_first_request_creates_the_topic(tmp_path: Path) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        assert init(client)[0] == Error.NOT_COORDINATOR
        assert find(client) == Error.COORDINATOR_NOT_AVAILABLE
        assert find(client) == Error.NONE
        topic = broker.broker.topics.get(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 3
        assert init(client)[0] == Error.NONE


def test_first_batch_of_a_transaction_waits_for_no_timer(tmp_path: Path) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        _, producer_id, epoch = init(client)
        assert write(client, (producer_id, epoch)) == Error.NONE


@pytest.mark.proves("TX-56")
def test_broker_has_transaction_version_2(tmp_path: Path) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        response = client.request(request, ApiVersionsResponse, 3)
        assert response.supported_features == [SupportedFeatureKey("transaction.version", 0, 2)]
        assert response.finalized_features == [FinalizedFeatureKey("transaction.version", 2, 2)]
        assert response.finalized_features_epoch >= 0


def test_one_transaction_is_described_at_most_three_times(tmp_path: Path) -> None:
    """A small request must not cause a large response."""
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        find(client)
        _, producer_id, epoch = init(client)
        add(client, (producer_id, epoch))
        response = client.request_fields("DescribeTransactions", 0, transactional_ids=[ID] * 50 + ["other"])
        rows = [(row["transactional_id"], len(row["topics"])) for row in response["transaction_states"]]
        assert rows == [(ID, 1)] * 3 + [("other", 0)]


@pytest.mark.parametrize(
    ("pattern", "listed"), [("pay.*", [ID]), (".*x", []), ("((p|[a-z]*)+.?)+", [ID]), ("(?=p).*", None)]
)
def test_ids_are_listed_by_pattern(tmp_path: Path, pattern: str, listed: list[str] | None) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        find(client)
        init(client)
        response = client.request_fields("ListTransactions", 2, transactional_id_pattern=pattern)
        error = Error.INVALID_REGULAR_EXPRESSION if listed is None else Error.NONE
        assert response["error_code"] == error
        assert [row["transactional_id"] for row in response["transaction_states"]] == (listed or [])


@pytest.mark.proves("TX-53", "TX-54")
@pytest.mark.parametrize("clean", [True, False])
def test_restart_keeps_transactions(tmp_path: Path, clean: bool) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        find(client)
        _, *producer = init(client)
        assert add(client, (producer[0], producer[1])) == Error.NONE
        if not clean:
            broker.kill()
    with QuietBroker(tmp_path, SETTINGS) as broker:
        client = broker.connect()
        row = describe(client)
        assert (row["transaction_state"], row["producer_id"]) == ("Ongoing", producer[0])
        assert end(client, (producer[0], 0)) == (Error.NONE, producer[0], 1)
        assert describe(client)["transaction_state"] == "CompleteCommit"
        log = broker.broker.topics.partition("t", 0)
        assert log is not None
        assert log.log.log_end_offset == 1  # the marker
    with QuietBroker(tmp_path, SETTINGS) as broker:
        assert init(broker.connect()) == (Error.NONE, producer[0], 2)


def test_producer_works_again_after_its_state_was_lost(tmp_path: Path) -> None:
    """The coordinator has an open transaction that partitions have seen end, with newer epochs."""
    data, copies = tmp_path / "data", tmp_path / "copies"
    with start(data) as broker:
        client = broker.connect()
        find(client)
        find(client)
        _, producer_id, epoch = init(client, timeout_ms=5_000)
        assert write(client, (producer_id, epoch)) == Error.NONE
        broker.kill()
    for path in data.glob(f"{TRANSACTIONS_TOPIC}-*"):
        shutil.copytree(path, copies / path.name)
    with QuietBroker(data, SETTINGS) as broker:
        client = broker.connect()
        for _ in range(3):
            _, producer_id, epoch = end(client, (producer_id, epoch))
            assert write(client, (producer_id, epoch)) == Error.NONE
        broker.kill()
    shutil.copytree(copies, data, dirs_exist_ok=True)
    with QuietBroker(data, SETTINGS) as broker:
        client = broker.connect()
        broker.pass_ms(30_000)
        assert describe(client)["transaction_state"] == "CompleteAbort"
        errors = []
        for _ in range(3):
            error, producer_id, epoch = init(client)
            errors.append(error or write(client, (producer_id, epoch)))
        assert errors == [Error.INVALID_PRODUCER_EPOCH, Error.CONCURRENT_TRANSACTIONS, Error.NONE]


def test_damaged_state_costs_only_what_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        find(client)
        _, producer_id, epoch = init(client)
        write(client, (producer_id, epoch))
        for _ in range(2):
            _, producer_id, epoch = end(client, (producer_id, epoch))
            write(client, (producer_id, epoch))
        end(client, (producer_id, epoch))
        stored = broker.broker.topics.get(TRANSACTIONS_TOPIC)
        assert stored is not None
        (log,) = [partition.log for partition in stored.partitions if partition.log.log_end_offset]
        log.roll(0)
    path = log.directory / file_name(0, LOG)
    content = bytearray(path.read_bytes())
    batches = list(iter_batches(bytes(content)))
    content[batches[3].position + 70] ^= 1
    content[batches[4].position + 8 : batches[4].position + 12] = (1 << 30).to_bytes(4, "big")
    path.write_bytes(content)
    with QuietBroker(tmp_path, SETTINGS) as broker:
        client = broker.connect()
        assert describe(client)["transaction_state"] == "CompleteCommit"
        assert init(client) == (Error.NONE, producer_id, epoch + 2)
    lost = f"bytes {batches[3].position} to {batches[5].position - 1} of {path}, offsets 3 to 4"
    assert any(lost in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("lost", ["marker", "state"])
def test_start_reports_a_transaction_that_does_not_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: str
) -> None:
    """A power failure took the end of the log, or the records of the coordinator."""
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        find(client)
        _, *producer = init(client)
        write(client, (producer[0], producer[1]))
        broker.kill()
    assert not [line for line in restart_lines(tmp_path, caplog) if "does not end" in line]
    with QuietBroker(tmp_path, SETTINGS) as broker:
        if lost == "marker":
            end(broker.connect(), (producer[0], producer[1]))
        broker.kill()
    paths = [tmp_path / "t-0"] if lost == "marker" else tmp_path.glob(f"{TRANSACTIONS_TOPIC}-*")
    for path in paths:
        log = path / file_name(0, LOG)
        batches = list(iter_batches(log.read_bytes()))
        if batches:
            os.truncate(log, batches[-1].position if lost == "marker" else 0)
    (line,) = [line for line in restart_lines(tmp_path, caplog) if "does not end" in line]
    assert line.startswith("t-0 has a transaction of producer 0 that does not end")
    assert line.endswith("abort --topic t --partition 0 --start-offset 0")


def restart_lines(directory: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the broker logs at its next start, before it is killed."""
    caplog.clear()
    with QuietBroker(directory, SETTINGS) as broker:
        broker.kill()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.proves("TX-45")
def test_open_transaction_times_out(tmp_path: Path) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        find(client)
        _, producer_id, epoch = init(client, timeout_ms=5_000)
        add(client, (producer_id, epoch))
        broker.pass_ms(4_500)
        assert describe(client)["transaction_state"] == "Ongoing"
        broker.pass_ms(2_000)
        row = describe(client)
        assert (row["transaction_state"], row["producer_epoch"]) == ("CompleteAbort", 1)
        assert end(client, (producer_id, epoch))[0] == Error.INVALID_TXN_STATE
        assert add(client, (producer_id, epoch)) == Error.PRODUCER_FENCED


@pytest.mark.proves("TX-46")
def test_deleted_topic_does_not_block_the_end(tmp_path: Path) -> None:
    with start(tmp_path) as broker:
        client = broker.connect()
        find(client)
        find(client)
        _, producer_id, epoch = init(client)
        add(client, (producer_id, epoch))
        topic = broker.broker.topics.get("t")
        assert topic is not None
        broker.broker.topics.delete(topic)
        assert end(client, (producer_id, epoch))[0] == Error.NONE
        assert describe(client)["transaction_state"] == "CompleteCommit"


def test_flush_always_answers_after_the_fsync(tmp_path: Path) -> None:
    with start(tmp_path, flush="always") as broker:
        client = broker.connect()
        find(client)
        find(client)
        held = broker.hold_flushes()
        response = client.send_fields("InitProducerId", 5, transactional_id=ID, transaction_timeout_ms=60_000)
        assert response() is None
        held.release()
        received = response()
        assert received is not None
        assert received["error_code"] == Error.NONE


@pytest.mark.proves("TX-42", "TX-54")
def test_another_process_ends_a_transaction(tmp_path: Path) -> None:
    """A sink stores producer id and epoch, and after a crash another process ends the transaction, as in Flink."""
    with start(tmp_path) as broker:
        client = broker.connect("writer")
        find(client)
        find(client)
        _, producer_id, epoch = init(client)
        add(client, (producer_id, epoch))
        client.close()
        broker.kill()
    with QuietBroker(tmp_path, SETTINGS) as broker:
        recovery = broker.connect("recovery")
        assert end(recovery, (producer_id, epoch)) == (Error.NONE, producer_id, epoch + 1)
        assert end(recovery, (producer_id, epoch)) == (Error.NONE, producer_id, epoch + 1)  # it crashed and tries again
        assert end(recovery, (producer_id, epoch), commit=False)[0] == Error.INVALID_TXN_STATE
        assert describe(recovery)["transaction_state"] == "CompleteCommit"
