"""A small running cluster, read for the doctor without Spark: records of `__consumer_offsets` and `__group_events`."""

import time
from typing import TYPE_CHECKING, Final

from slackwater.group.errors import PeerError
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC

if TYPE_CHECKING:
    from slackwater.client.consumer.records import ConsumerRecord
    from slackwater.doctor.diagnosis import DiagnosisRequest
    from slackwater.doctor.local.attribution import EventRow

MAX_RECORDS: Final = 100_000
"""Spark reads a cluster with more records than these: decoding them takes longer than starting Spark."""
_MAX_SILENCE_S: Final = 30.0


def read_cluster(request: "DiagnosisRequest") -> "list[EventRow] | None":
    """Return the rows of a cluster; None if it has more than MAX_RECORDS records."""
    from slackwater.doctor.local.records import OffsetsRecord, TextLine, group_event_rows, offsets_rows

    records = _read_records(request)
    if records is None:
        return None
    cluster = request.cluster or request.bootstrap
    offsets = (
        OffsetsRecord(
            cluster,
            OFFSETS_TOPIC,
            record.offset,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
        )
        for record in records
        if record.topic == OFFSETS_TOPIC
    )
    lines = (
        TextLine(cluster, EVENTS_TOPIC, record.offset, record.value.decode("utf-8", "replace"))
        for record in records
        if record.topic == EVENTS_TOPIC and record.value is not None
    )
    rows, _ = offsets_rows(offsets)
    return [*rows, *group_event_rows(lines)]


def _read_records(request: "DiagnosisRequest") -> "list[ConsumerRecord] | None":
    from slackwater.cli.options import API_TIMEOUT_S, silence_log
    from slackwater.client.admin import Admin
    from slackwater.client.consumer.consumer import Consumer

    silence_log()
    settings: dict[str, object] = {"default.api.timeout.ms": str(int(API_TIMEOUT_S * 1000)), **request.settings}
    settings["bootstrap.servers"] = request.bootstrap
    with Admin(settings) as admin:
        listed = {topic.name for topic in admin.list_topics(internal=True)}
    topics = [name for name in (OFFSETS_TOPIC, EVENTS_TOPIC) if name in listed]
    # read_committed: offsets of aborted transactions are not commits
    with Consumer(settings | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}) as consumer:
        partitions = [partition for topic in topics for partition in consumer.partitions_for(topic)]
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        if sum(ends[partition] - begins[partition] for partition in partitions) > MAX_RECORDS:
            return None
        unread = {partition for partition in partitions if ends[partition] > begins[partition]}
        consumer.assign(unread)
        records: list[ConsumerRecord] = []
        last_received_s = time.monotonic()
        while unread:
            polled = consumer.poll(timeout=1.0)
            records += polled
            unread = {partition for partition in unread if consumer.position(partition) < ends[partition]}
            last_received_s = time.monotonic() if polled else last_received_s
            if time.monotonic() - last_received_s > _MAX_SILENCE_S:
                raise PeerError(f"The cluster at {request.bootstrap} has not answered for {_MAX_SILENCE_S:.0f} s.")
        return records
