"""Registering the data source with a session."""

import pytest

import slackwater.spark
from slackwater.group.errors import UsageError


@pytest.mark.parametrize("version", ["3.5.4", "4.0.1", "4.2.0-SNAPSHOT"])
def test_older_spark_is_rejected_in_one_sentence(version: str) -> None:
    class OldSession:
        def __init__(self) -> None:
            self.version = version

    with pytest.raises(UsageError, match=f"This is Spark {version}; slackwater.spark needs Spark 4.3") as raised:
        slackwater.spark.register(OldSession())  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
