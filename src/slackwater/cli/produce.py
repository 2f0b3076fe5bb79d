"""`slackwater produce`: write lines as records.

Invariants:
- Every line that was read is written, or reported as failed; exit code 1 means that some were not written.
- Without a transaction, Ctrl-C stops reading; records already read are still delivered.
- With transactional.id all records are one transaction. The end of the input commits it. It is aborted by Ctrl-C, and
  if a line is wrong or a record is not written.
"""

import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

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
from slackwater.cli.pairs import parse_pairs
from slackwater.cli.printing import count, emit, print_line, warn
from slackwater.cli.record_lines import InputRecord, from_json, from_text, unescape
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.client.producer import RecordMetadata

MAX_BLOCK_MS: Final = "5000"
TRANSACTION_TIMEOUT_S: Final = 60.0


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="The input file [default: standard input]")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help=r"The text between key and value; \t is a tab."),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The key of every record.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of every record; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option(metavar="N", help="Write to this partition.")] = None,
    json_lines: Annotated[
        bool, typer.Option("--from-json", help="Lines are JSON objects, as `consume --json` prints them.")
    ] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    set_: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the lines of standard input, or of a file, to a topic: one record each.

    With --json every written record is one line: topic, partition, offset, timestamp. Exit code 1 if some
    could not be written. With --set transactional.id=ID all records are one transaction: the end of the input commits
    it. If a line is wrong, a record cannot be written, or Ctrl-C stops the command, it is aborted.
    """
    if json_lines and (key_separator is not None or key is not None):
        raise UsageError("--from-json lines contain their keys; remove --key and --key-separator.")
    if key is not None and key_separator is not None:
        raise UsageError("use --key or --key-separator, not both.")
    if key_separator == "":
        raise UsageError("--key-separator is empty. Use the text between key and value.")
    headers = tuple((name, value.encode()) for name, value in parse_pairs(header or (), "--header").items())
    separator = unescape(key_separator).encode() if key_separator is not None else None
    from slackwater.client.config import PRODUCER_SETTINGS, parse_settings
    from slackwater.client.producer import Producer

    settings = {"max.block.ms": MAX_BLOCK_MS} | client_settings(bootstrap, config, set_)
    parse_settings(settings, PRODUCER_SETTINGS, ignored=lambda _: None)  # the admin client does not know their names
    with open_admin(bootstrap, config, set_) as admin:
        admin.brokers()  # fail early if the cluster cannot be reached
    log_to_stderr()
    interrupted, usage_error = False, None
    with _open_input(file) as source, Producer(settings) as producer:
        deliveries = _Deliveries(as_json)
        is_transaction = bool(settings.get("transactional.id"))
        if is_transaction:
            producer.init_transactions(TRANSACTION_TIMEOUT_S)
            producer.begin_transaction()
        try:
            for record in _records(source, separator, json_lines):
                deliveries.expect(
                    producer.send(
                        topic,
                        record.value,
                        key if key is not None else record.key,
                        partition=partition if partition is not None else record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=(*record.headers, *headers),
                    )
                )
        except KeyboardInterrupt:
            interrupted = True
        except UsageError as error:
            usage_error = error
        if is_transaction and interrupted:
            producer.abort_transaction(TRANSACTION_TIMEOUT_S)
            warn("Interrupted: the transaction was aborted, so read_committed consumers get none of its records.")
            raise typer.Exit(130)
        producer.flush()
        deliveries.settle(wait=True)
        if is_transaction and usage_error is None:
            producer.commit_transaction(TRANSACTION_TIMEOUT_S)
    if usage_error is None or not is_transaction:
        deliveries.print_summary(topic)
    if usage_error is not None:
        raise usage_error
    if deliveries.failed:
        raise typer.Exit(1)
    if interrupted:
        raise typer.Exit(130)


class _Deliveries:
    """The outcome of each record, in the order of the input."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._pending: deque[Future[RecordMetadata]] = deque()
        self.written = 0
        self.failed = 0
        self._first_error: BaseException | None = None

    def expect(self, delivered: "Future[RecordMetadata]") -> None:
        """Add a sent record."""
        self._pending.append(delivered)
        self.settle(wait=False)

    def settle(self, *, wait: bool) -> None:
        """Count the records delivered so far, or wait for all of them."""
        while self._pending and (wait or self._pending[0].done()):
            delivered = self._pending.popleft()
            error = delivered.exception()
            if error is not None:
                self.failed += 1
                self._first_error = self._first_error or error
                continue
            self.written += 1
            if self._as_json:
                record = delivered.result()
                emit(
                    {
                        "topic": record.topic,
                        "partition": record.partition,
                        "offset": record.offset,
                        "timestamp": record.timestamp,
                    }
                )

    def print_summary(self, topic: str) -> None:
        """Print how many records were written and how many failed."""
        if not self._as_json:
            print_line(f"Wrote {count(self.written, 'record')} to {topic}.")
        if self.failed:
            warn(f"{count(self.failed, 'record was', 'records were')} not written: {self._first_error}")


@contextmanager
def _open_input(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    with source:
        yield source


def _records(source: BinaryIO, separator: bytes | None, json_lines: bool) -> Iterator[InputRecord]:
    for number, line in enumerate(source, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if json_lines:
            if text.strip():
                yield from_json(text, number)
        else:
            yield from_text(text, separator, number)
