"""Files of every shape, read into the one event table."""

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slackwater.doctor.event_table import COLUMNS, DETAIL, EVIDENCE
from slackwater.doctor.templates import FAMILIES
from slackwater.doctor.wording import Recogniser
from slackwater.group.assignors.consumer_protocol import Assignment, encode_assignment
from slackwater.group.errors import UsageError
from slackwater.group.events import Formed, GroupEvent, Kind, Partitions, Source
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.offsets_topic import (
    GroupKey,
    GroupMember,
    GroupValue,
    OffsetKey,
    OffsetValue,
    encode_group_value,
    encode_key,
    encode_offset_value,
)
from tests.doctor.lines import LINES, M, N, consumer, java, rdkafka, scala

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from slackwater.spark.history import History

POLL = "consumer poll timeout has expired."
STABILIZED = java("Stabilized group g generation 5 with 2 members.")


@contextmanager
def reading(spark: "SparkSession", *paths: Path, **how: Any) -> "Iterator[History]":
    from slackwater.spark.history import read_history

    with read_history(spark, [str(path) for path in paths], **how) as history:
        yield history


def rows(history: "History") -> "list[Row]":
    return list(history.events.orderBy("cluster", "file", "position").collect())


def test_spark_and_plain_python_find_the_same_in_every_line(spark: "SparkSession", tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    from slackwater.spark.history.lines import unwrapped
    from slackwater.spark.history.reading import raw_lines
    from slackwater.spark.history.recognise import recognised

    (tmp_path / "all.log").write_text("\n".join(line for line, _ in LINES) + "\nnothing\n")
    said = recognised(unwrapped(raw_lines(spark, [str(tmp_path)]))).select("text", F.to_json("said").alias("said"))
    found = {row.text: {slot: str(value) for slot, value in json.loads(row.said).items()} for row in said.collect()}
    expected = {line: Recogniser(FAMILIES).read(line) for line, _ in LINES}
    assert {text: {**one, "pending": "true"} if one.get("pending") else one for text, one in found.items()} == expected


def test_the_table_has_its_columns(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(STABILIZED)
    with reading(spark, tmp_path) as history:
        assert history.events.columns == [*COLUMNS, "detail", *EVIDENCE]
        assert history.events.schema["detail"].dataType.simpleString() == (
            "struct<" + ",".join(f"{name}:{kind}" for name, kind in DETAIL.items()) + ">"
        )


def test_plain_gzip_wrapped_and_rotated_files_tell_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "server.log").write_text(STABILIZED + "\n")
    (tmp_path / "server.log.2026-05-01-10").write_text(STABILIZED + "\r\n")
    (tmp_path / "deep" / "server.log.1.gz").write_bytes(gzip.compress(STABILIZED.encode()))
    docker = {"log": STABILIZED + "\n", "stream": "stdout", "time": "2026-05-01T10:00:00.2Z"}
    shipped = {"@timestamp": "2026-05-01T10:00:00.2Z", "log": {"level": "INFO"}, "message": STABILIZED}
    (tmp_path / "deep" / "er" / "docker.log").write_text(json.dumps(docker) + "\n" + json.dumps(shipped) + "\n")
    with reading(spark, tmp_path) as history:
        found = rows(history)
    assert len(found) == 5
    assert {(row.kind, row["group"], row.generation, row.members, row.time_ms) for row in found} == {
        ("generation_formed", "g", 5, 2, 1_777_629_600_123)
    }


def test_a_wrapped_message_of_several_lines_is_taken_apart(spark: "SparkSession", tmp_path: Path) -> None:
    block = (
        "[2026-05-01 10:00:00,123] INFO ConsumerConfig values: \n\tclient.id = app-1\n\tgroup.id = g\n\tacks = all\n"
    )
    (tmp_path / "app.log").write_text(json.dumps({"message": block}) + "\n" + block + consumer("(Re-)joining group"))
    with reading(spark, tmp_path) as history:
        found = [(row.kind, row.client, row["group"], row.detail.setting, row.time_ms) for row in rows(history)]
    start = 1_777_629_600_123
    one = [
        ("client_started", "app-1", "g", None, start),
        ("client_setting", "app-1", "g", "client.id", start),
        ("client_setting", "app-1", "g", "group.id", start),
    ]
    assert sorted(found, key=str) == sorted(one + one, key=str)


def test_events_stand_in_the_order_of_their_lines_and_their_numbers_are_found(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from slackwater.spark.history.reading import line_numbers

    noise = "[2026-05-01 10:00:00,123] INFO nothing of interest (kafka.log)\n"
    texts = [java(f"Stabilized group g generation {number} with 2 members.") + "\n" for number in range(400)]
    (tmp_path / "server.log").write_text("".join(noise * 3 + text for text in texts))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        with reading(spark, tmp_path) as history:
            assert [row.generation for row in rows(history)] == list(range(400))
            shown = history.events.filter("generation IN (0, 77, 399)").select("file", "position", "generation")
            numbers = {row.generation: row.line for row in line_numbers(spark, shown).collect()}
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    assert numbers == {0: 4, 77: 312, 399: 1600}


def test_a_reason_gives_trigger_and_culprit_and_several_that_went_are_several_events(
    spark: "SparkSession", tmp_path: Path
) -> None:
    preparing = "Preparing to rebalance group g in state PreparingRebalance with old generation 4"
    lines = [
        scala(f"{preparing} (__consumer_offsets-3) (reason: Adding new member {M} with group instance id Some(i))"),
        scala(f"{preparing} (reason: Removing member {M} on LeaveGroup; client reason: {POLL})"),
        java(f"{preparing} (reason: explicit `LeaveGroup` request for ({M}, {N}) members.)."),
        java(f"Group g removed dynamic members who haven't joined: [{M}, {N}]"),
    ]
    (tmp_path / "server.log").write_text("\n".join(lines))
    with reading(spark, tmp_path) as history:
        found = [(row.kind, row.trigger, row.member, row.instance) for row in rows(history)]
    assert found == [
        ("rebalance_started", "member_join", M, "i"),
        ("rebalance_started", "poll_timeout", M, None),
        ("rebalance_started", "member_leave", M, None),
        ("member_dropped", "rebalance_timeout", M, None),
        ("member_dropped", "rebalance_timeout", N, None),
    ]


def test_a_clients_line_without_a_group_gets_the_only_one_it_can_be(spark: "SparkSession", tmp_path: Path) -> None:
    overrun = rdkafka(
        "MAXPOLL", "Application maximum poll interval (5000ms) exceeded by 250ms (adjust): leaving group", 4
    )
    (tmp_path / "app.log").write_text(overrun)
    (tmp_path / "server.log").write_text(java(f"Member {M} in group g has failed, removing it from the group."))
    with reading(spark, tmp_path) as history:
        assert {(row.kind, row["group"], row.client) for row in rows(history)} == {
            ("poll_overrun", "g", "app-1"),
            ("member_expired", "g", None),
        }
    (tmp_path / "server2.log").write_text(java(f"Member {M} in group other has failed, removing it from the group."))
    with reading(spark, tmp_path) as history:
        assert {row["group"] for row in rows(history) if row.kind == "poll_overrun"} == {None}


def test_zones_are_given_per_file(spark: "SparkSession", tmp_path: Path) -> None:
    for name in ("berlin", "tokyo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.log").write_text(STABILIZED)
    with reading(
        spark, tmp_path, below=str(tmp_path), zones={"/berlin/": "Europe/Berlin"}, zone="Asia/Tokyo"
    ) as history:
        found = {row.cluster: row.time_ms for row in rows(history)}
    assert found == {"berlin": 1_777_629_600_123 - 2 * 3_600_000, "tokyo": 1_777_629_600_123 - 9 * 3_600_000}


def test_relevant_lines_that_nothing_reads_are_counted_and_shown(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("\n".join(java(f"Words of a version to come, {n}") for n in range(9)))
    with reading(spark, tmp_path) as history:
        (row,) = history.unread.collect()
        assert (row.lines, len(row.examples)) == (9, 5)
        assert "to come, 0" in row.examples[0]
        assert rows(history) == []


def test_records_of_the_offsets_topic_tell_generations_members_and_progress(
    spark: "SparkSession", tmp_path: Path
) -> None:
    (tmp_path / "offsets.jsonl").write_text("".join(_dump(number, *one) for number, one in enumerate(_records())))
    with reading(spark, tmp_path, cluster="c") as history:
        found = rows(history)
    by_kind = {kind: [row for row in found if row.kind == kind] for kind in {row.kind for row in found}}
    generations = by_kind["generation_recorded"]
    assert [(row.generation, row.detail.gap, row.members) for row in generations] == [(3, None, 1), (7, 3, 0)]
    assert generations[0].detail.assignment[0].asDict(recursive=True) == {"member": M, "partitions": ["t-0", "t-1"]}
    (member,) = by_kind["member_recorded"]
    assert (member.member, member.client, member.instance, member.detail.session_timeout_ms) == (M, "app-1", "i", 6000)
    assert [(row.detail.commits, row.detail.offsets_advanced, row.detail.count) for row in by_kind["progress"]] == [
        (2, 30, 1),
        (1, 20, 1),
    ]
    assert {row.cluster for row in found} == {"c"}
    assert {row.source for row in found} == {"offsets_topic"}


def _records() -> list[tuple[int, bytes, bytes | None]]:
    partitions = tuple(TopicPartition("t", number) for number in range(2))
    owned = encode_assignment(Assignment(partitions, None))
    member = GroupMember(M, "i", "app-1", "/10.0.0.1", 300_000, 6000, b"", owned)
    key = encode_key(GroupKey("g"))
    start = 1_777_629_600_000
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


def test_our_own_events_are_rows_as_they_are(spark: "SparkSession", tmp_path: Path) -> None:
    said = [
        GroupEvent(
            time_ms=1,
            cluster="own",
            group="g",
            kind=Kind.GENERATION_FORMED,
            generation=5,
            members=2,
            detail=Formed(leader=M, protocol="range", static_members=1, join_phase_ms=30),
            source=Source.COORDINATOR,
        ),
        GroupEvent(
            time_ms=2,
            group="g",
            kind=Kind.PARTITIONS_REVOKED,
            client="app-1",
            detail=Partitions((TopicPartition("t", 0),), callback_ms=7),
            source=Source.MEMBER,
        ),
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(event.to_json() for event in said))
    with reading(spark, tmp_path, cluster="c") as history:
        formed, revoked = rows(history)[::-1] if rows(history)[0].cluster == "c" else rows(history)
        assert (formed.cluster, formed.detail.leader, formed.detail.static_members) == ("own", M, 1)
        assert (revoked.cluster, revoked.detail.partitions, revoked.detail.callback_ms) == ("c", ["t-0"], 7)


def test_a_path_that_is_not_there_is_told_in_a_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.history import read_history

    with pytest.raises(UsageError, match=r"Nothing is at .*nowhere\. Name a file"):
        read_history(spark, [str(tmp_path / "nowhere")])
    with pytest.raises(UsageError, match="No path was given"):
        read_history(spark, [])


def test_files_without_a_kafka_line_give_no_event(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "other.log").write_text("Apr 1 host sshd: hello\n{not json\n")
    with reading(spark, tmp_path) as history:
        assert rows(history) == []
        assert history.unread.collect() == []
