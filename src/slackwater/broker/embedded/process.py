"""The broker in a process of its own: `slackwater broker`, started and ended by us, asked over the wire.

Rules kept here
- The process ends with us, however we end: it stops when its standard input does.
- Ctrl-C in a terminal is for us: the process is in a session of its own.
- What it logs goes to a file; a start that fails is told with the program's own sentence.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from slackwater.broker.embedded.backend import MAX_READ_BYTES
from slackwater.broker.process import Address, show_address
from slackwater.broker.storage.topics import EVENTS_TOPIC
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.messages import DescribedGroup, DescribedMember
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.envelope import decode_response, encode_request
from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.schema import Request, Response

START_S: Final = 60.0
STOP_S: Final = 60.0
ANSWER_S: Final = 30.0
LISTENING: Final = "Slackwater broker listening on "
METRICS: Final = "Slackwater metrics at http://"
_FETCH_BY_NAME: Final = 12  # later versions want the topic's id
_OFFSETS_BY_NAME: Final = 9
_R = TypeVar("_R", bound=Response)


class ProcessBackend:
    """A broker in a process."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], listen: Address, metrics: Address | None, log: Path
    ) -> None:
        self._log = log
        command = [sys.executable, "-m", "slackwater", "broker", "--until-eof", "--data", str(directory)]
        command += ["--listen", show_address(*listen)]
        command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        if metrics is not None:
            command += ["--metrics", show_address(*metrics)]
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        self._paused = False
        try:
            self._read_lines(1 if metrics is None else 2)
            self._host = listen[0] if listen[0] not in ("0.0.0.0", "::") else "localhost"
        except BaseException:
            self._end(signal.SIGKILL)
            raise

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def stop(self, *, clean: bool) -> None:
        """End it; `clean=False` is a kill."""
        if clean:
            self.resume()
        code = self._end(signal.SIGTERM if clean else signal.SIGKILL)
        if clean and code != 0:
            raise SlackwaterError(
                f"The broker's process ended with code {code}. Its log ends with: {self._complaint()}"
            )

    def pause(self) -> None:
        """Answer nobody until `resume`."""
        self._paused = True
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on."""
        if self._paused:
            self._paused = False
            self._process.send_signal(signal.SIGCONT)

    # --- what it can be asked -----------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, or raise `BrokerError`."""
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=configs)
        answer = self._ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        _raise_if(answer.topics[0].error_code, answer.topics[0].error_message)

    def describe_group(self, group_id: str) -> DescribedGroup:
        """A group as the coordinator describes it."""
        (group,) = self._ask(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse).groups
        members = tuple(
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.member_metadata,
                member.member_assignment,
            )
            for member in group.members
        )
        error = Error(group.error_code)
        return DescribedGroup(group_id, error, group.group_state, group.protocol_type, group.protocol_data, members)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets a group has committed."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
        (group,) = self._ask(request, OffsetFetchResponse, _OFFSETS_BY_NAME).groups
        return {
            TopicPartition(topic.name, one.partition_index): one.committed_offset
            for topic in group.topics
            for one in topic.partitions
        }

    def events(self) -> list[GroupEvent]:
        """Everything that stands in `__group_events`."""
        found: list[GroupEvent] = []
        offset = 0
        while True:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MAX_READ_BYTES)
            request = FetchRequest(topics=[FetchTopic(topic=EVENTS_TOPIC, partitions=[partition])])
            answer = self._ask(request, FetchResponse, _FETCH_BY_NAME)
            _raise_if(answer.error_code, None)
            (data,) = answer.responses[0].partitions
            if data.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
                return []
            if data.error_code == Error.OFFSET_OUT_OF_RANGE and offset < data.log_start_offset:
                offset = data.log_start_offset
                continue
            _raise_if(data.error_code, None)
            for record in iter_records(data.records or b"", offset):
                found.append(GroupEvent.from_json((record.value or b"").decode()))
                offset = record.offset + 1
            if offset >= data.high_watermark:
                return found

    def _ask(self, request: Request, kind: type[_R], version: int | None = None) -> _R:
        version = request.API.latest_stable if version is None else version
        with socket.create_connection((self._host, self.port), ANSWER_S) as connection:
            connection.sendall(encode_request(request, version, 1, "slackwater-embedded"))
            with connection.makefile("rb") as reader:
                size = int.from_bytes(reader.read(4), "big")
                _, response = decode_response(kind, version, reader.read(size))
        return response

    # --- the process --------------------------------------------------------------------------------------------------

    def _read_lines(self, count: int) -> None:
        """Wait until it says where it listens."""
        stdout = self._process.stdout
        assert stdout is not None
        said, deadline = b"", time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while said.count(b"\n") < count:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise SlackwaterError(f"The broker's process did not start within {START_S:.0f} s.")
                came = os.read(stdout.fileno(), 4096)
                if not came:
                    self._process.wait(STOP_S)
                    raise UsageError(self._complaint())
                said += came
        ports: dict[str, int] = {}
        for line in said.decode().splitlines():
            for beginning in (LISTENING, METRICS):
                if line.startswith(beginning):
                    ports[beginning] = int(line.removesuffix("/metrics").rpartition(":")[2])
        self.port = ports[LISTENING]
        self.metrics_port = ports.get(METRICS)

    def _complaint(self) -> str:
        """The last thing it said: the sentence after `slackwater: ` if its start failed."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
        return lines[-1].removeprefix("slackwater: ")

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        process.send_signal(how)
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return code


def _raise_if(code: int, message: str | None) -> None:
    if code:
        raise BrokerError(Error(code), message or "")
