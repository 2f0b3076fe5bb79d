"""DescribeLogDirs: the data directory and the partition sizes."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.broker.storage.log.partition_log import AppendOrigin
from slackwater.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from slackwater.wire.records.record import Record, encode_batch

from ..server_client import Client, with_server


def test_sizes_match_the_files(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        server.broker.topics.create("other", 1)
        batch = encode_batch([Record(b"k", b"v" * 100)])
        topic.partitions[1].log.append(batch, 0, AppendOrigin.COORDINATOR)
        size = (tmp_path / "t-1" / "00000000000000000000.log").stat().st_size
        assert size > 100
        client = await Client.connect(server)
        for requested, expected in (
            (None, [("t", [(0, 0), (1, size)]), ("other", [(0, 0)])]),
            ([DescribableLogDirTopic("t", [1, 9]), DescribableLogDirTopic("nix", [0])], [("t", [(1, size)])]),
            ([DescribableLogDirTopic("t", [9])], []),
            ([], []),
        ):
            response = await client.request(DescribeLogDirsRequest(requested), DescribeLogDirsResponse)
            (directory,) = response.results
            assert (directory.error_code, directory.log_dir, directory.is_cordoned) == (0, str(tmp_path), False)
            assert 0 < directory.usable_bytes <= directory.total_bytes
            assert [
                (
                    topic_result.name,
                    [(partition.partition_index, partition.partition_size) for partition in topic_result.partitions],
                )
                for topic_result in directory.topics
            ] == expected
        client.close()

    with_server(tmp_path, scenario)
