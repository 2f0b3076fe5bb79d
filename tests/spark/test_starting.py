"""A query whose Python process could not be reached is started again, any other failure is not."""

from dataclasses import dataclass, field

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.application import NO_CONNECTION
from tests.spark.starting import ATTEMPTS, starts_repeated


@dataclass
class FakeQuery:
    """A query that has ended with an error, or that runs."""

    error: str | None
    status: dict[str, str] = field(default_factory=lambda: {"message": "Waiting for next trigger"})

    @property
    def isActive(self) -> bool:
        return self.error is None

    def exception(self) -> str | None:
        return self.error


@pytest.mark.parametrize(
    ("errors", "starts"),
    [
        ([None], 1),
        ([NO_CONNECTION, None], 2),
        ([f"Query terminated: {NO_CONNECTION}."] * ATTEMPTS, ATTEMPTS),
        (["unknown topic"], 1),
    ],
)
def test_query_without_connection_is_started_again(
    monkeypatch: pytest.MonkeyPatch, errors: list[str | None], starts: int
) -> None:
    queries = [FakeQuery(error) for error in errors]
    started = iter(queries)
    monkeypatch.setattr(DataStreamWriter, "start", lambda *_: next(started))
    with starts_repeated():
        assert DataStreamWriter.start(None) is queries[starts - 1]  # type: ignore[arg-type, comparison-overlap]
    assert next(started, None) is None
