"""`slackwater produce`: lines in, records out.

Rules kept here
- Every line that was read is written or told as lost; exit code 1 means that some were not written.
- Ctrl-C stops reading; what was read is still delivered.
"""

import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from slackwater.cli.connecting import (
    AsJson,
    Bootstrap,
    ConfigFile,
    Settings,
    administrator,
    aloud,
    client_settings,
    pairs,
)
from slackwater.cli.lines import Outgoing, from_json, from_text, unescaped
from slackwater.cli.printing import count, emit, warn
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.client.producer import RecordMetadata

MAX_BLOCK_MS: Final = "5000"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Read from here; else standard input.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help=r"A line is key, this, value; \t is a tab."),
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

    With --json every record that was written is one line: topic, partition, offset, timestamp. Exit code 1 if some
    could not be written.
    """
    if json_lines and (key_separator is not None or key is not None):
        raise UsageError("--from-json lines have their own keys; leave out --key and --key-separator.")
    if key is not None and key_separator is not None:
        raise UsageError("use --key or --key-separator, not both.")
    if key_separator == "":
        raise UsageError("--key-separator is empty; use a text that stands between key and value.")
    headers = tuple((name, value.encode()) for name, value in pairs(header or (), "--header").items())
    separator = unescaped(key_separator).encode() if key_separator is not None else None
    from slackwater.client.producer import Producer

    settings = {"max.block.ms": MAX_BLOCK_MS} | client_settings(bootstrap, config, set_)
    with administrator(bootstrap, config) as admin:
        admin.brokers()  # a cluster that is not there is told at once
    aloud()
    interrupted, mistake = False, None
    with _opened(file) as source, Producer(settings) as producer:
        account = _Account(as_json)
        try:
            for record in _records(source, separator, json_lines):
                account.expect(
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
            mistake = error
        producer.flush()
        account.settle(wait=True)
    account.tell(topic)
    if mistake is not None:
        raise mistake
    if account.failed:
        raise typer.Exit(1)
    if interrupted:
        raise typer.Exit(130)


class _Account:
    """What became of the records, in the order in which they were read."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._due: deque[Future[RecordMetadata]] = deque()
        self.written = 0
        self.failed = 0
        self._why: BaseException | None = None

    def expect(self, delivered: "Future[RecordMetadata]") -> None:
        """A record was sent."""
        self._due.append(delivered)
        self.settle(wait=False)

    def settle(self, *, wait: bool) -> None:
        """Take note of what has been delivered by now, or of everything."""
        while self._due and (wait or self._due[0].done()):
            delivered = self._due.popleft()
            error = delivered.exception()
            if error is not None:
                self.failed += 1
                self._why = self._why or error
                continue
            self.written += 1
            if self._as_json:
                at = delivered.result()
                emit({"topic": at.topic, "partition": at.partition, "offset": at.offset, "timestamp": at.timestamp})

    def tell(self, topic: str) -> None:
        """The whole account."""
        if not self._as_json:
            typer.echo(f"Wrote {count(self.written, 'record')} to {topic}.")
        if self.failed:
            warn(f"{count(self.failed, 'record was', 'records were')} not written: {self._why}")


@contextmanager
def _opened(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    with source:
        yield source


def _records(source: BinaryIO, separator: bytes | None, json_lines: bool) -> Iterator[Outgoing]:
    for number, line in enumerate(source, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if json_lines:
            if text.strip():
                yield from_json(text, number)
        else:
            yield from_text(text, separator, number)
