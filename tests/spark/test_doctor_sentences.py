"""What the doctor says when Spark cannot read what it was given: one sentence, with the file in it."""

from slackwater.doctor.examination import Patient
from slackwater.spark.doctor import _sentence

PATIENT = Patient(paths=["/logs"])


def test_the_damaged_file_of_many_is_named() -> None:
    said = """An error occurred while calling o112.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///logs/server.log.3.gz.  SQLSTATE: KD001
Caused by: java.io.EOFException: Unexpected end of input stream
"""
    assert _sentence(said, PATIENT).startswith("/logs/server.log.3.gz is cut off or damaged.")


def test_a_file_system_that_does_not_answer_is_told_without_java_in_front() -> None:
    said = "An error occurred while calling o194.text.\n: java.net.ConnectException: Call to nowhere:1 failed\n"
    assert _sentence(said, PATIENT) == "/logs could not be read: java.net.ConnectException: Call to nowhere:1 failed"


def test_what_a_worker_raised_is_told_and_not_that_it_did() -> None:
    said = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "diagnosis.py", line 134, in _asked
    asked = pc.is_valid(rows["time_ms"])
KeyError: 'Field "time_ms" does not exist in schema'
"""
    assert _sentence(said, PATIENT).endswith("""slackwater's: KeyError: 'Field "time_ms" does not exist in schema'""")
