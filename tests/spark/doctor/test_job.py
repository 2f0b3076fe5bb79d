"""The doctor's job on Spark: paths of any spelling, and what it says when Spark cannot read what it was given."""

from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.doctor.diagnosis import DiagnosisRequest
from tests.doctor.lines import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENT = DiagnosisRequest(paths=["/logs"])


def sentence(said: str) -> str:
    from slackwater.spark.doctor.job import _sentence

    return _sentence(said, PATIENT)


def test_the_damaged_file_of_many_is_named() -> None:
    said = """An error occurred while calling o112.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///logs/server.log.3.gz.  SQLSTATE: KD001
Caused by: java.io.EOFException: Unexpected end of input stream
"""
    assert sentence(said).startswith("/logs/server.log.3.gz is cut off or damaged.")


def test_a_file_system_that_does_not_answer_is_told_without_java_in_front() -> None:
    said = "An error occurred while calling o194.text.\n: java.net.ConnectException: Call to nowhere:1 failed\n"
    assert sentence(said) == "/logs could not be read: java.net.ConnectException: Call to nowhere:1 failed"


def test_what_a_worker_raised_is_told_and_not_that_it_did() -> None:
    said = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "diagnosis.py", line 134, in _asked
    asked = pc.is_valid(rows["time_ms"])
KeyError: 'Field "time_ms" does not exist in schema'
"""
    assert sentence(said).endswith("""slackwater's: KeyError: 'Field "time_ms" does not exist in schema'""")


def test_clusters_are_told_apart_whatever_their_directories_are_called(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    root = tmp_path / "my incidents ü 100%"
    for name in ("east 1", "west[2]", "süd"):
        (root / name).mkdir(parents=True)
        (root / name / "server log.txt").write_text(f"{java('Stabilized group g generation 5 with 2 members.')}\n")
        (root / name / "old.log").write_text(f"{java('Group g was frobnicated in state Stable')}\n")
    found = diagnose(spark, DiagnosisRequest(paths=[str(root)], clusters_dir=str(root)))
    assert [one.cluster for one in found.verdicts] == ["east 1", "süd", "west[2]"]
    assert {file for file, _, _ in found.unread} == {f"{root}/{name}/old.log" for name in ("east 1", "süd", "west[2]")}
