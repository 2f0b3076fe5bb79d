"""A raw client with methods for topics, records, offsets and a group with one member."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ParamSpec, Self

from slackwater.group.errors import Error
from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from slackwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from slackwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from slackwater.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from slackwater.wire.records.batch import iter_batches
from slackwater.wire.records.record import Record, decode_records, encode_batch
from slackwater.wire.schema import Response

from .server_client import Client

# The last versions with topic names; later versions have topic ids.
PRODUCE_V = 12
FETCH_V = 12
COMMIT_V = 9
OFFSETS_V = 9
READ_BYTES = 4 * 1024 * 1024


_opened: list["RawClient"] = []
P = ParamSpec("P")


def closing(scenario: Callable[P, Awaitable[None]]) -> Callable[P, Coroutine[None, None, None]]:
    """Close every client at the end of a scenario, also after a failure."""

    async def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            await scenario(*args, **kwargs)
        finally:
            for client in list(_opened):
                client.abort()
            await asyncio.sleep(0.001)  # let the loop process the closed connections

    return run


class RawClient(Client):
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        super().__init__(reader, writer, client_id)
        _opened.append(self)

    def abort(self) -> None:
        """Close without sending buffered data."""
        self._writer.transport.abort()
        with suppress(ValueError):  # it was closed before
            _opened.remove(self)

    @classmethod
    async def at(cls, port: int, client_id: str = "client") -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port), client_id)

    def expect(self, number: int, kind: type[Response], version: int) -> None:
        """Expect a response to a request that was sent with `send_bytes`."""
        self._sent.append((number, kind, version))

    @property
    def unsent_bytes(self) -> int:
        """Bytes that are still in the client's write buffer."""
        return self._writer.transport.get_write_buffer_size()

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Error:
        topic_configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, 1, configs=topic_configs)
        response = await self.request(CreateTopicsRequest([topic]), CreateTopicsResponse)
        return Error(response.topics[0].error_code)

    async def delete_topic(self, name: str) -> Error:
        response = await self.request(
            DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), DeleteTopicsResponse, 5
        )
        return Error(response.responses[0].error_code)

    async def topics(self) -> dict[str, int]:
        """All topics with their numbers of partitions."""
        response = await self.request(MetadataRequest(topics=None), MetadataResponse)
        return {topic.name or "": len(topic.partitions) for topic in response.topics}

    async def groups(self) -> list[str]:
        response = await self.request(ListGroupsRequest(), ListGroupsResponse)
        assert response.error_code == 0
        return [group.group_id for group in response.groups]

    def send_batch(self, topic: str, partition: int, batch: bytes | bytearray, acks: int = -1) -> None:
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, bytes(batch))])
        self.send(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data]), PRODUCE_V)

    async def next_produce_response(self) -> PartitionProduceResponse:
        """Return the next response, to a `send_batch`."""
        response = await self.next_response()
        assert isinstance(response, ProduceResponse)
        return response.responses[0].partition_responses[0]

    async def produce(self, topic: str, partition: int, *values: bytes, acks: int = -1) -> tuple[Error, int]:
        """Write records as one batch; return the error and the base offset."""
        self.send_batch(topic, partition, encode_batch(Record(None, value, timestamp=1) for value in values), acks)
        response = await self.next_produce_response()
        return Error(response.error_code), response.base_offset

    async def end_offset(self, topic: str, partition: int) -> int:
        requested = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])
        response = await self.request(ListOffsetsRequest(replica_id=-1, topics=[requested]), ListOffsetsResponse)
        result = response.topics[0].partitions[0]
        assert result.error_code == 0, result
        return result.offset

    async def fetch(self, topic: str, partition: int, offset: int) -> bytes:
        """Return complete batches from an offset on; empty at the end of the log."""
        requested = FetchTopic(
            topic, partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)]
        )
        response = await self.request(
            FetchRequest(max_wait_ms=0, min_bytes=1, topics=[requested]), FetchResponse, FETCH_V
        )
        assert response.error_code == 0, response
        data = response.responses[0].partitions[0]
        assert data.error_code == 0, data
        return bytes(data.records or b"")

    async def records(self, topic: str, partition: int, offset: int = 0) -> list[Record]:
        """Return all records from an offset on."""
        records: list[Record] = []
        while data := await self.fetch(topic, partition, offset):
            for batch in iter_batches(data):
                records += [record for record in decode_records(batch) if record.offset >= offset]
                offset = batch.next_offset
        return records

    async def producer_id(self) -> int:
        """Request a producer id, with epoch 0."""
        response = await self.request(InitProducerIdRequest(None, 60_000), InitProducerIdResponse)
        assert (response.error_code, response.producer_epoch) == (0, 0), response
        return response.producer_id

    def send_commit(
        self, group: str, offsets: Mapping[tuple[str, int], int], member_id: str = "", generation: int = -1
    ) -> None:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            requested = topics.setdefault(topic, OffsetCommitRequestTopic(topic))
            requested.partitions.append(OffsetCommitRequestPartition(partition, offset))
        self.send(OffsetCommitRequest(group, generation, member_id, topics=list(topics.values())), COMMIT_V)

    async def next_commit_errors(self) -> set[Error]:
        """Return the partition errors of the next response, to a `send_commit`."""
        response = await self.next_response()
        assert isinstance(response, OffsetCommitResponse)
        return {Error(partition.error_code) for topic in response.topics for partition in topic.partitions}

    async def commit(
        self, group: str, offsets: Mapping[tuple[str, int], int], member_id: str = "", generation: int = -1
    ) -> Error:
        self.send_commit(group, offsets, member_id, generation)
        (error,) = await self.next_commit_errors()
        return error

    async def committed(self, group: str, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return committed offsets; -1 for a partition without one."""
        requested = OffsetFetchRequestGroup(
            group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[*partitions])]
        )
        response = await self.request(OffsetFetchRequest(groups=[requested]), OffsetFetchResponse, OFFSETS_V)
        assert response.groups[0].error_code == 0, response
        return [partition.committed_offset for partition in response.groups[0].topics[0].partitions]

    async def join_alone(self, group: str = "g", session_timeout_ms: int = 30_000) -> "Membership":
        """Become the only member of a group."""
        member = Membership(self, group, session_timeout_ms)
        await member.rejoin()
        return member


@dataclass
class Membership:
    """The only member of a group, and its connection."""

    client: RawClient
    group: str
    session_timeout_ms: int
    member_id: str = ""
    generation: int = -1

    def join_request(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.session_timeout_ms,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"")],
        )

    async def rejoin(self) -> None:
        error = await self.try_rejoin()
        assert error is Error.NONE, error

    async def try_rejoin(self) -> Error:
        # Up to v3 a member joins without a member id.
        joined = await self.client.request(self.join_request(self.member_id), JoinGroupResponse, 3)
        if joined.error_code:
            return Error(joined.error_code)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assignment = SyncGroupRequestAssignment(self.member_id, b"all")
        sync = SyncGroupRequest(self.group, self.generation, self.member_id, assignments=[assignment])
        return Error((await self.client.request(sync, SyncGroupResponse, 3)).error_code)

    async def heartbeat(self) -> Error:
        heartbeat_request = HeartbeatRequest(self.group, self.generation, self.member_id)
        return Error((await self.client.request(heartbeat_request, HeartbeatResponse)).error_code)
