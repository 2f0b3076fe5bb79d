"""Tests of topics across restarts, and of groups stored in one of them."""

import shutil
from pathlib import Path

import pytest

from slackwater.broker.config import Settings
from slackwater.broker.groups.coordinator_shell import CoordinatorShell
from slackwater.broker.groups.offsets_store import OffsetsTopicStore
from slackwater.broker.storage.directory import PARTITION_METADATA, read_topic_id, write_topic_id
from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.topics import FILE, Topic, Topics
from slackwater.clock import ManualClock
from slackwater.group.coordinator import CoordinatorConfig
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.messages import GroupToFetch, OffsetCommit, OffsetFetch, OffsetFetchResponse, OffsetToCommit

CLOCK = ManualClock()


def _open(directory: Path, settings: dict[str, str] | None = None) -> Topics:
    directory.mkdir(exist_ok=True)
    ids = iter(range(1, 1_000))
    used = len(list(directory.glob("*-0")))
    topics = Topics(
        directory,
        Settings(settings),
        now_ms=CLOCK.now_ms,
        new_id=lambda: (next(ids) + used).to_bytes(16, "big"),
    )
    topics.load()
    return topics


def test_topics_survive_restart(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    created = topics.create("orders", 3, {"retention.ms": "1000"})
    topics.add_partitions(created, 4)
    topics.close()

    again = _open(tmp_path)
    (topic,) = again
    assert (topic.name, topic.topic_id, len(topic.partitions)) == ("orders", created.topic_id, 4)
    assert topic.overrides == {"retention.ms": 1_000}
    assert again.by_id(created.topic_id) is topic
    assert again.partition("orders", 3) is topic.partitions[3]
    assert again.partition("orders", 4) is None
    assert again.partition("none", 0) is None
    again.close()


def test_topic_settings_override_broker_settings(tmp_path: Path) -> None:
    topics = _open(tmp_path, {"log.segment.bytes": "5000", "log.retention.ms": "7"})
    topic = topics.create("t", 1, {"retention.ms": "9"})
    config = topics.config(topic)
    assert isinstance(config, LogConfig)
    assert (config.segment_bytes, config.retention_ms) == (5_000, 9)

    topics.alter(topic, {"segment.bytes": 6_000})
    config = topic.partitions[0].log.config
    assert (config.segment_bytes, config.retention_ms) == (6_000, 7)
    topics.close()


def test_deleted_topic_wakes_waiters_and_removes_files(tmp_path: Path) -> None:
    topics, woken = _open(tmp_path), list[int]()
    topic = topics.create("t", 2)
    topic.partitions[0].waiters[lambda: woken.append(0)] = None
    topics.delete(topic)
    assert woken == [0]
    assert (len(topics), topics.get("t")) == (0, None)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_leftover_of_crash_is_removed(tmp_path: Path) -> None:
    _open(tmp_path).create("t", 1)
    (tmp_path / "half-0").mkdir()
    again = _open(tmp_path)
    assert not (tmp_path / "half-0").exists()
    assert [topic.name for topic in again] == ["t"]
    again.close()


def test_partition_metadata_is_written_at_creation(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    topic = topics.create("t", 2)
    topics.add_partitions(topic, 3)
    assert [read_topic_id(tmp_path / f"t-{index}") for index in range(3)] == [topic.topic_id] * 3
    topics.close()


def test_missing_partition_metadata_is_written_at_load(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    topic = topics.create("t", 1)
    topics.close()
    (tmp_path / "t-0" / PARTITION_METADATA).unlink()
    _open(tmp_path).close()
    assert read_topic_id(tmp_path / "t-0") == topic.topic_id


def test_topic_ids_survive_a_copied_directory(tmp_path: Path) -> None:
    topics = _open(tmp_path / "data")
    topic = topics.create("t", 1)
    topics.close()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    copied = _open(tmp_path / "copy")
    assert copied.by_id(topic.topic_id) is copied.get("t")
    assert read_topic_id(tmp_path / "copy" / "t-0") == topic.topic_id
    copied.close()


def test_directory_of_another_topic_is_rejected(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    topics.create("t", 1)
    topics.close()
    write_topic_id(tmp_path / "t-0", bytes(15) + b"\xff")
    with pytest.raises(UsageError, match="the directory is from another topic"):
        _open(tmp_path)
    assert (tmp_path / "t-0").exists()


def test_leftover_of_failed_deletion_is_not_reused(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    (tmp_path / "t-0").mkdir()
    write_topic_id(tmp_path / "t-0", bytes(15) + b"\xff")
    topic = topics.create("t", 1)
    assert read_topic_id(tmp_path / "t-0") == topic.topic_id
    topics.close()


@pytest.mark.parametrize(
    ("name", "partitions", "settings", "error"),
    [
        ("", 1, {}, Error.INVALID_TOPIC_EXCEPTION),
        ("..", 1, {}, Error.INVALID_TOPIC_EXCEPTION),
        ("a b", 1, {}, Error.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, 1, {}, Error.INVALID_TOPIC_EXCEPTION),
        ("t", 1, {}, Error.TOPIC_ALREADY_EXISTS),
        ("u", 0, {}, Error.INVALID_PARTITIONS),
        ("u", 1, {"retention": "1"}, Error.INVALID_CONFIG),
    ],
)
def test_invalid_topic_is_rejected(
    tmp_path: Path, name: str, partitions: int, settings: dict[str, str], error: Error
) -> None:
    topics = _open(tmp_path)
    topics.create("t", 1)
    with pytest.raises(BrokerError) as raised:
        topics.create(name, partitions, settings)
    assert raised.value.error is error
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["t-0", FILE]
    topics.close()


def test_committed_offsets_survive_restart(tmp_path: Path) -> None:
    def groups(topics: Topics) -> CoordinatorShell:
        def create() -> Topic:
            return topics.create(OFFSETS_TOPIC, 3, {"cleanup.policy": "compact"})

        durability = Durability(always=False, in_thread=lambda _work, _done: None)
        shell = CoordinatorShell(
            CoordinatorConfig(offsets_topic_num_partitions=3),
            OffsetsTopicStore(topics, durability, create=create, now_ms=CLOCK.now_ms),
            now_ms=CLOCK.now_ms,
            wake_at=lambda _due_ms: None,
            emit=lambda _events: None,
            schedule_flush=lambda: None,
        )
        shell.load()
        return shell

    topics = _open(tmp_path)
    before = groups(topics)
    for group_id in ("a", "b", "c", "d"):
        commit = OffsetCommit(group_id, "", None, -1, (OffsetToCommit("t", 0, 7),))
        before.submit(commit, lambda _response: None)
    before.flush_pending()
    topics.close()

    topics, responses = _open(tmp_path), list[OffsetFetchResponse]()
    after = groups(topics)
    after.submit(OffsetFetch(tuple(GroupToFetch(group_id, None) for group_id in "abcd")), responses.append)
    assert [[offset.offset for offset in group.offsets] for group in responses[0].groups] == [[7]] * 4
    assert topics.get(OFFSETS_TOPIC) is not None
    assert topics.get(OFFSETS_TOPIC).is_internal  # type: ignore[union-attr]
    topics.close()


def test_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    (tmp_path / "t-2").write_text("in the way")
    with pytest.raises(FileExistsError):
        topics.create("t", 3)
    assert topics.get("t") is None
    assert not list(tmp_path.glob("t-[01]"))

    topic = topics.create("t", 2)
    with pytest.raises(FileExistsError):
        topics.add_partitions(topic, 3)
    assert len(topic.partitions) == 2
    (tmp_path / "t-2").unlink()
    topics.add_partitions(topic, 3)
    assert len(topic.partitions) == 3
    topics.close()


def test_invalid_topics_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('[{"name": "t"}]')
    with pytest.raises(UsageError, match=r"Cannot parse the list of topics in .*topics\.json"):
        _open(tmp_path)


def test_unusable_log_settings_prevent_start(tmp_path: Path) -> None:
    settings = {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "2"}
    with pytest.raises(UsageError, match=r"min\.compaction\.lag\.ms = 5 is above"):
        _open(tmp_path, settings)
