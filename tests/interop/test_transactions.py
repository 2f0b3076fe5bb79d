"""Transactional producers of stock clients: committed, aborted, abandoned and fenced transactions."""

from collections.abc import Callable

import pytest

from slackwater import Admin, Consumer, TopicPartition
from tests.client.helpers import poll_until
from tests.interop.clients import Driver

Name = Callable[[str], str]


def transaction(end: str, *values: str, group: str | None = None, offset: int = 0) -> dict[str, object]:
    return {"values": list(values), "end": end, "group": group, "offset": offset}


def committed_values(bootstrap: str, topic: str) -> list[bytes | None]:
    """Return what a `read_committed` reader sees, up to the last stable offset."""
    with Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as client:
        partition = TopicPartition(topic, 0)
        client.assign([partition])
        client.seek_to_beginning([partition])
        end = client.end_offsets([partition])[partition]
        return [record.value for record in poll_until(client, lambda: client.position(partition) >= end)]


def test_committed_and_aborted_transactions(driver: Driver, bootstrap: str, name: Name) -> None:
    topic = name("transactions")
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topic(topic, 1)
    transactions = [transaction("commit", "a", "b"), transaction("abort", "c"), transaction("commit", "d")]
    driver.call("transact", transactional_id=name("bank"), topic=topic, transactions=transactions)

    assert committed_values(bootstrap, topic) == [b"a", b"b", b"d"]


def test_next_producer_aborts_an_abandoned_transaction(driver: Driver, bootstrap: str, name: Name) -> None:
    topic, transactional_id = name("abandoned"), name("bank")
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topic(topic, 1)
    driver.call("transact", transactional_id=transactional_id, topic=topic, transactions=[transaction("open", "a")])
    assert committed_values(bootstrap, topic) == []
    driver.call("transact", transactional_id=transactional_id, topic=topic, transactions=[transaction("commit", "b")])

    assert committed_values(bootstrap, topic) == [b"b"]


@pytest.mark.needs_call("transactional_offsets")
def test_offsets_in_transactions(driver: Driver, bootstrap: str, name: Name) -> None:
    topic, group = name("offsets"), name("group")
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topic(topic, 1)
        transactions = [
            transaction("commit", "a", group=group, offset=7),
            transaction("abort", "b", group=group, offset=9),
        ]
        driver.call("transact", transactional_id=name("bank"), topic=topic, transactions=transactions)

        committed = admin.committed(group)
    assert {str(partition): position.offset for partition, position in committed.items()} == {f"{topic}-0": 7}
