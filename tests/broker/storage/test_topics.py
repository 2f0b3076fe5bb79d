"""Tests of topics across restarts, and of groups stored in one of them."""

import json
import shutil
from pathlib import Path

import pytest

from slackwater.broker.config import Settings
from slackwater.broker.groups.coordinator_shell import CoordinatorShell
from slackwater.broker.groups.offsets_store import OffsetsTopicStore
from slackwater.broker.slices import run_to_completion
from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.partition_directory import (
    PARTITION_METADATA,
    Unfinished,
    read_topic_id,
    unfinished_name,
    write_topic_id,
)
from slackwater.broker.storage.topics import FILE, Topic, Topics
from slackwater.clock import ManualClock
from slackwater.group.coordinator import CoordinatorConfig
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.messages import GroupToFetch, OffsetCommit, OffsetFetch, OffsetFetchResponse, OffsetToCommit

from .log.batches import NOW_MS, batch

CLOCK = ManualClock()


def _open(directory: Path, settings: dict[str, str] | None = None) -> Topics:
    directory.mkdir(exist_ok=True)
    ids = iter(range(1, 1_000))
    used = len(list(directory.glob("*-0")))
    topics = Topics(
        directory,
        Settings(settings),
        wall_ms=CLOCK.now_ms,
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


def test_foreign_directories_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _open(tmp_path).create("t", 1)
    names = ["photos-2024", "thesis-1", "backup-delete", "t-0.0123-delete", f"t-0.{'0' * 32}-delete"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    again = _open(tmp_path)
    assert [topic.name for topic in again] == ["t"]
    assert all((tmp_path / name / "file").exists() for name in names)
    assert "photos-2024: it belongs to no topic of this broker" in caplog.text
    with pytest.raises(BrokerError, match="The data directory contains 'thesis-1'") as raised:
        again.create("thesis", 2)
    assert raised.value.error is Error.INVALID_TOPIC_EXCEPTION
    with pytest.raises(BrokerError, match="The data directory contains 'photos-2024'"):
        again.add_partitions(again.create("photos", 2), 3_000)
    assert (tmp_path / "photos-2024" / "file").exists()
    again.close()


@pytest.mark.parametrize("content", [None, "", "[]"], ids=["missing", "empty", "no-topics"])
def test_lost_topics_file_is_restored(tmp_path: Path, content: str | None, caplog: pytest.LogCaptureFixture) -> None:
    topics = _open(tmp_path)
    created = [topics.create("a-1", 11, {"retention.ms": "1000"}), topics.create("b", 1)]
    assert isinstance(created[0].partitions[10].log.append(batch(), NOW_MS), AppendInfo)
    topics.close()
    (tmp_path / FILE).unlink()
    if content is not None:
        (tmp_path / FILE).write_text(content)
    for _ in range(2):
        again = _open(tmp_path)
        assert [(topic.name, topic.topic_id, len(topic.partitions)) for topic in again] == [
            ("a-1", created[0].topic_id, 11),
            ("b", created[1].topic_id, 1),
        ]
        assert again.by_id(created[0].topic_id) is again.get("a-1")
        # The broker's default retention must not delete the records of a topic whose settings are lost.
        assert [topic.overrides["retention.ms"] for topic in again] == [-1, -1]
        assert again.partition("a-1", 10).log.log_end_offset == 1  # type: ignore[union-attr]
        again.close()
    assert caplog.text.count("Restored topic a-1 with 11 partitions, which is missing in topics.json.") == 1


def test_lost_row_of_topics_file_is_restored(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    topic = topics.create("a", 1)
    saved = (tmp_path / FILE).read_text()
    topics.add_partitions(topic, 3)
    other = topics.create("b", 2)
    topics.close()
    (tmp_path / FILE).write_text(saved)
    again = _open(tmp_path)
    assert {each.name: (each.topic_id, len(each.partitions)) for each in again} == {
        "a": (topic.topic_id, 3),
        "b": (other.topic_id, 2),
    }
    again.close()


def test_missing_partition_directory_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topics = _open(tmp_path)
    topics.create("t", 2)
    topics.close()
    shutil.rmtree(tmp_path / "t-1")
    _open(tmp_path).close()
    assert "t-1 is missing. Its records are lost; it starts empty." in caplog.text


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

        durability = Durability(always=False, in_thread=lambda _work, _done: None, call_later=lambda _s, _call: None)
        shell = CoordinatorShell(
            CoordinatorConfig(offsets_topic_num_partitions=3),
            OffsetsTopicStore(topics, durability, create=create, wall_ms=CLOCK.now_ms),
            now_ms=CLOCK.now_ms,
            wake_at=lambda _due_ms: None,
            emit=lambda _events: None,
            schedule_end_of_iteration=lambda: None,
        )
        shell.load()
        return shell

    topics = _open(tmp_path)
    before = groups(topics)
    for group_id in ("a", "b", "c", "d"):
        commit = OffsetCommit(group_id, "", None, -1, (OffsetToCommit("t", 0, 7),))
        before.submit(commit, lambda _response: None)
    before.write_pending()
    topics.close()

    topics, responses = _open(tmp_path), list[OffsetFetchResponse]()
    after = groups(topics)
    after.submit(OffsetFetch(tuple(GroupToFetch(group_id, None) for group_id in "abcd")), responses.append)
    assert [[offset.offset for offset in group.offsets] for group in responses[0].groups] == [[7]] * 4
    assert topics.get(OFFSETS_TOPIC) is not None
    assert topics.get(OFFSETS_TOPIC).is_internal  # type: ignore[union-attr]
    topics.close()


def test_interrupted_creation_leaves_nothing(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    creation = topics.create_in_slices("orders", 3)
    next(creation)
    assert topics.is_being_created("orders")
    assert topics.get("orders") is None
    creation.close()  # the broker stops
    assert not list(tmp_path.glob("orders-*"))
    assert len(topics.create("orders", 2).partitions) == 2


def test_new_partitions_appear_at_once(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    orders = topics.create("orders", 1)
    growth = topics.add_partitions_in_slices(orders, 4)
    next(growth)
    assert len(orders.partitions) == 1
    with pytest.raises(BrokerError, match="Another request is adding partitions"):
        topics.add_partitions(orders, 3)
    topics.alter(orders, topics.check_settings({"segment.bytes": "1048576"}))
    run_to_completion(growth)
    assert [partition.index for partition in orders.partitions] == [0, 1, 2, 3]
    assert {partition.log.config.segment_bytes for partition in orders.partitions} == {1_048_576}
    assert {path.name for path in tmp_path.glob("orders-*")} == {f"orders-{index}" for index in range(4)}


def test_topic_deleted_while_it_grows(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    orders = topics.create("orders", 1)
    growth = topics.add_partitions_in_slices(orders, 4)
    next(growth)
    topics.delete(orders)
    with pytest.raises(BrokerError, match="was deleted"):
        run_to_completion(growth)
    assert not list(tmp_path.glob("orders-*"))


def test_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    topics = _open(tmp_path)
    blocked = tmp_path / unfinished_name("t", 2, (1).to_bytes(16, "big"), Unfinished.CREATION)
    blocked.write_text("in the way")
    with pytest.raises(FileExistsError):
        topics.create("t", 3)
    assert topics.get("t") is None
    assert list(tmp_path.iterdir()) == [blocked]
    blocked.unlink()

    topic = topics.create("t", 2)
    blocked = tmp_path / unfinished_name("t", 2, topic.topic_id, Unfinished.CREATION)
    blocked.write_text("in the way")
    with pytest.raises(FileExistsError):
        topics.add_partitions(topic, 3)
    assert len(topic.partitions) == 2
    blocked.unlink()
    topics.add_partitions(topic, 3)
    assert len(topic.partitions) == 3
    topics.close()


def test_failed_deletion_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = _open(tmp_path)
    topic = topics.create("t", 2)
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as full:
        full.setattr("slackwater.broker.storage.topics.replace_file", _raise_no_space)
        with pytest.raises(OSError, match="No space"):
            topics.delete(topic)
    assert topics.get("t") is topic
    assert sorted(tmp_path.iterdir()) == before
    assert isinstance(topic.partitions[1].log.append(batch(), NOW_MS), AppendInfo)
    topics.delete(topic)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def _raise_no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "row",
    [
        {"name": "t"},
        {"name": "../t", "topic_id": "00" * 16, "partitions": 1, "settings": {}},
        {"name": "t", "topic_id": "00", "partitions": 1, "settings": {}},
        {"name": "t", "topic_id": "00" * 16, "partitions": 1_000_000_000, "settings": {}},
        {"name": "t", "topic_id": "00" * 16, "partitions": 0, "settings": {}},
    ],
)
def test_invalid_topics_file(tmp_path: Path, row: dict[str, object]) -> None:
    (tmp_path / FILE).write_text(json.dumps([row]))
    with pytest.raises(UsageError, match=r"Cannot parse the list of topics in .*topics\.json"):
        _open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_unusable_log_settings_prevent_start(tmp_path: Path) -> None:
    settings = {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "2"}
    with pytest.raises(UsageError, match=r"min\.compaction\.lag\.ms = 5 is above"):
        _open(tmp_path, settings)
