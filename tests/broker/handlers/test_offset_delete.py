"""OffsetDelete: the deleted offsets. The transcripts in `tests/conformance` cover the responses."""

from pathlib import Path

from slackwater.group.errors import Error
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, commit


def test_offsets_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=2) as broker:
        client = broker.connect()
        for partition in (0, 1):
            assert commit(client, 5, partition=partition) == Error.NONE
        topics = [{"name": "t", "partitions": [{"partition_index": 1}, {"partition_index": 2}]}]
        response = client.request_fields("OffsetDelete", 0, group_id=GROUP, topics=topics)
    assert response["error_code"] == Error.NONE
    assert response["topics"][0]["partitions"] == [
        {"partition_index": 2, "error_code": Error.UNKNOWN_TOPIC_OR_PARTITION},
        {"partition_index": 1, "error_code": Error.NONE},
    ]
    with QuietBroker(tmp_path) as broker:
        assert list(broker.broker.group_coordinator.coordinator.groups[GROUP].offsets) == [("t", 0)]
