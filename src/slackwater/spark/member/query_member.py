"""A query as a member of its group: the core's machines at work in the process that Spark keeps for the source.

Rules kept here
- Two machines, one lock: the member of the group (`client.membership`) and the batches of the query (`group.member`).
  What the group says reaches the batches on a thread of its own, at once, whatever Spark does meanwhile.
- Effects of the batches are carried out in the order they came in, one at a time, however deep the calls are.
- What goes wrong for good is raised at Spark's next call (`failure`).
- The process timer runs while a batch runs and the user's process can be heard; it starts anew with every call of Spark
  and every task that ended. Whoever lets it run out leaves the group, says why, and joins again at Spark's next call.
"""

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from slackwater.client.config import CONSUMER_SETTINGS, cluster_config, parse_settings
from slackwater.client.consumer.config import (
    STRATEGY,
    default_client_id,
    member_config,
    parse_assignors,
    warn_about_settings,
)
from slackwater.client.consumer.event_publisher import EventPublisher
from slackwater.client.consumer.log_lines import LogLines, consumer_prefix
from slackwater.client.consumer.membership import Membership
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.maintenance import run_maintenance
from slackwater.client.network.thread import NetworkThread
from slackwater.clock import Clock
from slackwater.group.batches.effects import (
    BatchEffect,
    BatchEvent,
    BatchEventKind,
    CommitBatchOffsets,
    FetchCommitted,
    HoldPartitions,
    ReleasePartitions,
)
from slackwater.group.batches.machine import BatchPlanner
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.member import (
    Callback,
    FencedInstanceId,
    MemberConfig,
    NotifyListener,
    OffsetAndMetadata,
    Raise,
    RebalanceDriver,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import Value
from slackwater.spark.member.control_client import ControlClient
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.source.options import SourceOptions

log = logging.getLogger("slackwater.spark.member.query_member")
COOPERATIVE: Final = "cooperative-sticky"
STATIC_SESSION_MS: Final = 120_000
SESSION: Final = "session.timeout.ms"
CLOSE_S: Final = 5.0
LAST_WORD_S: Final = 2.0


class QueryClient:
    """The cluster, and the thread its connections live on, for one run of a query."""

    def __init__(self, options: SourceOptions) -> None:
        settings = dict(options.kafka)
        self.strategy = settings.pop(STRATEGY, COOPERATIVE)
        if options.group_instance_id is not None:
            settings.setdefault(SESSION, str(STATIC_SESSION_MS))
        self.values: Mapping[str, Value] = parse_settings(settings, CONSUMER_SETTINGS, ignored=lambda _name: None)
        group_id = options.group_id or ""
        self.client_id = str(self.values["client.id"]) or default_client_id(group_id)
        self.prefix = consumer_prefix(self.client_id, group_id, options.group_instance_id)
        brokers = replace(cluster_config(self.values, self.client_id), log_prefix=self.prefix)
        self.network = NetworkThread(f"slackwater-{self.client_id}")
        self.cluster: Cluster = self.network.run(Cluster.create(brokers))

    def member_config(self) -> MemberConfig:
        """What the group member takes."""
        config = member_config(self.values, self.client_id, parse_assignors(self.strategy))
        return replace(config, driver=RebalanceDriver.BACKGROUND, enable_auto_commit=False)

    def close(self) -> None:
        """Let go of everything."""
        self.network.run(self.cluster.close(), CLOSE_S)
        self.network.close()


class QueryMember:
    """One query in one group, for one run."""

    def __init__(
        self,
        home: QueryClient,
        options: SourceOptions,
        batches: BatchPlanner,
        changed: threading.Condition,
        clock: Clock,
        control: ControlAddress | None,
    ) -> None:
        config = home.member_config()
        self.batches = batches
        self.changed = changed
        self.failure: SlackwaterError | None = None
        self.joined = False
        self._home = home
        self._options = options
        self._clock = clock
        self._lines = LogLines(home.client_id, config.group_id, config.group_instance_id)
        publish = bool(home.values["group.events.publish"])
        self._publisher = EventPublisher(home.cluster, home.network) if publish else None
        self._membership = Membership(
            config,
            home.cluster,
            home.network,
            changed,
            clock=clock,
            on_event=self._tell,
            on_request=self._lines.log_request,
        )
        self._waiting: deque[BatchEffect] = deque()
        self._carrying = False
        self._alive_ms = clock.now_ms()
        self._is_out = False
        self._over = False
        self._bare_told = False
        self._stateful = False
        self._stateful_told = False
        self._line: ControlClient | None = None
        self._control = control
        self._last_word = threading.Event()
        warn_about_settings(config)
        if (notice := self._membership.member.eager_background_warning) is not None:
            log.warning("%s%s", home.prefix, notice)

    @property
    def config(self) -> MemberConfig:
        """The settings."""
        return self._membership.member.config

    @property
    def generation_id(self) -> int:
        """The generation, -1 when there is none."""
        return self._membership.member.generation_id

    @property
    def member_id(self) -> str:
        """The id the coordinator gave."""
        return self._membership.member.member_id

    @property
    def protocol_name(self) -> str | None:
        """The assignor the group agreed on."""
        return self._membership.member.protocol_name

    @property
    def is_settled(self) -> bool:
        """Whether the group has given what it has to give, for now."""
        return self.joined and not self._membership.member.needs_rejoin

    def begin(self) -> None:
        """Join, and hear the user's process."""
        self._open_line()
        self._subscribe()
        threading.Thread(target=self._serve, name=f"slackwater-member-{self._home.client_id}", daemon=True).start()
        self._home.network.submit(run_maintenance(self._home.cluster, self._membership.refresh))

    def _subscribe(self) -> None:
        pattern, topics = self._options.subscribe_pattern, self._options.subscribe or ()
        if pattern is not None:
            self._membership.do(lambda member, now_ms: member.subscribe_pattern(pattern, now_ms))
        else:
            self._membership.do(lambda member, now_ms: member.subscribe(topics, now_ms))

    # --- Spark's side -------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Spark has called, or something of the batch has ended: the query is alive."""
        with self.changed:
            self._alive_ms = self._clock.now_ms()
            member = self._membership.member
            if self._is_out and not member.is_notifying_listener and not member.owned:
                self._is_out = False
                log.info("%sThe query goes on; joining again.", self._home.prefix)
                self._subscribe()

    def finished(self, seq: int) -> None:
        """Everything up to this batch is done."""
        with self.changed:
            self.carry(self.batches.on_finished(seq, self._clock.now_ms()))

    def stop(self) -> None:
        """Commit what is finished, and leave; a static member stays for its next run."""
        if self.batches.is_running and self._line is not None and self._line.hears:
            # Spark does not say how the last batch ended. The user's process may be about to.
            self._last_word.wait(LAST_WORD_S)
        with self.changed:
            self.carry(self.batches.stop(self._clock.now_ms()))
            self.changed.wait_for(lambda: not self.batches.has_pending_commits or self.failure is not None, CLOSE_S)
            self._membership.do(lambda member, now_ms: member.close(now_ms, timeout_ms=int(CLOSE_S * 1000)))
            self.changed.wait_for(lambda: self._membership.member.is_closed, CLOSE_S)
            self._over = True
            self.changed.notify_all()
        if self._line is not None:
            self._line.close()
        if self._publisher is not None:
            self._home.network.run(self._publisher.finish(1.0), CLOSE_S)

    # --- effects ------------------------------------------------------------------------------------------------------

    def carry(self, effects: list[BatchEffect]) -> None:
        """Carry out what the batches want; with the lock."""
        self._waiting.extend(effects)
        if self._carrying:
            return
        self._carrying = True
        try:
            while self._waiting:
                self._carry_one(self._waiting.popleft())
        finally:
            self._carrying = False
        self.changed.notify_all()

    def _carry_one(self, effect: BatchEffect) -> None:
        match effect:
            case HoldPartitions():
                self._membership.member.hold(effect.partitions)
            case ReleasePartitions():
                released = effect.partitions
                self._membership.do(lambda member, now_ms: member.release(released, now_ms))
            case CommitBatchOffsets():
                self._commit(effect)
            case FetchCommitted():
                self._fetch(effect)
            case BatchEvent():
                _say(effect, self._home.prefix)

    def _commit(self, commit: CommitBatchOffsets) -> None:
        def heard(error: SlackwaterError | None) -> None:
            if error is not None:
                log.debug("%sA commit was refused: %s", self._home.prefix, error)
            self.carry(self.batches.on_commit_done(commit.commit_id, error, self._clock.now_ms()))

        try:
            self._membership.commit(commit.offsets, heard, sync=True)
        except UsageError as error:  # on its way out
            heard(error)

    def _fetch(self, fetch: FetchCommitted) -> None:
        def heard(offsets: Mapping[TopicPartition, OffsetAndMetadata | None], error: SlackwaterError | None) -> None:
            if isinstance(error, BrokerError) and not error.retriable:
                self._fail(error)
            failed = error is not None
            self.carry(self.batches.on_committed_fetched(fetch.fetch_id, offsets, self._clock.now_ms(), failed=failed))

        try:
            self._membership.fetch_committed(fetch.partitions, heard)
        except UsageError:  # on its way out
            return

    # --- the group's side ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Tell the batches what the group does, until the end."""
        with self.changed:
            while not self._over:
                while self._membership.due:
                    due = self._membership.due.popleft()
                    if isinstance(due, Raise):
                        self._fail(due.error)
                    else:
                        self._notify(due)
                now_ms = self._clock.now_ms()
                leaving = self._membership.member.leaving
                if leaving != self.batches.leaving:
                    self.carry(self.batches.set_leaving(leaving, now_ms))
                due_ms = self.batches.next_due_ms()
                if due_ms is not None and due_ms <= now_ms:
                    self.carry(self.batches.tick(now_ms))
                    due_ms = self.batches.next_due_ms()
                self._check_alive(now_ms)
                if not self._membership.due:
                    wait_s = 1.0 if due_ms is None else min(max((due_ms - now_ms) / 1000, 0.001), 1.0)
                    self.changed.wait(wait_s)

    def _notify(self, notify: NotifyListener) -> None:
        now_ms = self._clock.now_ms()
        partitions = notify.partitions
        match notify.callback:
            case Callback.ASSIGNED:
                self.joined = True
                self.carry(self.batches.on_assigned(partitions, now_ms))
                self._tell_bareness()
                self._tell_stateful()
            case Callback.REVOKED:
                self.carry(self.batches.on_revoked(partitions, now_ms))
            case Callback.LOST:
                self.carry(self.batches.on_lost(partitions, now_ms))
        self._membership.do(lambda member, now_ms: member.on_listener_done(now_ms))

    def _tell_bareness(self) -> None:
        bare = not self.batches.owned
        if bare and not self._bare_told:
            log.info(
                "%sThis query has no partitions now: others of the group have them all. It waits.", self._home.prefix
            )
        self._bare_told = bare

    def _tell(self, event: GroupEvent) -> None:
        self._lines.log_event(event)
        if self._publisher is not None:
            self._publisher.publish(event)

    def _fail(self, error: SlackwaterError) -> None:
        if self.failure is None:
            self.failure = _explained(error, self.config)
            log.error("%s%s", self._home.prefix, self.failure)
        self.changed.notify_all()

    def _check_alive(self, now_ms: int) -> None:
        limit_ms = self.config.max_poll_interval_ms
        if not self.batches.is_running or self._line is None or not self._line.hears or self._is_out:
            return
        if now_ms - self._alive_ms < limit_ms:
            return
        self._is_out = True
        log.warning(
            "%sThe running batch has ended no task for %d ms, which is kafka.max.poll.interval.ms: the query is taken "
            "for stuck and leaves its group, so that others go on; it joins again when it does. What the batch "
            "contains may be read twice.",
            self._home.prefix,
            limit_ms,
        )
        over_ms = now_ms - self._alive_ms - limit_ms
        self._membership.do(lambda member, now_ms: member.leave_on_poll_timeout(over_ms, now_ms))

    # --- the user's process -------------------------------------------------------------------------------------------

    def _open_line(self) -> None:
        config = self.config
        if self._control is not None:
            hello = {
                "token": self.batches.token,
                "group": config.group_id,
                "instance": config.group_instance_id,
            }
            self._line = ControlClient(self._control, hello, self._heard)
        if self._line is None or not self._line.hears:
            log.info(
                "%sThe end of a batch is heard when Spark plans the next one, and kafka.max.poll.interval.ms is not "
                "checked, because this query has no listener: slackwater.spark.register(spark) starts one.",
                self._home.prefix,
            )

    def _heard(self, message: dict[str, Any]) -> None:
        with self.changed:
            match message:
                case {"finished": {"token": str(token), "seq": int(seq)}} if token == self.batches.token:
                    self.touch()
                    self.finished(seq)
                    if not self.batches.is_running:
                        self._last_word.set()
                case {"task": str(token)} if token == self.batches.token:
                    self.touch()
                case {"query": {"stateful": bool(stateful)}}:
                    self._stateful = stateful
                    self._tell_stateful()
                case {"refused": str(why)}:
                    self._fail(UsageError(why))
                case {"gone": True}:
                    self._last_word.set()
                    if not self._over:
                        log.info("%sThe user's process is heard no more.", self._home.prefix)

    def _tell_stateful(self) -> None:
        """State does not move with a partition: say so, or refuse, where partitions may move."""
        policy = self._options.stateful_handover
        if not self._stateful or self._stateful_told or policy == "allow" or not self._shares_topics():
            return
        self._stateful_told = True
        text = (
            "This query keeps state, and shares its topics with other members of the group: state does not move with "
            "a partition. Let a stateless query of the group write to a topic by key, and keep state in a query of "
            "its own; or set statefulHandover to allow."
        )
        if policy == "refuse":
            self._fail(UsageError(text))
        else:
            log.warning("%s%s", self._home.prefix, text)

    def _shares_topics(self) -> bool:
        if not self.joined:
            return False
        topics = self._home.cluster.topics
        wanted = self._membership.member.subscription
        total = sum(len(topics[name].partitions) for name in wanted if name in topics)
        return len(self.batches.owned) < total


def _explained(error: SlackwaterError, config: MemberConfig) -> SlackwaterError:
    """An error of the member, in the words of the source's options."""
    if isinstance(error, FencedInstanceId):
        return UsageError(
            f"Another process has joined group {config.group_id} as kafka.group.instance.id="
            f"{config.group_instance_id}, and this query is out; give every query an instance id of its own."
        )
    if isinstance(error, BrokerError) and error.error is Error.INCONSISTENT_GROUP_PROTOCOL:
        return UsageError(
            f"Group {config.group_id} is in use in a way that this query cannot join: as something other than a "
            "consumer group, or with none of the assignors in kafka.partition.assignment.strategy = "
            f"{', '.join(one.name for one in config.assignors)}. Use another kafka.group.id, or its assignor."
        )
    return error


def _say(happened: BatchEvent, prefix: str) -> None:
    partition, at = happened.partition, happened.offset
    match happened.kind:
        case BatchEventKind.STARTED:
            log.info("%s%s is read from offset %d on.", prefix, partition, at)
        case BatchEventKind.HANDED_OVER:
            log.info("%s%s was handed over, after %d ms.", prefix, partition, happened.duration_ms)
        case BatchEventKind.HANDOVER_TIMED_OUT:
            log.warning(
                "%s%s had to leave %d ms ago, and its batch still runs: it is released, and others will read the batch "
                "again.",
                prefix,
                partition,
                happened.duration_ms,
            )
        case BatchEventKind.RESET_OBEYED:
            log.warning(
                "%s%s starts at offset %d, where the group's offset was put; this query stood at %d.",
                prefix,
                partition,
                at,
                happened.previous_offset,
            )
        case BatchEventKind.REPLAYED:
            log.info(
                "%s%s of the unfinished batch is read again from %d to %d.",
                prefix,
                partition,
                at,
                happened.previous_offset,
            )
        case BatchEventKind.LEFT_OUT:
            log.info("%s%s of the unfinished batch is left out: others have it.", prefix, partition)
