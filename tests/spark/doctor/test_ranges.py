"""Local files as byte ranges: the same lines as Spark reads, in every split, with their line numbers."""

import json
import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from slackwater.doctor.history.files import LocalFile, local_path, uri
from slackwater.doctor.history.lines import MAX_LINE_LENGTH, SHOWN_CHARACTERS, find_lines, unwrap
from slackwater.doctor.history.ranges import LogFileRange, plan_tasks, read_blocks
from slackwater.group.errors import UsageError
from slackwater.spark.doctor.history import reading
from slackwater.spark.doctor.history.files import list_files
from tests.doctor.corpus import CORPUS, incidents
from tests.doctor.lines import LINES, consumer, java, rdkafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMED = java("Stabilized group g generation 5 with 2 members.")
SETTING = "\tgroup.instance.id = null"
EVERY = 6
"""Only every sixth incident is read here."""
OTHER_LOGGERS = ("Partition", "LogCleaner", "UnifiedLog")

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


def _generated_files() -> dict[str, bytes]:
    others = [FORMED.replace("GroupMetadataManager", name) for name in OTHER_LOGGERS]
    mixed = [
        *(line for line, _ in LINES),
        *others,
        *(line + " " for line in others),
        SETTING,
        f"\t \x0b{SETTING}",
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
    wrapped = [
        *(json.dumps(wrapper) for wrapper in WRAPPERS),
        *(json.dumps(wrapper, ensure_ascii=False) for wrapper in WRAPPERS),
    ]
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


class Line(NamedTuple):
    """A line without its position."""

    text: str
    timestamp: str | None
    record_kind: str | None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with files of every shape, and some incidents of the corpus."""
    directory = tmp_path_factory.mktemp("ranges")
    for path, content in _generated_files().items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    (directory / "linked").symlink_to(directory / "below")
    (directory / "broken link.log").symlink_to(directory / "nowhere")
    for name in incidents()[::EVERY]:
        shutil.copytree(CORPUS / name, directory / name)
    return directory


@pytest.fixture(scope="module")
def by_spark(spark: "SparkSession", root: Path) -> dict[str, list[Line]]:
    """Return the candidate lines of each file, split into lines by Spark."""
    lines: dict[str, list[Line]] = {}
    for row in reading.raw_lines(spark, [str(root)]).orderBy("file", "position").collect():
        for line in find_lines(row.text.encode()):
            lines.setdefault(row.file, []).append(Line(line.text, line.timestamp, line.record_kind))
    return lines


def _read(ranges: Sequence[LogFileRange], block_bytes: int) -> dict[str, list[Line]]:
    lines: dict[str, list[Line]] = {}
    last: dict[str, int] = {}
    for part in ranges:
        for position, data in read_blocks(part, block_bytes):
            for line in find_lines(data):
                assert position + line.position >= last.get(part.name, 0)
                last[part.name] = position + line.position
                lines.setdefault(part.name, []).append(Line(line.text, line.timestamp, line.record_kind))
    return lines


def _ranges(files: Sequence[LocalFile], size: int) -> list[LogFileRange]:
    return [
        LogFileRange(file.path, file.name, start, min(file.size, start + size))
        for file in files
        for start in range(0, file.size, size)
    ]


@pytest.mark.parametrize(("size", "block"), [(2**27, 2**22), (1000, 256), (37, 8)])
def test_ranges_have_the_lines_that_spark_reads(
    spark: "SparkSession", root: Path, by_spark: dict[str, list[Line]], size: int, block: int
) -> None:
    local = list_files(spark, [str(root)]).local
    small = [file for file in local if size > 100 or file.size < 20_000]
    names = {file.name for file in small}
    lines_by_file = _read(_ranges(small, size), block)
    assert lines_by_file == {name: lines for name, lines in by_spark.items() if name in names}
    assert len(lines_by_file) > 8


def test_files_are_listed_and_named_as_by_spark(spark: "SparkSession", root: Path) -> None:
    reader = spark.read.option("recursiveFileLookup", "true")
    for path in (str(root), f"file://{root}", f"file:{root}/below/../below", f"{root}/m*.log", f"{root}/{{below,cr*}}"):
        listed_by_spark = {name for name in reader.text(path).inputFiles() if os.path.getsize(local_path(name) or "")}
        files = list_files(spark, [path, path])
        assert sorted(file.name for file in files.local) == sorted(listed_by_spark)
        assert (files.compressed, files.elsewhere) == ([], [])
        assert all(local_path(file.name) == file.path == str(Path(file.path)) for file in files.local)


def test_spark_reads_compressed_and_remote_files(spark: "SparkSession", tmp_path: Path) -> None:
    for name in ("a.log", "b.log.gz", "c.log.zst", ".d.gz"):
        (tmp_path / name).write_bytes(b"x")
    files = list_files(spark, [str(tmp_path), "hdfs://host/logs", "s3a://logs/*"])
    assert [file.path for file in files.local] == [str(tmp_path / "a.log")]
    assert files.compressed == [str(tmp_path)]
    assert files.elsewhere == ["hdfs://host/logs", "s3a://logs/*"]
    assert local_path(uri(str(tmp_path / "b.log.gz"))) is None
    assert local_path("hdfs://host/logs/a.log") is None


def test_directory_that_links_to_itself_is_read_once(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "below").symlink_to(tmp_path)
    assert [file.path for file in list_files(spark, [str(tmp_path)]).local] == [str(tmp_path / "a.log")]


def test_missing_paths_are_reported_together(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"No such file or directory: .*/nowhere and .*/neither\. Pass a file"):
        list_files(spark, [str(tmp_path), f"{tmp_path}/nowhere", f"file://{tmp_path}/neither"])
    with pytest.raises(UsageError, match=r"No such file or directory: .*/none\*\. Pass a file"):
        list_files(spark, [f"{tmp_path}/none*"])


@pytest.mark.parametrize("cores", [1, 2, 7])
@pytest.mark.parametrize("sizes", [[1], [100], [3, 5, 1000, 2, 2], [10] * 50, [10_000, 1]])
def test_tasks_cover_every_byte_once_in_equal_parts(sizes: list[int], cores: int) -> None:
    files = [LocalFile(f"/{number}", f"file:///{number}", size) for number, size in enumerate(sizes)]
    tasks = plan_tasks(files, cores, max_bytes=1000, min_bytes=10, open_cost_bytes=3)
    for file in files:
        ranges = [part for task in tasks for part in task if part.path == file.path]
        assert (ranges[0].begin, ranges[-1].end) == (0, file.size)
        assert all(part.end == next_part.begin for part, next_part in pairwise(ranges))
    length = [sum(part.end - part.begin for part in task) for task in tasks]
    assert max(length) <= 1000
    assert len(tasks) >= min(cores, sum(sizes) // 10)


def test_no_files_make_no_tasks() -> None:
    assert plan_tasks([], 2) == []


def test_file_that_shrinks_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(FORMED)
    part = LogFileRange(str(path), uri(str(path)), 0, 10_000)
    assert [line.text for line in _read([part], 64)[part.name]] == [FORMED]
    assert _read([LogFileRange(str(path), part.name, 5000, 10_000)], 64) == {}


@pytest.mark.parametrize("size", [5_000, 40_000, 2**20])
def test_line_longer_than_a_block_is_reported_once(tmp_path: Path, size: int) -> None:
    path = tmp_path / "server.log"
    path.write_text(f"{FORMED}\n{FORMED}{' of a group' * 40_000}\n{FORMED}\n")
    ranges = _ranges([LocalFile(str(path), "name", path.stat().st_size)], size)
    first, long, last = _read(ranges, 1024)["name"]
    assert (first.text, last.text) == (FORMED, FORMED)
    assert f"characters, longer than {MAX_LINE_LENGTH}) {FORMED[:20]}" in long.text


@pytest.fixture
def numbered(tmp_path: Path) -> tuple[Path, list[str]]:
    """Return a file of more than one range, and its lines."""
    texts = [f"{number} [GroupCoordinator 1]: größe" for number in range(1, 200_001)]
    path = tmp_path / "server with blanks.log"
    path.write_bytes("".join(text + ("\r\n", "\n", "\r")[index % 3] for index, text in enumerate(texts)).encode())
    return path, texts


@pytest.mark.parametrize("max_driver_bytes", [0, 2**40])
def test_shown_lines_have_their_numbers_in_every_range(
    spark: "SparkSession", numbered: tuple[Path, list[str]], max_driver_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, texts = numbered
    monkeypatch.setattr(reading, "MAX_DRIVER_BYTES", max_driver_bytes)
    (file,) = list_files(spark, [str(path)]).local
    tasks = plan_tasks([file], 2)
    assert len(tasks) > 1
    blocks = (block for task in tasks for part in task for block in read_blocks(part))
    lines = [(position + line.position, line.text) for position, data in blocks for line in find_lines(data)]
    assert [text for _, text in lines] == texts
    chosen = (1, 2, 99_000, 100_001, 199_998, 200_000)
    places = {(file.name, lines[number - 1][0]): number for number in chosen}
    shown = reading.find_evidence_lines(spark, [str(path)], places)
    assert {places[place]: tuple(line) for place, line in shown.items()} == {
        number: (number, texts[number - 1]) for number in chosen
    }


def test_shown_line_is_unwrapped_and_shortened(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("first\n" + json.dumps({"message": FORMED + "x" * 1000}))
    shown = reading.find_evidence_lines(spark, [str(path)], [(uri(str(path)), 6)])
    assert list(shown.values()) == [(2, (FORMED + "x" * 1000)[:SHOWN_CHARACTERS])]


def test_number_in_a_wrapper_keeps_its_digits() -> None:
    line = unwrap('{"ts": 1777629600.1230, "log": {"a": [1.50, 2]}}')
    assert (line.timestamp, line.text) == ("1777629600.1230", '{"a":[1.5,2]}')
