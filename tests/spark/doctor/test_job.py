"""The doctor's Spark job: paths of any spelling, and errors of Spark described to the user."""

from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.doctor.diagnosis import DiagnosisRequest
from tests.doctor.lines import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUEST = DiagnosisRequest(paths=["/logs"])


def describe(text: str) -> str:
    from slackwater.spark.doctor.job import describe_error

    return describe_error(text, REQUEST)


def test_damaged_file_is_named() -> None:
    error = """An error occurred while calling o112.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///logs/server.log.3.gz.  SQLSTATE: KD001
Caused by: java.io.EOFException: Unexpected end of input stream
"""
    assert describe(error).startswith("/logs/server.log.3.gz is cut off or damaged.")


def test_java_exception_is_described_without_its_prefix() -> None:
    error = "An error occurred while calling o194.text.\n: java.net.ConnectException: Call to nowhere:1 failed\n"
    assert describe(error) == "/logs could not be read: java.net.ConnectException: Call to nowhere:1 failed"


def test_exception_of_a_worker_is_named() -> None:
    error = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "diagnosis.py", line 134, in _asked
    asked = pc.is_valid(rows["time_ms"])
KeyError: 'Field "time_ms" does not exist in schema'
"""
    assert describe(error).endswith("""bug in slackwater: KeyError: 'Field "time_ms" does not exist in schema'""")


def test_cluster_directories_may_have_any_name(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    root = tmp_path / "my incidents ü 100%"
    for name in ("east 1", "west[2]", "süd"):
        (root / name).mkdir(parents=True)
        (root / name / "server log.txt").write_text(f"{java('Stabilized group g generation 5 with 2 members.')}\n")
        (root / name / "old.log").write_text(f"{java('Group g was frobnicated in state Stable')}\n")
    diagnosis = diagnose(spark, DiagnosisRequest(paths=[str(root)], clusters_dir=str(root)))
    assert [verdict.cluster for verdict in diagnosis.verdicts] == ["east 1", "süd", "west[2]"]
    assert {file for file, _, _ in diagnosis.unrecognized} == {
        f"{root}/{name}/old.log" for name in ("east 1", "süd", "west[2]")
    }
