"""Local files read as bytes: the same lines that Spark reads, whatever the ranges, and whoever sifts them."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from slackwater.group.errors import UsageError
from slackwater.spark.doctor.history import blocks, lines, reading
from slackwater.spark.doctor.history.blocks import Range, lines_of, planned
from slackwater.spark.doctor.history.files import LocalFile, files, local_path, uri
from slackwater.spark.doctor.history.kernels import Compiled, Kernels, Plain
from slackwater.spark.doctor.history.lines import SIEVE, unwrapped
from tests.doctor.corpus import CORPUS, incidents
from tests.doctor.lines import LINES, consumer, java, rdkafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMED = java("Stabilized group g generation 5 with 2 members.")
SETTING = "\tgroup.instance.id = null"
EVERY = 6
"""Of the incidents, each so many-th is read here."""

WRAPPERS = [
    {"log": FORMED + "\n", "stream": "stdout", "time": "2026-05-01T10:00:00.2Z"},
    {"@timestamp": "2026-05-01T10:00:00.2Z", "log": {"level": "INFO", "group": [1, None, True]}, "message": FORMED},
    {"log": {"level": "INFO", "group": [1, None, True]}, "ts": 1777629600123},
    {"message": None, "msg": "", "log": "of a group"},
    {"message": None, "msg": None, "text": "of a group"},
    {"timestamp": "t", "message": f"ConsumerConfig values: \n\tclient.id = a\n{SETTING}  "},
    {"message": "größe 東京 \U0001f600 of a group \u2028 \t"},
    {"message": "client.id = x", "time": True},
    {"level": "INFO", "logger": "kafkajs", "message": "of a group"},
    {"partition": 3, "offset": 1, "timestamp": 2, "key": "a", "value": None},
    {"time_ms": 1, "kind": "x", "message": "of a group"},
]
KUBERNETES = "2026-05-01T10:00:00.123456789Z stdout F "
ODD = [
    '{"logger":"kafkajs","message":"[Consumer] of a group"}',
    '{"time_ms":1,"kind":"x"} ',
    '{"partition":1,"key":null}',
    '{"message": "of a group"} and more',
    '{"message": "of a group", "more"',
    "{'message': 'of a \"group\"', 'time': \"it\\'s\"}",
    '{"message": "first of a group", "message": "second"}',
    '{"message": "of a group\ttabbed", "time": "\\u00e9\\n"}',
    '{"message": "of a group", "time": NaN}',
    "{of a group}",
    "{",
    '{"other": 1}',
    ' {"message": "of a group"}',
    '\ufeff{"message": "of a group"}',
]


def _made_up() -> dict[str, bytes]:
    others = [java("of a group").replace("GroupMetadataManager", name.rstrip(")")) for name in SIEVE.other_loggers]
    mixed = [
        *(line for line, _ in LINES),
        *others,
        *(line + " " for line in others),
        *(word for word in SIEVE.all_words),
        *(f"[2026-05-01 10:00:00,123] INFO {word} (x)" for word in SIEVE.all_words),
        *(f"\t{word} x" for word in SIEVE.indented),
        f"\t \x0b{SIEVE.indented[0]}",
        "\tat org.apache.kafka.clients.consumer.group",
        "[2026-05-01 10:00:00,123] INFO of a group.",
        "[20",
        "\t",
        "",
        consumer("blanks behind   "),
        rdkafka("X", "größe", 4),
        "x" * 5000 + FORMED,
        "",
    ]
    wrapped = [*(json.dumps(one) for one in WRAPPERS), *(json.dumps(one, ensure_ascii=False) for one in WRAPPERS)]
    several = [FORMED, "other", SETTING, FORMED + " "]
    return {
        "mixed.log": "\n".join(mixed).encode(),
        "json.log": "\n".join([*wrapped, *ODD]).encode(),
        "container.log": "\n".join(
            [*(f"{KUBERNETES}{line}" for line in (*wrapped, *ODD, FORMED)), "x stderr P {", "stdout F {of a group}"]
        ).encode(),
        "crlf.log": "\r\n".join([*several, ""]).encode(),
        "cr.log": "\r".join([*several, "", "", *several]).encode(),
        "ends.log": f"{FORMED}\n\r{FORMED}\r\r\n{FORMED}\n\n{FORMED}".encode(),
        "marked.log": b"\xef\xbb\xbf" + "\n".join(several).encode(),
        "mark.log": b"\xef\xbb\xbf",
        "broken.log": b"\xff"
        + FORMED.encode()
        + b" \xc3\n"
        + FORMED.encode()
        + b'\xe2\n{"message":"group \xff"}\n\xbcgroup',
        "binary.log": bytes(range(256)) * 50,
        "no group's.log": b"Apr 1 host sshd: hello\n" * 20,
        "empty.log": b"",
        "ends with one.log": (FORMED + "\n").encode(),
        "a%20b ü 東#[1]{x}^.log": FORMED.encode(),
        "below/.hidden.log": FORMED.encode(),
        "below/_hidden.log": FORMED.encode(),
        "below/_date=1.log": FORMED.encode(),
        "below/x._COPYING_": FORMED.encode(),
        "below/_hidden/server.log": FORMED.encode(),
        "below/_at=1/server.log": FORMED.encode(),
    }


class Kept(NamedTuple):
    """What is kept of a line."""

    text: str
    stamp: str | None
    what: str | None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every shape, and some real ones."""
    found = tmp_path_factory.mktemp("blocks")
    for path, content in _made_up().items():
        (found / path).parent.mkdir(parents=True, exist_ok=True)
        (found / path).write_bytes(content)
    (found / "linked").symlink_to(found / "below")
    (found / "broken link.log").symlink_to(found / "nowhere")
    for name in incidents()[::EVERY]:
        shutil.copytree(CORPUS / name, found / name)
    return found


@pytest.fixture(scope="module")
def by_spark(spark: "SparkSession", root: Path) -> dict[str, list[Kept]]:
    """The lines that Spark keeps of each file."""
    rows = lines.relevant(reading.raw_lines(spark, [str(root)])).orderBy("file", "position").collect()
    found: dict[str, list[Kept]] = {}
    for row in rows:
        found.setdefault(row.file, []).append(Kept(row.text, row.stamp, row.what))
    return found


def _read(ranges: Sequence[Range], block: int, kernels: Kernels) -> dict[str, list[Kept]]:
    found: dict[str, list[Kept]] = {}
    last: dict[str, int] = {}
    for part in ranges:
        for batch in lines_of(part, block=block, choose=lambda _: kernels):
            batch.validate(full=True)
            for row in batch.to_pylist():
                assert row["position"] > last.get(row["file"], -1)
                last[row["file"]] = row["position"]
                found.setdefault(row["file"], []).append(Kept(row["text"], row["stamp"], row["what"]))
    return found


def _ranges(some: Sequence[LocalFile], size: int) -> list[Range]:
    return [Range(one.path, one.name, at, min(one.size, at + size)) for one in some for at in range(0, one.size, size)]


@pytest.mark.parametrize(("size", "block"), [(2**27, 2**22), (1000, 256), (37, 8)])
@pytest.mark.parametrize("kernels", [Compiled, Plain])
def test_workers_keep_the_lines_that_spark_keeps(
    spark: "SparkSession",
    root: Path,
    by_spark: dict[str, list[Kept]],
    size: int,
    block: int,
    kernels: Callable[[], Kernels],
) -> None:
    local = files(spark, [str(root)]).local
    small = [one for one in local if size > 100 or one.size < 20_000]
    found = _read(_ranges(small, size), block, kernels())
    names = {one.name for one in small}
    assert found == {name: kept for name, kept in by_spark.items() if name in names}
    assert len(found) > 8


def test_files_are_found_and_called_as_spark_finds_and_calls_them(spark: "SparkSession", root: Path) -> None:
    reader = spark.read.option("recursiveFileLookup", "true")
    for path in (str(root), f"file://{root}", f"file:{root}/below/../below", f"{root}/m*.log", f"{root}/{{below,cr*}}"):
        there = {name for name in reader.text(path).inputFiles() if os.path.getsize(local_path(name) or "")}
        found = files(spark, [path, path])
        assert sorted(one.name for one in found.local) == sorted(there)
        assert (found.compressed, found.elsewhere) == ([], [])
        assert all(local_path(one.name) == one.path == str(Path(one.path)) for one in found.local)


def test_spark_reads_what_is_compressed_or_elsewhere(spark: "SparkSession", tmp_path: Path) -> None:
    for name in ("a.log", "b.log.gz", "c.log.zst", ".d.gz"):
        (tmp_path / name).write_bytes(b"x")
    found = files(spark, [str(tmp_path), "hdfs://host/logs", "s3a://logs/*"])
    assert [one.path for one in found.local] == [str(tmp_path / "a.log")]
    assert found.compressed == [str(tmp_path)]
    assert found.elsewhere == ["hdfs://host/logs", "s3a://logs/*"]
    assert local_path(uri(str(tmp_path / "b.log.gz"))) is None
    assert local_path("hdfs://host/logs/a.log") is None


def test_a_directory_that_is_in_itself_is_read_once(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "below").symlink_to(tmp_path)
    assert [one.path for one in files(spark, [str(tmp_path)]).local] == [str(tmp_path / "a.log")]


def test_paths_that_are_not_there_are_told_together(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Nothing is at .*/nowhere and .*/neither\. Name a file"):
        files(spark, [str(tmp_path), f"{tmp_path}/nowhere", f"file://{tmp_path}/neither"])
    with pytest.raises(UsageError, match=r"Nothing is at .*/none\*\. Name a file"):
        files(spark, [f"{tmp_path}/none*"])


@pytest.mark.parametrize("cores", [1, 2, 7])
@pytest.mark.parametrize("sizes", [[1], [100], [3, 5, 1000, 2, 2], [10] * 50, [10_000, 1]])
def test_ranges_have_every_byte_once_and_tasks_are_alike(sizes: list[int], cores: int) -> None:
    some = [LocalFile(f"/{number}", f"file:///{number}", size) for number, size in enumerate(sizes)]
    tasks = planned(some, cores, most=1000, least=10, opening=3)
    for file in some:
        ranges = [part for task in tasks for part in task if part.path == file.path]
        assert (ranges[0].begin, ranges[-1].end) == (0, file.size)
        assert all(one.end == other.begin for one, other in pairwise(ranges))
    length = [sum(part.end - part.begin for part in task) for task in tasks]
    assert max(length) <= 1000
    assert len(tasks) >= min(cores, sum(sizes) // 10)


def test_nothing_to_read_is_no_task() -> None:
    assert planned([], 2) == []


def test_what_a_file_has_lost_since_it_was_listed_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(FORMED)
    part = Range(str(path), uri(str(path)), 0, 10_000)
    assert [row.text for row in _read([part], 64, Plain())[part.name]] == [FORMED]
    assert _read([Range(str(path), part.name, 5000, 10_000)], 64, Plain()) == {}


def test_a_line_that_is_too_long_for_a_log_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LONGEST", 1000)
    path = tmp_path / "server.log"
    path.write_text(f"{FORMED}\n{FORMED}{' of a group' * 1000}\n{FORMED}\n")
    for size in (500, 4000, 50_000):
        ranges = _ranges([LocalFile(str(path), "name", path.stat().st_size)], size)
        found = _read(ranges, 64, Compiled())["name"]
        assert [row.text for row in (found[0], found[2])] == [FORMED, FORMED]
        assert 1000 < len(found[1].text) < 3000
        assert len(found) == 3


@pytest.fixture
def numbered(tmp_path: Path) -> tuple[Path, list[str]]:
    """A file of more than one range, and its lines."""
    said = [f"{number} of a group, größe" for number in range(1, 300_001)]
    path = tmp_path / "server with blanks.log"
    path.write_bytes("".join(line + ("\r\n", "\n", "\r")[at % 3] for at, line in enumerate(said)).encode())
    return path, said


@pytest.mark.parametrize("by_spark_from", [0, 2**40])
def test_lines_have_their_numbers_in_every_range(
    spark: "SparkSession", numbered: tuple[Path, list[str]], by_spark_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, said = numbered
    monkeypatch.setattr(reading, "_AT_ONCE", by_spark_from)
    (file,) = files(spark, [str(path)]).local
    tasks = planned([file], 2)
    assert len(tasks) > 1
    rows = [row for task in tasks for part in task for batch in lines_of(part) for row in batch.to_pylist()]
    assert [row["text"] for row in rows] == said
    chosen = (1, 2, 149_000, 150_001, 299_998, 300_000)
    places = {(file.name, rows[number - 1]["position"]): number for number in chosen}
    shown = reading.shown_lines(spark, [str(path)], places)
    assert {places[place]: tuple(one) for place, one in shown.items()} == {
        number: (number, said[number - 1]) for number in chosen
    }


def test_a_wrapped_line_is_shown_as_it_was_logged_and_cut(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("first\n" + json.dumps({"message": FORMED + "x" * 1000}))
    shown = reading.shown_lines(spark, [str(path)], [(uri(str(path)), 6)])
    assert list(shown.values()) == [(2, (FORMED + "x" * 1000)[: reading.SAID])]


def test_a_number_in_a_wrapper_stays_as_it_was_written() -> None:
    line = unwrapped('{"ts": 1777629600.1230, "log": {"a": [1.50, 2]}}')
    assert (line.stamp, line.text) == ("1777629600.1230", '{"a":[1.5,2]}')


def test_the_words_behind_a_word_contain_it() -> None:
    assert all(word in closer for word, some in lines._KAFKA_LAYOUT.items() for closer in some)


def test_both_ways_sift_alike_wherever_a_word_stands_and_whoever_logs() -> None:
    head = "[2026-05-01 10:00:00,000] INFO "
    loggers = [name.removesuffix(")") for name in SIEVE.other_loggers]
    words = sorted({*SIEVE.dated_words, *SIEVE.words, *SIEVE.wrapped_words})
    logged = [f"{head}of a group ({dots}{name})" for name in loggers for dots in ("kafka.", "", "a.b.x")]
    placed = [f"{begin}{'-' * at}{word}" for begin in (head, "", "{") for word in words for at in range(3)]
    settings = [f"\t {word}x" for word in SIEVE.indented]
    every = [*logged, *placed, *settings]
    pieces = [one for line in every for one in (line, line[:-1], f"{line}  ")]
    data = np.frombuffer("\n".join(pieces).encode() + b"\r\n\r" + "\r\n".join(pieces).encode(), np.uint8)
    compiled, plain = (made.kept(data, 3, len(data), SIEVE) for made in (Compiled(), Plain()))
    assert compiled.bytes_of() == plain.bytes_of()
    assert compiled.starts.tolist() == plain.starts.tolist()
    assert len(every) < len(plain.starts) < 2 * len(pieces)
