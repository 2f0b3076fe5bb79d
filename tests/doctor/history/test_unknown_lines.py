"""Lines about groups that no template knows: their shapes contain nothing of the user's, and their places are right."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest

from slackwater.doctor.history.files import list_local_files
from slackwater.doctor.history.unknown_lines import find_unknown_lines, report_unknown_lines, shape_of
from slackwater.group.errors import UsageError
from tests.doctor.lines import LINES, consumer

SECRETS = ("10.1.2.3", "acme", "kafka-7", "0b5a1d5e", "2026", "12:00", "4711", "s3cret", "/srv")


@pytest.mark.parametrize(
    "line",
    [
        "2026-05-01 12:00:00,123 [consumer-4711] WARN group acme-orders rebalancing: 4711 ms at kafka-7.acme.com:9092",
        "consumer group acme-orders moved from 10.1.2.3:9092 to https://kafka-7.acme.com/x?token=s3cret",
        'level=info msg="rejoin of x" group=acme client_id=acme-0b5a1d5e-7a3c-4d0e-9a54-3d1c0f4b2a11 path=/srv/log',
        '{"time":"2026-05-01T12:00:00Z","message":"rebalancing group acme, member \'acme-4711\' of \\"acme\\""}',
        "May 01, 2026 12:00:00 PM rebalance of group: acme by ops@acme.com, topic acme-orders-4711",
    ],
)
def test_shape_contains_no_secret(line: str) -> None:
    shape = shape_of(line)
    assert [secret for secret in SECRETS if secret in shape] == []
    assert any(word in shape for word in ("rebalanc", "moved", "rejoin"))


def test_lines_that_differ_in_names_have_one_shape(tmp_path: Path) -> None:
    lines = [
        consumer("(Re-)joining group"),
        *(f"10:00:0{at} group g{at} is rebalancing slowly ({at} s)" for at in (1, 2)),
    ]
    (tmp_path / "app.log").write_text("\n".join(["nothing", *lines]) + "\n")
    with gzip.open(tmp_path / "old.log.gz", "wt") as old:
        old.write("10:00:03 group g3 is rebalancing slowly (3 s)\n")
    (found,) = find_unknown_lines(list_local_files([str(tmp_path)]))
    assert (found.count, found.file, found.line) == (3, str(tmp_path / "app.log"), 3)
    report = list(report_unknown_lines([found], "1.0"))
    assert "3 x, first at app.log:3" in report
    assert str(tmp_path) not in "\n".join(report)


def test_known_lines_are_not_reported(tmp_path: Path) -> None:
    known = [line for line, _ in LINES if not line.startswith("{")]
    (tmp_path / "app.log").write_text("\n".join([*known, "\tat a.b.Rebalance(x)", "group.max.rebalance = 3"]))
    assert find_unknown_lines(list_local_files([str(tmp_path)])) == []


@pytest.mark.parametrize(
    ("ending", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("zst", cramjam.zstd.compress)]
)
def test_compressed_files_are_decompressed(ending: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / f"app.log.{ending}"
    file.write_bytes(bytes(compress(b"nothing\n10:00:01 group g1 is rebalancing slowly\n")))
    (found,) = find_unknown_lines(list_local_files([str(tmp_path)]))
    assert (found.count, found.file, found.line) == (1, str(file), 2)
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(UsageError, match="is cut off or damaged"):
        find_unknown_lines(list_local_files([str(tmp_path)]))


def test_file_that_only_spark_decompresses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app.log.lz4").write_bytes(b"group g1 is rebalancing slowly")
    with pytest.raises(UsageError, match="does not decompress "):
        find_unknown_lines(list_local_files([str(tmp_path)]))


def test_line_numbers_are_right_after_a_skipped_line_end(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"x" * 20_000_000 + b"\ngroup g1 is rebalancing slowly\n")
    (found,) = find_unknown_lines(list_local_files([str(tmp_path)]))
    assert found.line == 2
