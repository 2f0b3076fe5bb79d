"""The interface between `Consumer.run` and its consumer."""

from asyncio import TimerHandle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from slackwater.client.config import PRODUCER_SETTINGS, int_value
from slackwater.client.consumer.engine import ConsumerEngine
from slackwater.client.consumer.rebalance_listener import AnyListener
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.errors import SlackwaterError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition


class RunContext:
    """The interface between the runner and the consumer.

    `lock` is the consumer's lock; the methods marked so are called with it held.
    """

    def __init__(self, engine: ConsumerEngine) -> None:
        self._engine = engine
        self.client_id = engine.client_id
        self.lock = engine.lock
        self.mutex = engine.mutex  # the lock of the condition: cheaper where nothing waits
        self.now_ms: Callable[[], int] = engine.clock.now_ms
        self.poll_bytes: Callable[[float], list[ConsumerRecord] | None] = engine.poll_bytes
        self.deserialize = engine.deserialize
        self.poll_without_records: Callable[[float], None] = engine.poll_without_records
        self.wakeup: Callable[[], None] = engine.wakeup

    @property
    def auto_commit_interval_ms(self) -> int:
        """The interval between commits."""
        return int_value(self._engine.settings, "auto.commit.interval.ms")

    @property
    def drain_timeout_s(self) -> float:
        """The maximum time that a revocation waits for handlers; the member then still joins and polls in time."""
        membership = self._engine.membership
        if membership is None:
            return 0.0
        config = membership.member.config
        timeout_ms = min(config.join_rebalance_timeout_ms, config.max_poll_interval_ms)
        return max(timeout_ms - 2 * config.heartbeat_interval_ms, timeout_ms // 2) / 1000

    def producer_settings(self) -> dict[str, object]:
        """Return the consumer's settings that a producer of unchanged records accepts."""
        return {
            name: value
            for name, value in self._engine.user_settings.items()
            if name in PRODUCER_SETTINGS and not name.endswith(".serializer")
        }

    @contextmanager
    def intercept_rebalances(self, make_listener: Callable[[AnyListener | None], AnyListener]) -> Iterator[None]:
        """Replace the application's listener by `make_listener(listener)`, and stop noting records as consumed."""
        engine = self._engine
        listener = engine.listener
        engine.listener = make_listener(listener)
        engine.tracks_consumed = False
        try:
            yield
        finally:
            engine.tracks_consumed = True
            engine.listener = listener

    # --- with the lock held -------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return self._engine.positions.partitions

    def position(self, partition: TopicPartition) -> int | None:
        """Return the position of a partition, or None if it is not assigned or has no position."""
        state = self._engine.positions.get(partition)
        return state.position if state is not None else None

    def set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Pause or resume those of the partitions that are assigned."""
        for partition in partitions:
            state = self._engine.positions.get(partition)
            if state is not None:
                state.paused = paused
        if not paused:
            self._engine.fetcher.schedule()

    def seek_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Move positions back to these offsets; positions that are already lower stay."""
        positions = self._engine.positions
        for partition, offset in offsets.items():
            state = positions.get(partition)
            if state is not None and state.position is not None and offset < state.position:
                positions.seek(state, offset)
        self._engine.fetcher.schedule()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        on_commit: Callable[[SlackwaterError | None], None],
        *,
        sync: bool = False,
    ) -> bool:
        """Commit offsets as consumed; False without a group."""
        membership = self._engine.membership
        if membership is None:
            return False
        committed = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        membership.member.set_consumed(committed)  # otherwise an auto-commit would commit older offsets
        membership.commit(committed, on_commit, sync=sync)
        return True

    # --- timers -------------------------------------------------------------------------------------------------------

    def call_soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Run something on the network thread."""
        self._engine.network.call_soon(work, *arguments)

    def call_at(self, due_ms: int, work: Callable[[], None]) -> TimerHandle:
        """Run something on the network thread at a time of `now_ms`. Called on the network thread."""
        delay_s = max(due_ms - self.now_ms(), 0) / 1000
        return self._engine.network.loop.call_later(delay_s, work)
