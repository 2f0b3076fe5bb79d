"""Files of every shape, read into the event table."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from slackwater.doctor.events.table import COLUMNS, DETAIL, EVIDENCE
from slackwater.group.assignors.consumer_protocol import Assignment, encode_assignment
from slackwater.group.errors import UsageError
from slackwater.group.events import EventKind, EventSource, GenerationFormed, GroupEvent, PartitionsChanged
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.internal_topics.consumer_offsets import (
    GroupKey,
    GroupValue,
    MemberMetadata,
    OffsetKey,
    OffsetValue,
    encode_group_value,
    encode_key,
    encode_offset_value,
)
from tests.doctor.lines import M, N, consumer, java, rdkafka, scala

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

POLL = "consumer poll timeout has expired."
STABILIZED = java("Stabilized group g generation 5 with 2 members.")


PREPARING = "Preparing to rebalance group g in state PreparingRebalance with old generation 4"
START = 1_777_629_600_000
"""2026-05-01 10:00:00 UTC."""
SETTINGS = "[2026-05-01 10:00:00,123] INFO ConsumerConfig values: \n\tclient.id = app-1\n\tgroup.id = g\n\tacks = all\n"
OVERRUN = rdkafka("MAXPOLL", "Application maximum poll interval (5000ms) exceeded by 250ms (adjust): leaving group", 4)


class Read(NamedTuple):
    """All scenes, read in one run; the directory of each is a cluster."""

    events: "DataFrame"
    rows: "dict[str, list[Row]]"
    unrecognized: "dict[str, Row]"


@pytest.fixture(scope="module")
def read(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Read]":
    from slackwater.spark.doctor.history.event_history import EventHistory, HistorySource

    root = tmp_path_factory.mktemp("scenes")
    for path, content in _scenes().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    zones = {"/berlin/": "Europe/Berlin", "/tokyo/": "Asia/Tokyo"}
    with EventHistory(spark, HistorySource([str(root)], clusters_dir=str(root), zones=zones)) as history:
        rows: dict[str, list[Row]] = {}
        for row in history.events.orderBy("file", "position").collect():
            rows.setdefault(row.cluster, []).append(row)
        yield Read(history.events, rows, {row.cluster: row for row in history.unrecognized.collect()})


def _scenes() -> dict[str, str | bytes]:
    docker = {"log": STABILIZED + "\n", "stream": "stdout", "time": "2026-05-01T10:00:00.2Z"}
    shipped = {"@timestamp": "2026-05-01T10:00:00.2Z", "log": {"level": "INFO"}, "message": STABILIZED}
    reasons = [
        scala(f"{PREPARING} (__consumer_offsets-3) (reason: Adding new member {M} with group instance id Some(i))"),
        scala(f"{PREPARING} (reason: Removing member {M} on LeaveGroup; client reason: {POLL})"),
        java(f"{PREPARING} (reason: explicit `LeaveGroup` request for ({M}, {N}) members.)."),
        java(f"Group g removed dynamic members who haven't joined: [{M}, {N}]"),
    ]
    expired = java(f"Member {M} in group g has failed, removing it from the group.")
    return {
        "shapes/server.log": STABILIZED + "\n",
        "shapes/server.log.2026-05-01-10": STABILIZED + "\r\n",
        "shapes/deep/server.log.1.gz": gzip.compress(STABILIZED.encode()),
        "shapes/deep/er/docker.log": json.dumps(docker) + "\n" + json.dumps(shipped) + "\n",
        "settings/app.log": json.dumps({"message": SETTINGS}) + "\n" + SETTINGS + consumer("(Re-)joining group"),
        "reasons/server.log": "\n".join(reasons),
        "one-group/app.log": OVERRUN,
        "one-group/server.log": expired,
        "two-groups/app.log": OVERRUN,
        "two-groups/server.log": expired + "\n" + expired.replace("group g ", "group other "),
        "berlin/server.log": STABILIZED,
        "tokyo/server.log": STABILIZED,
        "to-come/server.log": "\n".join(java(f"Words of a version to come, {n}") for n in range(9)),
        "offsets/dump.jsonl": "".join(_dump(number, *record) for number, record in enumerate(_records())),
        "own/events.jsonl": "\n".join(event.to_json() for event in _own_events()),
        "nothing/empty.log": "",
        "nothing/binary.log": bytes(range(256)) * 100,
        "nothing/other.log": "Apr 1 host sshd: hello\n{not json\n",
    }


def _records() -> list[tuple[int, bytes, bytes | None]]:
    partitions = tuple(TopicPartition("t", number) for number in range(2))
    owned = encode_assignment(Assignment(partitions, None))
    member = MemberMetadata(M, "i", "app-1", "/10.0.0.1", 300_000, 6000, b"", owned)
    key = encode_key(GroupKey("g"))
    start = START
    commits = [
        (start + after, encode_key(OffsetKey("g", "t", 0)), encode_offset_value(OffsetValue(offset, 0, "", start)))
        for after, offset in ((0, 100), (5000, 130), (60_000, 150))
    ]
    return [
        (start, key, encode_group_value(GroupValue("consumer", 3, "range", M, start, (member,)))),
        (start + 1, key, encode_group_value(GroupValue("consumer", 7, None, None, start, ()))),
        *commits,
    ]


def _dump(offset: int, timestamp: int, key: bytes, value: bytes | None) -> str:
    text = None if value is None else base64.b64encode(value).decode()
    record = {"partition": 3, "offset": offset, "timestamp": timestamp, "key": base64.b64encode(key).decode()}
    return json.dumps({**record, "value": text}) + "\n"


def _own_events() -> list[GroupEvent]:
    return [
        GroupEvent(
            time_ms=1,
            group="g",
            kind=EventKind.GENERATION_FORMED,
            generation=5,
            members=2,
            detail=GenerationFormed(leader=M, protocol="range", static_members=1, join_phase_ms=30),
            source=EventSource.COORDINATOR,
        ),
        GroupEvent(
            time_ms=2,
            group="g",
            kind=EventKind.PARTITIONS_REVOKED,
            client="app-1",
            detail=PartitionsChanged((TopicPartition("t", 0),), callback_ms=7),
            source=EventSource.MEMBER,
        ),
    ]


def test_event_table_has_its_columns(read: Read) -> None:
    assert read.events.columns == [*COLUMNS, "detail", *EVIDENCE]
    detail = ",".join(f"{name}:{kind}" for name, kind in DETAIL.items())
    assert read.events.schema["detail"].dataType.simpleString() == f"struct<{detail}>"


def test_plain_gzip_wrapped_and_rotated_files_are_read(read: Read) -> None:
    rows = read.rows["shapes"]
    assert len(rows) == 5
    assert {(row.kind, row["group"], row.generation, row.members, row.time_ms) for row in rows} == {
        ("generation_formed", "g", 5, 2, START + 123)
    }


def test_wrapped_message_of_several_lines_is_split(read: Read) -> None:
    events = [(row.kind, row.client, row["group"], row.detail.setting, row.time_ms) for row in read.rows["settings"]]
    expected = [
        ("client_started", "app-1", "g", None, START + 123),
        ("client_setting", "app-1", "g", "client.id", START + 123),
        ("client_setting", "app-1", "g", "group.id", START + 123),
    ]
    assert sorted(events, key=str) == sorted(expected + expected, key=str)


def test_line_number_of_a_file_that_several_tasks_read(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.history.reading import find_evidence_text_lines, raw_lines

    (tmp_path / "server.log").write_text("".join(f"line {number}\n" for number in range(1, 5001)))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4000")
    try:
        lines = raw_lines(spark, [str(tmp_path)])
        assert [row.text for row in lines.orderBy("position").collect()] == [f"line {n}" for n in range(1, 5001)]
        some = lines.filter("text RLIKE ' (1|2777|5000)$'").collect()
        shown = {(row.file, row.position): row.text for row in some}
        numbers = find_evidence_text_lines(raw_lines(spark, [str(tmp_path)]), shown)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    assert {text: tuple(numbers[place]) for place, text in shown.items()} == {
        "line 1": (1, "line 1"),
        "line 2777": (2777, "line 2777"),
        "line 5000": (5000, "line 5000"),
    }


def test_line_number_where_one_task_reads_several_files(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.history.reading import find_evidence_lines, raw_lines

    for name, count in (("a", 300), ("b", 200), ("c", 100)):
        lines = "".join(f"{name} {number}\n" for number in range(1, count + 1))
        (tmp_path / f"{name}.log.gz").write_bytes(gzip.compress(lines.encode()))
    paths = [str(tmp_path)]
    shown = {(row.file, row.position): row.text for row in raw_lines(spark, paths).filter("text = 'c 42'").collect()}
    assert list(find_evidence_lines(spark, paths, shown).values()) == [(42, "c 42")]


def test_lines_of_compressed_and_plain_files_are_shown(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.history.event_history import EventHistory, HistorySource
    from slackwater.spark.doctor.history.reading import find_evidence_lines

    messages = [java(f"Stabilized group g generation {number} with 2 members.") for number in range(1, 4)]
    log = ("\n".join(["unrelated", *messages[:2], "more", messages[2]]) + "\n").encode()
    (tmp_path / "server.log").write_bytes(log)
    (tmp_path / "server.log.1.gz").write_bytes(gzip.compress(log))
    with EventHistory(spark, HistorySource([str(tmp_path)])) as history:
        places = {(row.file, row.position): row.generation for row in history.events.collect()}
    shown_lines = [
        (place[0][-3:], shown) for place, shown in find_evidence_lines(spark, [str(tmp_path)], places).items()
    ]
    lines = [(2, messages[0]), (3, messages[1]), (5, messages[2])]
    assert sorted(shown_lines) == [*((".gz", line) for line in lines), *(("log", line) for line in lines)]


def test_reason_gives_trigger_and_members(read: Read) -> None:
    assert [(row.kind, row.trigger, row.member, row.instance) for row in read.rows["reasons"]] == [
        ("rebalance_started", "member_join", M, "i"),
        ("rebalance_started", "poll_timeout", M, None),
        ("rebalance_started", "member_leave", M, None),
        ("member_dropped", "rebalance_timeout", M, None),
        ("member_dropped", "rebalance_timeout", N, None),
    ]


def test_client_line_gets_the_only_possible_group(read: Read) -> None:
    groups = {
        name: {row["group"] for row in read.rows[name] if row.kind == "poll_overrun"}
        for name in ("one-group", "two-groups")
    }
    assert groups == {"one-group": {"g"}, "two-groups": {None}}


def test_time_zone_depends_on_the_file(read: Read) -> None:
    (berlin,), (tokyo,) = read.rows["berlin"], read.rows["tokyo"]
    assert (berlin.time_ms, tokyo.time_ms) == (START + 123 - 2 * 3_600_000, START + 123 - 9 * 3_600_000)


def test_unrecognized_lines_are_counted_and_shown(read: Read) -> None:
    row = read.unrecognized["to-come"]
    assert (row.lines, len(row.examples)) == (9, 5)
    assert "to come, 0" in row.examples[0]
    assert set(read.unrecognized) == {"to-come"}
    assert "to-come" not in read.rows


def test_offsets_records_become_generations_and_progress(read: Read) -> None:
    rows = read.rows["offsets"]
    by_kind = {kind: [row for row in rows if row.kind == kind] for kind in {row.kind for row in rows}}
    generations = sorted(by_kind["generation_recorded"], key=lambda row: int(row.generation))
    assert [(row.generation, row.detail.gap, row.members) for row in generations] == [(3, None, 1), (7, 3, 0)]
    assert generations[0].detail.assignment[0].asDict(recursive=True) == {"member": M, "partitions": ["t-0", "t-1"]}
    (member,) = by_kind["member_recorded"]
    assert (member.member, member.client, member.instance, member.detail.session_timeout_ms) == (M, "app-1", "i", 6000)
    progress = sorted(by_kind["progress"], key=lambda row: int(row.time_ms))
    assert [(row.detail.commits, row.detail.offsets_advanced, row.detail["count"]) for row in progress] == [
        (2, 30, 1),
        (1, 20, 1),
    ]
    assert {row.source for row in rows} == {"offsets_topic"}


def test_group_events_become_rows(read: Read) -> None:
    formed, revoked = read.rows["own"]
    assert (formed.kind, formed.source, formed.members, formed.generation) == ("generation_formed", "coordinator", 2, 5)
    assert (formed.detail.leader, formed.detail.static_members, formed.detail.join_phase_ms) == (M, 1, 30)
    assert (revoked.client, revoked.detail.partitions, revoked.detail.callback_ms) == ("app-1", ["t-0"], 7)


def test_files_without_kafka_lines_have_no_events(read: Read) -> None:
    assert "nothing" not in read.rows


def test_groups_are_filled_in_without_a_cluster_name(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.history.event_history import EventHistory, HistorySource

    (tmp_path / "app.log").write_text(OVERRUN)
    (tmp_path / "server.log").write_text(java(f"Member {M} in group g has failed, removing it from the group."))
    with EventHistory(spark, HistorySource([str(tmp_path)])) as history:
        groups = {(row.cluster, row.kind, row["group"]) for row in history.events.collect()}
    assert groups == {(None, "poll_overrun", "g"), (None, "member_expired", "g")}


def test_missing_path_is_a_usage_error(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.history.event_history import EventHistory, HistorySource

    with pytest.raises(UsageError, match=r"No such file or directory: .*nowhere\. Pass a file"):
        EventHistory(spark, HistorySource([str(tmp_path / "nowhere")]))
    with pytest.raises(UsageError, match="No path was given"):
        EventHistory(spark, HistorySource([]))
