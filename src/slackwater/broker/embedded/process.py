"""A broker in a separate process: starts and stops `slackwater broker`, and sends requests over the wire.

Invariants:
- The process ends with this one: it stops at the end of its standard input.
- Ctrl-C in a terminal does not reach the process, because it has its own session.
- The process logs to a file. If its start fails, the error has the message of the process.
"""

import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from slackwater.broker.authentication.scram_credentials import NUMBERS
from slackwater.broker.embedded.backend import MAX_READ_BYTES
from slackwater.broker.embedded.security import BrokerSecurity, send_request
from slackwater.broker.startup import Address, show_address
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.internal_topics import EVENTS_TOPIC
from slackwater.group.messages import DescribedGroup, DescribedMember
from slackwater.group.topic_partition import TopicPartition
from slackwater.security.scram import MIN_ITERATIONS, ScramAlgorithm, salted_password
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from slackwater.wire.records.batch import end_offset
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.schema import Request, Response

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0
RESPONSE_TIMEOUT_S: Final = 30.0
LISTENING: Final = "Slackwater broker listening on "
METRICS: Final = "Slackwater metrics at http://"
_FETCH_BY_NAME: Final = 12  # later versions need the topic id
_OFFSETS_BY_NAME: Final = 9
_R = TypeVar("_R", bound=Response)


class ProcessBackend:
    """A broker in a separate process."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        listen: Address,
        metrics: Address | None,
        log: Path,
        *,
        security: BrokerSecurity | None = None,
        allow_anonymous: bool = False,
    ) -> None:
        self._log = log
        self._security = security
        command = [sys.executable, "-m", "slackwater", "broker", "--until-eof", "--data", str(directory)]
        if "listeners" not in settings:
            command += ["--listen", show_address(*listen)]
        if allow_anonymous:
            command.append("--allow-anonymous")
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
            self._stop_process(signal.SIGKILL)
            raise

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def stop(self, *, clean: bool) -> None:
        """Stop the broker; `clean=False` kills it."""
        if clean:
            self.resume()
        code = self._stop_process(signal.SIGTERM if clean else signal.SIGKILL)
        if clean and code != 0:
            raise SlackwaterError(
                f"The broker process exited with code {code}. Last line of its log: {self._last_log_line()}"
            )

    def pause(self) -> None:
        """Stop responding until `resume`."""
        self._paused = True
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._paused:
            self._paused = False
            self._process.send_signal(signal.SIGCONT)

    # --- topics, groups and events ---------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic, or raise `BrokerError`."""
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=configs)
        response = self._send(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        _raise_error(response.topics[0].error_code, response.topics[0].error_message)

    def set_scram_password(self, user: str, password: str, mechanism: str) -> None:
        """Create or replace a SCRAM credential, or raise `BrokerError`."""
        kind = ScramAlgorithm(mechanism)
        salt = secrets.token_bytes(24)
        salted = salted_password(kind, password, salt, MIN_ITERATIONS)
        change = ScramCredentialUpsertion(user, NUMBERS[kind], MIN_ITERATIONS, salt, salted)
        response = self._send(AlterUserScramCredentialsRequest([], [change]), AlterUserScramCredentialsResponse)
        _raise_error(response.results[0].error_code, response.results[0].error_message)

    def describe_group(self, group_id: str) -> DescribedGroup:
        """Return the coordinator's description of a group."""
        (group,) = self._send(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse).groups
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
        """Return the committed offsets of a group."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
        (group,) = self._send(request, OffsetFetchResponse, _OFFSETS_BY_NAME).groups
        return {
            TopicPartition(topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }

    def events(self) -> list[GroupEvent]:
        """Read all events of `__group_events`."""
        events: list[GroupEvent] = []
        offset = 0
        while True:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MAX_READ_BYTES)
            request = FetchRequest(topics=[FetchTopic(topic=EVENTS_TOPIC, partitions=[partition])])
            response = self._send(request, FetchResponse, _FETCH_BY_NAME)
            _raise_error(response.error_code, None)
            (data,) = response.responses[0].partitions
            if data.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
                return []
            if data.error_code == Error.OFFSET_OUT_OF_RANGE and offset < data.log_start_offset:
                offset = data.log_start_offset
                continue
            _raise_error(data.error_code, None)
            records = data.records or b""
            events += (GroupEvent.from_json((record.value or b"").decode()) for record in iter_records(records, offset))
            next_offset = end_offset(records)  # of the batches: compaction may have removed the last records
            if next_offset is None or next_offset >= data.high_watermark:
                return events
            offset = next_offset

    def _send(self, request: Request, kind: type[_R], version: int | None = None) -> _R:
        version = request.API.latest_stable if version is None else version
        connect = socket.create_connection if self._security is None else self._security.connect
        with connect((self._host, self.port), RESPONSE_TIMEOUT_S) as connection:
            return send_request(connection, request, kind, version)

    # --- the process --------------------------------------------------------------------------------------------------

    def _read_lines(self, count: int) -> None:
        """Read the lines with the ports of the broker and the metrics page."""
        stdout = self._process.stdout
        assert stdout is not None
        output, deadline = b"", time.monotonic() + START_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while output.count(b"\n") < count:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise SlackwaterError(f"The broker process did not start within {START_TIMEOUT_S:.0f} s.")
                chunk = os.read(stdout.fileno(), 4096)
                if not chunk:
                    self._process.wait(STOP_TIMEOUT_S)
                    raise UsageError(self._last_log_line())
                output += chunk
        ports: dict[str, int] = {}
        for line in output.decode().splitlines():
            for prefix in (LISTENING, METRICS):
                if line.startswith(prefix):
                    ports[prefix] = int(line.removesuffix("/metrics").rpartition(":")[2])
        self.port = ports[LISTENING]
        self.metrics_port = ports.get(METRICS)

    def _last_log_line(self) -> str:
        """Return the last line of the log, without the prefix `slackwater: `."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["(empty)"]
        return lines[-1].removeprefix("slackwater: ")

    def _stop_process(self, with_signal: signal.Signals) -> int:
        process = self._process
        process.send_signal(with_signal)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return code


def _raise_error(code: int, message: str | None) -> None:
    if code:
        raise BrokerError(Error(code), message or "")
