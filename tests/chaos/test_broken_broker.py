"""An episode reports what a broken broker does: it loses records, commits or transactions, leaves transactions open,
stalls, drops sessions, writes tracebacks.

The faults are made behind the back of the episode, so that it does not expect them.
"""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from slackwater.wire.records.record import Record, encode_batch
from tests.broker.raw_client import PRODUCE_V, RawClient
from tests.chaos.episode import Episode
from tests.chaos.faults.damage import stored_batches
from tests.chaos.load import BYSTANDER_PARTITION, PLAIN, group_name
from tests.chaos.oracles import Violation
from tests.chaos.oracles.heartbeats import TARGET_MULTIPLE, TARGET_S
from tests.chaos.run import ChaosRun
from tests.chaos.summary import Counts
from tests.chaos.transactions import TOPIC


@pytest.fixture
def episode(tmp_path: Path) -> Iterator[Episode]:
    running = Episode(tmp_path, random.Random(1), None, Counts())
    yield running
    running.close()


def last_log(episode: Episode, partition: str) -> Path:
    return max(path for path in (episode.data / partition).iterdir() if path.suffix == ".log" and path.stat().st_size)


def cut_last_batch(path: Path) -> None:
    """Cut exactly at a batch boundary, which looks like a log without its last batch."""
    content = path.read_bytes()
    *_, last = stored_batches(content)
    path.write_bytes(content[: last.position])


def test_unreported_loss_of_a_record_is_detected(episode: Episode) -> None:
    assert episode.check() == []
    episode.pause()
    episode.kill()
    cut_last_batch(last_log(episode, f"{PLAIN}-0"))
    episode.start()
    first, *_ = episode.check()
    assert first.startswith(f"{PLAIN}-0: number ")
    assert first.endswith("but there is nothing")


def test_unreported_loss_of_a_commit_is_detected(episode: Episode) -> None:
    assert episode.check() == []
    episode.pause()
    episode.kill()
    for _ in range(4):  # there are two groups in the partition
        cut_last_batch(last_log(episode, f"{OFFSETS_TOPIC}-1"))
    episode.start()
    assert any("was acknowledged, but" in violation for violation in episode.check())


def test_lost_transactions_are_detected(episode: Episode) -> None:
    while episode.load.transactions < 12:
        episode.load.wait_for_progress(60)
    episode.pause()
    episode.kill()
    for _ in range(20):  # batches and markers
        cut_last_batch(last_log(episode, f"{TOPIC}-0"))
    episode.start()
    assert any("is visible in part: [0, " in violation for violation in episode.check())


def test_hanging_transaction_is_detected(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.transactions.END_S", 0.5)

    async def begin(client: RawClient) -> None:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["other"])
        await client.request(find, FindCoordinatorResponse, 4)
        producer = await client.request(InitProducerIdRequest("other", 60_000), InitProducerIdResponse)
        batch = encode_batch(
            [Record(None, b"0", timestamp=episode.wall_ms())],
            transactional=True,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
        )
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(1, bytes(batch))])
        request = ProduceRequest("other", acks=-1, timeout_ms=30_000, topic_data=[data])
        produced = await client.request(request, ProduceResponse, PRODUCE_V)
        assert produced.responses[0].partition_responses[0].error_code == 0

    assert episode.check() == []
    episode.run(begin)
    with pytest.raises(Violation, match=f"{TOPIC}-1: a transaction at offset [0-9]+ is open"):
        episode.check()


def test_stall_is_detected(episode: Episode) -> None:
    episode.broker.send_signal(signal.SIGSTOP)
    time.sleep(2 * TARGET_S * TARGET_MULTIPLE)
    episode.broker.send_signal(signal.SIGCONT)
    assert any("a heartbeat of" in violation for violation in episode.check())


def test_lost_session_is_detected(episode: Episode) -> None:
    group = group_name("busy", BYSTANDER_PARTITION)

    async def remove_member(client: RawClient) -> None:
        described = await client.request(DescribeGroupsRequest([group]), DescribeGroupsResponse)
        (member,) = described.groups[0].members
        left = await client.request(LeaveGroupRequest(group, member.member_id), LeaveGroupResponse, 2)
        assert left.error_code == 0

    episode.run(remove_member)
    assert f"a member of {group} lost its session: UNKNOWN_MEMBER_ID" in episode.check()


def test_broker_that_hangs_is_detected(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.episode.check_answers.__defaults__", (0.5,))
    episode.broker.send_signal(signal.SIGSTOP)
    with pytest.raises(Violation, match="no response to a Metadata request within"):
        episode.check()


def test_a_few_random_faults_pass(tmp_path: Path) -> None:
    """Many more: make chaos."""
    only = ("process.kill", "disk.file_size", "damage.index", "network.bytewise", "requests.versions")
    summary = ChaosRun(seed=1, only=only).run(seconds=120, max_faults=4)
    assert summary.violations == []
    assert summary.faults.total() == 4
    assert summary.counts.records > 100
    assert summary.counts.heartbeats.count > 10
    assert "total" in "\n".join(summary.lines())
