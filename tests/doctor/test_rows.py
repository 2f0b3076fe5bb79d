"""What a row knows of itself."""

import pytest

from slackwater.doctor.rows import Row


@pytest.mark.parametrize(
    ("file", "label"),
    [
        ("/var/log/orders.log", "orders"),
        ("orders.log.3", "orders"),
        ("orders.log.2026-11-16-08.gz", "orders"),
        ("orders.out", "orders"),
        ("logs/eu.west.3.log", "eu.west.3"),
        ("eu.west", "eu.west"),
        ("orders.gz", "orders"),
    ],
)
def test_a_log_is_called_by_its_name_without_what_every_log_ends_with(file: str, label: str) -> None:
    assert Row(0, "kind", "client_log", file=file).label == label
