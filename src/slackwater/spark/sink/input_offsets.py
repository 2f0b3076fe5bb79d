"""Asks the application's control server for the input offsets of a batch, and for the members that own them."""

import json
import socket
from dataclasses import dataclass
from typing import Any, Final

from slackwater.client.errors import NetworkError
from slackwater.client.group_metadata import ConsumerGroupMetadata
from slackwater.group.errors import SlackwaterError
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.member.control_server import ControlAddress, parse_message

TIMEOUT_S: Final = 60.0
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024


class InputsRefusedError(SlackwaterError):
    """The input offsets of a batch cannot be committed."""


@dataclass(frozen=True, slots=True)
class GroupInputs:
    """The offsets that one source of a batch commits, and its member."""

    member: ConsumerGroupMetadata
    offsets: dict[TopicPartition, OffsetAndMetadata]


def request_inputs(control: ControlAddress, query_id: str, batch_id: int) -> list[GroupInputs]:
    """Return the inputs of a batch; one entry per source that is a group member."""
    hello = {"secret": control.secret, "sink": {"query": query_id, "batch": batch_id}}
    try:
        with socket.create_connection((control.host, control.port), timeout=TIMEOUT_S) as connection:
            connection.sendall(json.dumps({"hello": hello}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer = parse_message(lines.readline(MAX_ANSWER_BYTES))
    except (OSError, ValueError) as error:
        raise NetworkError(f"The driver cannot ask for the input offsets of batch {batch_id}: {error}.") from error
    if "refused" in answer:
        raise InputsRefusedError(str(answer["refused"]))
    return [_inputs(row) for row in answer["inputs"]]


def _inputs(row: dict[str, Any]) -> GroupInputs:
    member = ConsumerGroupMetadata(row["group"], row["generation"], row["member"], row["instance"])
    offsets = {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata=metadata)
        for topic, partition, offset, metadata in row["offsets"]
    }
    return GroupInputs(member, offsets)
