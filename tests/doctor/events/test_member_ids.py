"""The client id in a generated member id."""

import re

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pytest

from slackwater.doctor.events.member_ids import ARROW_PATTERN, SPARK_PATTERN, client_of_member

UUID = "0b5a1d5e-7a3c-4D0e-9a54-3d1c0f4b2a11"


@pytest.mark.parametrize(
    ("member", "client"),
    [
        (f"orders-1-{UUID}", "orders-1"),
        (f"{UUID}-{UUID}", UUID),
        (f"-{UUID}", None),
        (UUID, None),
        (f"orders-{UUID}0", None),
        ("orders-1", None),
        ("", None),
    ],
)
def test_client_id_precedes_the_uuid(member: str, client: str | None) -> None:
    assert client_of_member(member) == client
    match = re.match(SPARK_PATTERN, member)
    assert (None if match is None else match[1]) == client
    (row,) = pc.extract_regex(pa.array([member]), ARROW_PATTERN).to_pylist()
    assert (row and row["client"]) == client
