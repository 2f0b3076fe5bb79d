"""`slackwater consume`: print records as lines.

Invariants:
- Without a group all partitions are read and nothing is committed.
- In a group only printed records are committed: before partitions are revoked, every few seconds, and at the end.
- A closed output (`| head`) ends the command cleanly. Ctrl-C and SIGTERM commit and leave the group; exit codes 130 and
  143.
"""

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, Self

import typer

from slackwater.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    Settings,
    client_settings,
    log_to_stderr,
    open_admin,
)
from slackwater.cli.printing import discard_output
from slackwater.cli.record_lines import Format, to_json
from slackwater.escaping import escape_json
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    from slackwater.client.consumer.consumer import Consumer
    from slackwater.client.consumer.records import ConsumerRecord

COMMIT_INTERVAL_S: Final = 5.0
POLL_S: Final = 0.5
CLOSE_TIMEOUT_S: Final = 5.0  # leaving may wait for a rebalance that does not complete
MAX_POLL_RECORDS: Final = 500
_Handler = Callable[[int, FrameType | None], object] | int | None


def consume(
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.")],
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="GROUP", help="Join this group and commit.")
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Without a committed offset, start at the first record.")
    ] = False,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only this partition; repeatable. Not in a group.")
    ] = None,
    offset: Annotated[int | None, typer.Option(metavar="N", help="Start at this offset; needs --partition.")] = None,
    max_: Annotated[int | None, typer.Option("--max", "-n", metavar="N", help="Stop after this many records.")] = None,
    to_end: Annotated[
        bool, typer.Option("--to-end", help="Stop at the current end of the partitions. Not in a group.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop if no record arrives within this time.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", "-f", metavar="TEXT", help=r"%k key, %v value, %t topic, %p partition, %o offset, …"),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log at INFO level, to standard error: joins, assignments, losses.")
    ] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    set_: Settings = None,
    as_json: AsJson = False,
) -> None:
    r"""Print the records of topics, one per line, until Ctrl-C.

    --format has %k key, %v value, %t topic, %p partition, %o offset, %T timestamp, %h headers, %%, \n and \t; the
    default is %v\n. On a terminal, control characters of records are escaped. With --json a record is one line, which
    `produce --from-json` can read. With --set isolation.level=read_committed, records of open and aborted transactions
    are left out. Exit code 1 if --timeout ended it before --max records arrived, or before the end with --to-end.
    """
    if as_json and format_ is not None:
        raise UsageError("use --json or --format, not both.")
    if group is not None and (partition or offset is not None or to_end):
        raise UsageError("--partition, --offset and --to-end are for reading without a group.")
    if offset is not None and (not partition or len(partition) != 1 or len(topic) != 1):
        raise UsageError("--offset needs one topic and one --partition.")
    if max_ is not None and max_ < 1:
        raise UsageError(f"--max is {max_}; use 1 or more.")
    template = format_ if format_ is not None else r"%v\n"
    form = None if as_json else Format(template, is_terminal=sys.stdout.isatty())
    settings = client_settings(bootstrap, config, set_) | {
        "allow.auto.create.topics": "false",
        "enable.auto.commit": "false",
        "max.poll.records": str(min(max_ or MAX_POLL_RECORDS, MAX_POLL_RECORDS)),
    }
    settings.pop("group.id", None)
    if group is not None:
        settings["group.id"] = group
    if from_beginning:
        settings["auto.offset.reset"] = "earliest"
    from slackwater.client.consumer.consumer import Consumer

    with open_admin(bootstrap, config, set_) as admin:
        existing = [
            TopicPartition(described.name, partition.index)
            for described in admin.describe_topics(topic)
            for partition in described.partitions
        ]
    log_to_stderr(verbose=verbose)
    with Consumer(settings) as consumer, _Stop(consumer) as stop:
        reader = _Reader(consumer, form, max_)
        if group is not None:
            consumer.subscribe(topic, listener=reader)
        else:
            consumer.assign(_select(existing, partition))
            if offset is not None:
                consumer.seek(TopicPartition(topic[0], (partition or [0])[0]), offset)
        code = _run(consumer, reader, timeout, stop, to_end=to_end)
    if code:
        raise typer.Exit(code)


def _select(existing: list[TopicPartition], numbers: list[int] | None) -> list[TopicPartition]:
    """The partitions with these numbers, or all."""
    for topic in {partition.topic for partition in existing}:
        available = {partition.partition for partition in existing if partition.topic == topic}
        for number in numbers or ():
            if number not in available:
                raise UsageError(f"{topic} has no partition {number}; it has {len(available)}, starting at 0.")
    return [partition for partition in existing if not numbers or partition.partition in numbers]


def _run(consumer: "Consumer", reader: "_Reader", timeout: float | None, stop: "_Stop", *, to_end: bool) -> int:
    from slackwater.group.member import Wakeup

    code = 0
    try:
        try:
            code = reader.read(timeout, consumer.end_offsets(consumer.assignment) if to_end else None)
        except Wakeup:
            code = stop.code
        except BrokenPipeError:  # the reader has closed its end
            discard_output()
        if consumer.subscription:
            reader.commit()
    finally:
        consumer.close(CLOSE_TIMEOUT_S)
    return code


class _Reader:
    """Prints records and commits what was printed; the group's rebalance listener."""

    def __init__(self, consumer: "Consumer", form: Format | None, max_records: int | None) -> None:
        self._consumer = consumer
        self._form = form
        self._left = max_records
        self._printed: dict[TopicPartition, int] = {}
        self._committed_at = time.monotonic()

    def read(self, timeout: float | None, ends: dict[TopicPartition, int] | None) -> int:
        """Print records until a limit is reached; return the exit code."""
        received_at = time.monotonic()
        while self._left != 0:
            if ends is not None and all(self._consumer.position(partition) >= end for partition, end in ends.items()):
                return 0
            records = self._consumer.poll(POLL_S if timeout is None else min(POLL_S, timeout))
            if records:
                received_at = time.monotonic()
                self._print(
                    [record for record in records if ends is None or record.offset < ends[record.topic_partition]]
                )
            elif timeout is not None and time.monotonic() - received_at >= timeout:
                return 1 if self._left is not None or ends is not None else 0
            if time.monotonic() - self._committed_at > COMMIT_INTERVAL_S:
                self._try_commit()
        return 0

    def _print(self, records: "list[ConsumerRecord]") -> None:
        out, printed = sys.stdout.buffer, records[: self._left]
        for record in printed:
            out.write(self._line(record))
        out.flush()
        self._printed |= {record.topic_partition: record.offset + 1 for record in printed}
        if self._left is not None:
            self._left -= len(printed)

    def _line(self, record: "ConsumerRecord") -> bytes:
        if self._form is not None:
            return self._form.write(record)
        import json

        return escape_json(json.dumps(to_json(record), ensure_ascii=False)).encode() + b"\n"

    # Commits

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commit, so that the next owner continues after the printed records."""
        self.commit()

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Do nothing."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Forget these partitions: their new owners have already started."""
        for partition in partitions:
            self._printed.pop(partition, None)

    def _try_commit(self) -> None:
        """Commit; after a failure the next commit includes these offsets, or the records are printed again."""
        if self._consumer.subscription:
            try:
                self.commit()
            except SlackwaterError:
                return
        self._committed_at = time.monotonic()

    def commit(self) -> None:
        """Commit the printed records."""
        if self._printed:
            printed, self._printed = self._printed, {}
            self._consumer.commit(printed)
        self._committed_at = time.monotonic()


class _Stop:
    """The first SIGINT or SIGTERM wakes the poll and never interrupts a line; the second has its default effect."""

    def __init__(self, consumer: "Consumer") -> None:
        self._consumer = consumer
        self._before: dict[int, _Handler] = {}
        self.code = 0

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._restore()

    def _on_signal(self, number: int, frame: object) -> None:
        self.code = 128 + number
        self._restore()
        self._consumer.wakeup()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
