"""Writes records whose handler failed to the dead-letter topic, on its own thread."""

import queue
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.producer import Producer, RecordMetadata, UnknownTopicError
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, SlackwaterError, UsageError
from slackwater.group.work.effects import WriteDeadLetter

# The lines of Consumer.run have one logger, whichever module writes them.
log = get_logger("slackwater.client.consumer.runner")
MAX_BLOCK_MS: Final = 10_000
JOIN_TIMEOUT_S: Final = 1.0

OnWritten = Callable[[WriteDeadLetter[ConsumerRecord], SlackwaterError | None], None]


class DeadLetterWriter:
    """Adds headers with the origin and the error of a record, and writes it to another topic.

    The headers `dead-letter.error`, `dead-letter.topic`, `dead-letter.partition`, `dead-letter.offset` and
    `dead-letter.attempts` follow the headers of the record.
    """

    def __init__(self, topic: str, client_id: str, settings: Mapping[str, object]) -> None:
        self.topic = topic
        self._client_id = f"{client_id}-dead-letters"
        self._settings: dict[str, object] = {
            "max.block.ms": MAX_BLOCK_MS,
            **settings,
            "client.id": self._client_id,
        }
        self._queue: queue.SimpleQueue[WriteDeadLetter[ConsumerRecord] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=self._client_id, daemon=True)
        self._has_warned = False
        self._on_written: OnWritten = lambda _letter, _error: None

    def start(self, on_written: OnWritten) -> None:
        """Start the thread; `on_written` receives the outcome of every dead letter."""
        self._on_written = on_written
        self._thread.start()

    def put(self, letter: WriteDeadLetter[ConsumerRecord]) -> None:
        """Write this dead letter soon."""
        self._queue.put(letter)

    def stop(self) -> None:
        """End the thread; letters that are not delivered soon are dropped."""
        self._queue.put(None)
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        producer: Producer | None = None
        while (letter := self._queue.get()) is not None:
            try:
                producer = producer or Producer(self._settings)
                self._send(producer, letter)
            except SlackwaterError as error:
                self._on_delivery(letter, None, error)
        if producer is not None:
            try:
                producer.close(JOIN_TIMEOUT_S)
            except SlackwaterError as error:
                log.warning("Some dead letters were not written: %s", error)

    def _send(self, producer: Producer, letter: WriteDeadLetter[ConsumerRecord]) -> None:
        record = letter.record
        origin = {
            "error": repr(letter.error),
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "attempts": str(letter.attempts),
        }
        headers = [
            *record.headers,
            *((f"dead-letter.{name}", text.encode(errors="replace")) for name, text in origin.items()),
        ]
        on_delivery = partial(self._on_delivery, letter)
        producer.send(self.topic, record.value, record.key, headers=headers, on_delivery=on_delivery)

    def _on_delivery(
        self, letter: WriteDeadLetter[ConsumerRecord], _metadata: RecordMetadata | None, error: SlackwaterError | None
    ) -> None:
        if error is not None and not self._has_warned and not is_permanent(error):
            log.warning("Writing dead letters to %s failed and is retried: %s", self.topic, error)
        self._has_warned = error is not None
        self._on_written(letter, error)


def is_permanent(error: SlackwaterError) -> bool:
    """Whether a retry would fail too: the record is too large, writing is denied, or the topic does not exist."""
    return isinstance(error, UsageError | UnknownTopicError) or (
        isinstance(error, BrokerError) and not error.error.retriable
    )
