"""A raw client that knows the requests a test of abuse needs: topics, records, offsets, a group of one member."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
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

# The last versions that name topics; later ones have their ids.
PRODUCE_V = 12
FETCH_V = 12
COMMIT_V = 9
OFFSETS_V = 9
READ_BYTES = 4 * 1024 * 1024


_opened: list["RawClient"] = []
P = ParamSpec("P")


def closing(story: Callable[P, Awaitable[None]]) -> Callable[P, Coroutine[None, None, None]]:
    """A story at whose end every client is closed, whatever became of it."""

    async def whole(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            await story(*args, **kwargs)
        finally:
            for client in _opened:
                client.abort()
            _opened.clear()
            await asyncio.sleep(0.001)  # the loop hears that they are gone

    return whole


class RawClient(Client):
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        super().__init__(reader, writer, client_id)
        _opened.append(self)

    def abort(self) -> None:
        """Close, and send nothing more."""
        self._writer.transport.abort()

    @classmethod
    async def at(cls, port: int, client_id: str = "client") -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port), client_id)

    def send_bytes(self, data: bytes) -> None:
        """Send what is no request."""
        self._writer.write(data)

    def expect(self, number: int, kind: type[Response], version: int) -> None:
        """What was sent as bytes is a request after all, and this is its answer."""
        self._sent.append((number, kind, version))

    @property
    def unsent_bytes(self) -> int:
        """How much of what was sent the broker has not even let into its socket."""
        return self._writer.transport.get_write_buffer_size()

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Error:
        own = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        wanted = CreatableTopic(name, partitions, 1, configs=own)
        answer = await self.ask(CreateTopicsRequest([wanted]), CreateTopicsResponse)
        return Error(answer.topics[0].error_code)

    async def delete_topic(self, name: str) -> Error:
        answer = await self.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), DeleteTopicsResponse, 5)
        return Error(answer.responses[0].error_code)

    async def topics(self) -> dict[str, int]:
        """Every topic, and how many partitions it has."""
        answer = await self.ask(MetadataRequest(topics=None), MetadataResponse)
        return {topic.name or "": len(topic.partitions) for topic in answer.topics}

    async def groups(self) -> list[str]:
        answer = await self.ask(ListGroupsRequest(), ListGroupsResponse)
        assert answer.error_code == 0
        return [group.group_id for group in answer.groups]

    def send_batch(self, topic: str, partition: int, batch: bytes | bytearray, acks: int = -1) -> None:
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, bytes(batch))])
        self.send(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data]), PRODUCE_V)

    async def produced(self) -> PartitionProduceResponse:
        """The next answer, which is one to `send_batch`."""
        answer = await self.answer()
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    async def produce(self, topic: str, partition: int, *values: bytes, acks: int = -1) -> tuple[Error, int]:
        """Write records as one batch; the error and the first offset."""
        self.send_batch(topic, partition, encode_batch(Record(None, value, timestamp=1) for value in values), acks)
        answer = await self.produced()
        return Error(answer.error_code), answer.base_offset

    async def end_offset(self, topic: str, partition: int) -> int:
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])
        answer = await self.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0, found
        return found.offset

    async def fetch(self, topic: str, partition: int, offset: int) -> bytes:
        """Whole batches from an offset on; nothing at the end."""
        asked = FetchTopic(
            topic, partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)]
        )
        answer = await self.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[asked]), FetchResponse, FETCH_V)
        assert answer.error_code == 0, answer
        found = answer.responses[0].partitions[0]
        assert found.error_code == 0, found
        return bytes(found.records or b"")

    async def records(self, topic: str, partition: int, offset: int = 0) -> list[Record]:
        """Everything from an offset on."""
        records: list[Record] = []
        while data := await self.fetch(topic, partition, offset):
            for batch in iter_batches(data):
                records += [record for record in decode_records(batch) if record.offset >= offset]
                offset = batch.next_offset
        return records

    async def producer_id(self) -> int:
        """A new idempotent producer's id; its epoch is 0."""
        answer = await self.ask(InitProducerIdRequest(None, 60_000), InitProducerIdResponse)
        assert (answer.error_code, answer.producer_epoch) == (0, 0), answer
        return answer.producer_id

    def send_commit(
        self, group: str, offsets: Mapping[tuple[str, int], int], member_id: str = "", generation: int = -1
    ) -> None:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            one = topics.setdefault(topic, OffsetCommitRequestTopic(topic))
            one.partitions.append(OffsetCommitRequestPartition(partition, offset))
        self.send(OffsetCommitRequest(group, generation, member_id, topics=list(topics.values())), COMMIT_V)

    async def committed_errors(self) -> set[Error]:
        """The next answer, which is one to `send_commit`: the errors of its partitions."""
        answer = await self.answer()
        assert isinstance(answer, OffsetCommitResponse)
        return {Error(one.error_code) for topic in answer.topics for one in topic.partitions}

    async def commit(
        self, group: str, offsets: Mapping[tuple[str, int], int], member_id: str = "", generation: int = -1
    ) -> Error:
        self.send_commit(group, offsets, member_id, generation)
        (error,) = await self.committed_errors()
        return error

    async def committed(self, group: str, topic: str, partitions: Iterable[int]) -> list[int]:
        """Committed offsets, -1 where there is none."""
        asked = OffsetFetchRequestGroup(
            group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[*partitions])]
        )
        answer = await self.ask(OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, OFFSETS_V)
        assert answer.groups[0].error_code == 0, answer
        return [one.committed_offset for one in answer.groups[0].topics[0].partitions]

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
        # Before v4 a member needs no id to join.
        joined = await self.client.ask(self.join_request(self.member_id), JoinGroupResponse, 3)
        assert joined.error_code == 0, joined
        self.member_id, self.generation = joined.member_id, joined.generation_id
        mine = SyncGroupRequestAssignment(self.member_id, b"all")
        wanted = SyncGroupRequest(self.group, self.generation, self.member_id, assignments=[mine])
        synced = await self.client.ask(wanted, SyncGroupResponse, 3)
        assert synced.error_code == 0, synced

    async def heartbeat(self) -> Error:
        beat = HeartbeatRequest(self.group, self.generation, self.member_id)
        return Error((await self.client.ask(beat, HeartbeatResponse)).error_code)
