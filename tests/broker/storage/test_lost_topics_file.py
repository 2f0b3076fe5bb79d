"""A broker whose `topics.json` is lost serves all topics, records, groups and committed offsets."""

import asyncio
from pathlib import Path

import pytest

from slackwater.broker.storage.topics import FILE
from slackwater.group.errors import Error

from ..broker_process import BrokerProcess
from ..quiet_broker import QuietBroker
from ..raw_client import closing

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3", "log.retention.ms": "1000"}


@pytest.mark.parametrize("clean", [True, False])
def test_lost_topics_file_loses_no_data(tmp_path: Path, clean: bool) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert await client.create_topic("t", 2, cleanup_policy="compact") is Error.NONE
            assert await client.create_topic("u", 1, retention_ms="-1") is Error.NONE
            assert await client.produce("u", 0, b"value") == (Error.NONE, 0)
            assert await client.commit("g", {("u", 0): 1}) is Error.NONE
            before = await client.topics()
            broker.stop() if clean else broker.kill()
        (tmp_path / FILE).unlink()
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert await client.topics() == before
            assert [record.value for record in await client.records("u", 0)] == [b"value"]
            assert await client.committed("g", "u", [0]) == [1]
            broker.stop()
        assert "Restored topic u with 1 partitions, which is missing in topics.json." in broker.log

    asyncio.run(scenario())
    with QuietBroker(tmp_path, {"log.retention.ms": 1000}) as quiet:
        policies = {topic.name: quiet.broker.topics.config(topic).cleanup_policy for topic in quiet.broker.topics}
        assert policies["__consumer_offsets"] == {"compact"}
        retention_ms = {topic.name: quiet.broker.topics.config(topic).retention_ms for topic in quiet.broker.topics}
        assert (retention_ms["t"], retention_ms["u"]) == (-1, -1)
