"""The demo's story on Spark: applications that share a topic as members of one group, through all that happens to them.

Rules kept here
- Every chapter waits for what it tells of, with a deadline; nothing is shown that did not happen.
- Every number of the account was measured in this run.
- Processes that a chapter needs are started while the chapter before it runs: a JVM takes its time.
- `fast` is the same story with two applications; the deploy is then one of plain consumers, and says so.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slackwater.cli.demo.crew import Crew, Hand
from slackwater.cli.demo.screen import Screen
from slackwater.cli.demo.watch import NotSeen, Watch
from slackwater.group.events import EventKind, GroupEvent, Trigger

TOPIC: Final = "orders"
GROUP: Final = "orders"
STATIC_GROUP: Final = "orders-static"
PARTITIONS: Final = 6
RECORDS_PER_S: Final = 200
SESSION_MS: Final = 6_000
PATIENCE_S: Final = 300.0
LOOK_S: Final = 1.5
FAST_LOOK_S: Final = 0.5
TRIGGER: Final = "2 seconds"
"""Six queries with a batch every second would leave two cores no time to start applications."""
KICKS: Final = 3
LIMIT: Final = "max.poll.interval.ms"
LIMIT_MS: Final = 2_000
FAST_LIMIT_MS: Final = 1_500
SLOWER: Final = 1.7
"""How much longer a slow batch takes than the limit."""
SETTINGS: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
}


@dataclass(slots=True)
class Measured:
    """What the closing account says beside the chapters."""

    rebalances: int = 0
    deploy_dynamic: int = 0
    deploy_static: int = 0
    static_wait_s: float = 0.0
    """The longest that a partition of a static member waited for its new process."""
    storm_per_minute: float = 0.0
    calm_per_minute: float = 0.0
    report: Path | None = None


@dataclass(slots=True)
class Pipeline:
    """What happens, in order; `rows` is the account."""

    crew: Crew
    watch: Watch
    screen: Screen
    bootstrap: str
    home: Path
    report: Path
    fast: bool
    rows: list[tuple[str, list[GroupEvent], str]] = field(default_factory=list)
    measured: Measured = field(default_factory=Measured)
    _ready: dict[str, Hand] = field(default_factory=dict)
    _counted: list[GroupEvent] | None = None
    """The rebalances of a chapter that counts for itself."""
    _storm_ms: int = 0
    _storm_from: int = 0
    _prescribed: dict[str, str] = field(default_factory=dict)

    def tell(self) -> None:
        """Tell it."""
        chapters = self._short() if self.fast else self._long()
        for number, (title, text, chapter) in enumerate(chapters, start=1):
            self.screen.chapter(number, len(chapters), title, text)
            before = len(self.watch.events)
            self._counted = None
            meaning = chapter()
            counted = self.watch.rebalances(before, GROUP) if self._counted is None else self._counted
            self.rows.append((title, counted, meaning))
            time.sleep(FAST_LOOK_S if self.fast else LOOK_S)

    def _long(self) -> list[tuple[str, str, Callable[[], str]]]:
        return [
            ("Share", "Two PySpark applications, processes of their own, share six partitions.", self._share),
            ("Scale-out", "A third application joins, and takes its part while the others go on.", self._scale_out),
            (
                "Rolling deploy",
                (
                    "Every application now runs a second query, as a static member (kafka.group.instance.id).\n"
                    "One after another, all three are replaced by new processes."
                ),
                self._deploy,
            ),
            ("Kill", f"{self.last} is killed with -9, driver and JVM. Its session must run out first.", self._kill),
            *self._ending(),
        ]

    def _short(self) -> list[tuple[str, str, Callable[[], str]]]:
        return [
            (
                "Rolling deploy",
                (
                    "Two groups of three plain consumers (no Spark in this chapter: this is --fast), one of them with\n"
                    "group.instance.id. One after another, all are replaced by new processes."
                ),
                self._deploy_plain,
            ),
            ("Share", "A PySpark application reads six partitions.", self._share),
            ("Scale-out", "A second application joins, and takes its part while the other goes on.", self._scale_out),
            ("Kill", f"{self.last} is killed with -9, driver and JVM. Its session must run out first.", self._kill),
            *self._ending(),
        ]

    def _ending(self) -> list[tuple[str, str, Callable[[], str]]]:
        return [
            (
                "Storm",
                (
                    f"{self.last} comes back with a slow sink: a batch takes {self.slow_s:.1f} s, and\n"
                    f"kafka.{LIMIT} is {self.limit_ms / 1000:g} s. It is out, comes back, is out again."
                ),
                self._storm,
            ),
            ("Doctor", f"`slackwater doctor` reads the history of group {GROUP} on Spark.", self._consult),
            ("Cure", f"{self.last} is started again with what the doctor prescribes.", self._cure),
        ]

    @property
    def applications(self) -> list[str]:
        """Their names."""
        return [f"app-{number}" for number in range(1, 3 if self.fast else 4)]

    @property
    def last(self) -> str:
        """The one that things happen to."""
        return self.applications[-1]

    @property
    def limit_ms(self) -> int:
        """The limit that the slow one cannot keep."""
        return FAST_LIMIT_MS if self.fast else LIMIT_MS

    @property
    def slow_s(self) -> float:
        """How long the slow one takes for a batch."""
        return SLOWER * self.limit_ms / 1000

    # --- before and after ---------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Start what takes its time."""
        self.screen.opening(f"Starting {len(self.applications)} Spark applications …")
        for name in self.applications:
            self._prepare(name)
        self.crew.on_end = self.watch.gone
        self.watch.measure(GROUP)
        if not self.fast:
            self._await_ready(*self.applications)
        self._hire("producer", "producer", "", records_per_s=RECORDS_PER_S, partitions=PARTITIONS)
        self._until("the first records", lambda: self.crew.acknowledged > 0)

    def finish(self) -> None:
        """Write no more, let everything be read and committed, and stop."""
        self.screen.note("The producer has stopped; what is left is read.")
        self.crew.stop("producer")
        produced = self.crew.written[TOPIC]
        self._until("the last record", lambda: self.crew.counts(GROUP)[0] >= produced)
        self._until("the last commit", lambda: self.watch.lag(GROUP, produced) == 0)
        self.watch.close()
        self.measured.rebalances = len(self.watch.rebalances(0, GROUP))
        self.crew.stop_all(PATIENCE_S)

    # --- chapters -----------------------------------------------------------------------------------------------------

    def _share(self) -> str:
        self.screen.show_group(GROUP, TOPIC)
        first = self.applications[: 1 if self.fast else 2]
        self._await_ready(*first)
        for name in first:
            self._enter(name)
            self._query(name)
        self._until_stable(GROUP, len(first))
        self._until_reading(*first)
        return "one application has all six" if self.fast else "three partitions each"

    def _scale_out(self) -> str:
        had = self._owned()
        before = len(self.watch.events)
        if not self.fast:
            self._prepare("app-1")  # its next version, for the deploy
        self._await_ready(self.last)
        self._enter(self.last)
        self._query(self.last)
        self._until_stable(GROUP, len(self.applications), before)
        owned = self._owned()
        kept = sum(len(partitions & owned.get(name, set())) for name, partitions in had.items())
        self._until_reading(self.last)
        return f"{self.last} was given {len(owned[self.last])}; {kept} of {PARTITIONS} partitions never stopped"

    def _deploy(self) -> str:
        self.screen.show_group(STATIC_GROUP, TOPIC)
        for name in self.applications:
            self._query(name, STATIC_GROUP)
        self._until_stable(STATIC_GROUP, len(self.applications))
        self._until_reading(*self.applications, group=STATIC_GROUP)
        self.watch.measure(STATIC_GROUP)
        before = len(self.watch.events)
        for name, after in zip(self.applications, [*self.applications[1:], None], strict=True):
            self._replace(name, after)
        dynamic, static = self._count_deploy(before, GROUP, STATIC_GROUP)
        for name in self.applications:
            self.crew.hand(name).tell(do="stop", group=STATIC_GROUP)
        self._until(
            "the end of the static queries",
            lambda: all(self._stopped(name, STATIC_GROUP) for name in self.applications),
        )
        self.screen.hide_group(STATIC_GROUP)
        return f"dynamic members: {dynamic} rebalances; static members: {static}"

    def _replace(self, name: str, after: str | None) -> None:
        """One step of the deploy; meanwhile the next one's new version gets ready."""
        self._await_ready(name)
        before = len(self.watch.events)
        self.crew.stop(name, PATIENCE_S)
        self._enter(name)
        self._query(name)
        self._query(name, STATIC_GROUP)
        if after is not None:
            self._prepare(after)
        self._until(
            f"the return of {name}",
            lambda: any(
                event.kind
                in (EventKind.MEMBER_REPLACED, EventKind.MEMBER_JOINED)  # the second, if its session was over
                and (event.group, event.client) == (STATIC_GROUP, name)
                for event in self.watch.events[before:]
            ),
        )
        self._until_stable(GROUP, len(self.applications), before)
        self._until_stable(STATIC_GROUP, len(self.applications), before)
        self.screen.note(
            f"{name} is replaced: {len(self.watch.rebalances(before, GROUP))} rebalances in {GROUP}, "
            f"{len(self.watch.rebalances(before, STATIC_GROUP))} in {STATIC_GROUP}"
        )

    def _count_deploy(self, before: int, dynamic: str, static: str) -> tuple[int, int]:
        self._counted = [event for group in (dynamic, static) for event in self.watch.rebalances(before, group)]
        counts = [len(self.watch.rebalances(before, group)) for group in (dynamic, static)]
        self.measured.deploy_dynamic, self.measured.deploy_static = counts
        self.measured.static_wait_s = self.watch.measured(static).longest_s
        return counts[0], counts[1]

    def _deploy_plain(self) -> str:
        groups = {"plain-dynamic": False, "plain-static": True}
        names = {group: [f"{group.removeprefix('plain-')}-{number}" for number in (1, 2, 3)] for group in groups}
        for group, static in groups.items():
            self.screen.show_group(group, TOPIC)
            for name in names[group]:
                self._consumer(name, group, static)
        for group in groups:
            self._until_stable(group, 3)
        self.watch.measure("plain-static")
        before = len(self.watch.events)
        for number in range(3):
            step = len(self.watch.events)
            for group, static in groups.items():
                self.crew.stop(names[group][number], PATIENCE_S)
                self._consumer(names[group][number], group, static)
            for group in groups:
                self._until_stable(group, 3, step)
        dynamic, static_ones = self._count_deploy(before, *groups)
        for group in groups:
            for name in names[group]:
                self.crew.stop(name, PATIENCE_S)
            self.screen.hide_group(group)
        return f"plain consumers: dynamic {dynamic} rebalances, static {static_ones}"

    def _kill(self) -> str:
        self._prepare(self.last)  # what comes back in the next chapter
        self._prepare("doctor", "consultation")
        self._ready["doctor"].tell(do="look", patient=self._patient())
        before, killed = len(self.watch.events), time.time()
        self.crew.kill(self.last)
        self._until_stable(GROUP, len(self.applications) - 1, before)
        expired = next(event for event in self.watch.events[before:] if event.kind is EventKind.MEMBER_EXPIRED)
        return f"noticed after {expired.time_ms / 1000 - killed:.1f} s: kafka.session.timeout.ms is {SESSION_MS}"

    def _storm(self) -> str:
        self._await_ready(self.last)
        before = len(self.watch.events)
        self._storm_ms = int(time.time() * 1000)
        self._enter(self.last)
        self._query(self.last, slow_s=self.slow_s, **{LIMIT: str(self.limit_ms)})

        def kicks() -> int:
            return sum(event.trigger is Trigger.POLL_TIMEOUT for event in self.watch.rebalances(before, GROUP))

        for kick in range(1, KICKS + 1):
            self._until("a storm", lambda wanted=kick: kicks() >= wanted)  # type: ignore[misc]
            self.screen.note(f"{self.last} is out for the {('first', 'second', 'third')[kick - 1]} time")
        self._storm_from = before
        self._rate_storm()
        return f"{self.last} was out {kicks()} times: {self.measured.storm_per_minute:.0f} rebalances per minute"

    def _rate_storm(self) -> None:
        """Rebalances per minute from the slow member's first join until now."""
        events = self.watch.events[self._storm_from :]
        joined = next(event for event in events if event.kind is EventKind.MEMBER_JOINED)
        minutes = (time.time() * 1000 - joined.time_ms) / 60_000
        self.measured.storm_per_minute = len(self.watch.rebalances(self._storm_from, GROUP)) / minutes

    def _consult(self) -> str:
        from slackwater.doctor.causes.rules import CAUSES

        self._await_ready("doctor")
        self.crew.take(doctor := self._ready.pop("doctor"))
        doctor.tell(do="examine", patient=self._patient() | {"since_ms": self._storm_ms}, report=str(self.report))
        self._until("the doctor's verdict", lambda: doctor.has_said("verdict"))
        verdict = self._verdict(doctor)
        self.measured.report = self.report
        culprits = ", ".join(verdict["culprits"])
        self.screen.note(f"{GROUP}: {verdict['cause']}, by {culprits} (confidence {verdict['confidence']:.2f})")
        self.screen.note(f"  {CAUSES[verdict['cause']].says}")
        for line in verdict["evidence"]:
            self.screen.note(f"  {time.strftime('%H:%M:%S', time.localtime(line['time_ms'] / 1000))}  {line['what']}")
        self._prescribed = self._choose(verdict["prescriptions"])
        self.crew.stop("doctor", PATIENCE_S)
        return f"{verdict['cause']}, by {culprits}"

    def _patient(self) -> dict[str, Any]:
        """The group, as the doctor is asked about it."""
        cluster = next((event.cluster for event in self.watch.events if event.cluster is not None), None)
        return {"bootstrap": self.bootstrap, "cluster": cluster, "groups": [GROUP]}

    def _verdict(self, doctor: Hand) -> dict[str, Any]:
        told = next(said for said in doctor.said if said["say"] == "verdict")["verdicts"]
        if not told:
            raise NotSeen(f"the doctor has no verdict on {GROUP}")
        verdict: dict[str, Any] = told[0]
        return verdict

    def _choose(self, prescriptions: list[dict[str, Any]]) -> dict[str, str]:
        """The prescription that can be followed here: this sink is slow however few records it is given."""
        chosen = next((one for one in prescriptions if LIMIT in one["settings"]), None)
        for one in prescriptions:
            mark = "→" if one is chosen else " "
            self.screen.note(f"{mark} {one['order']}. {one['what']}")
        if chosen is None:
            raise NotSeen(f"the doctor prescribes no {LIMIT}")
        settings: dict[str, str] = chosen["settings"]
        self.screen.note("     " + ", ".join(f"kafka.{name}={value}" for name, value in settings.items()))
        self.screen.note(f"     price: {chosen['price']}")
        return settings

    def _cure(self) -> str:
        self._rate_storm()  # it went on while the doctor read
        before = len(self.watch.events)
        self.screen.note("  ".join(f"kafka.{name} = {value}" for name, value in self._prescribed.items()))
        hand = self.crew.hand(self.last)
        hand.tell(do="stop", group=GROUP)
        self._until("the end of the slow query", lambda: self._stopped(self.last, GROUP))
        self._query(self.last, slow_s=self.slow_s, **self._prescribed)
        self._until(
            f"the return of {self.last}",
            lambda: any(
                event.kind is EventKind.MEMBER_JOINED and event.client == self.last
                for event in self.watch.events[before:]
            ),
        )
        self._until_stable(GROUP, len(self.applications), before)
        calm_since, calm = time.time(), len(self.watch.events)
        for _ in range(2):
            self._until_reading(self.last)
        rebalances = len(self.watch.rebalances(calm, GROUP))
        self.measured.calm_per_minute = rebalances / ((time.time() - calm_since) / 60)
        return (
            f"as slow as before, and in the group: {self.measured.storm_per_minute:.0f} rebalances per minute before, "
            f"{self.measured.calm_per_minute:.0f} after"
        )

    # --- the crew -----------------------------------------------------------------------------------------------------

    def _prepare(self, name: str, module: str = "application") -> None:
        self._ready[name] = self.crew.prepare(name, module)

    def _await_ready(self, *names: str) -> None:
        for name in names:
            self._until(f"Spark in {name}", lambda hand=self._ready[name]: self._is_ready(hand))  # type: ignore[misc]

    def _is_ready(self, hand: Hand) -> bool:
        if (why := hand.failure()) is not None:
            raise NotSeen(f"{hand.name} could not start: {why}")
        return hand.has_said("ready")

    def _enter(self, name: str) -> None:
        self.crew.take(self._ready.pop(name))

    def _query(self, name: str, group: str = GROUP, slow_s: float = 0.0, **settings: str) -> None:
        """Let an application start its query; it goes on from its checkpoint."""
        if group == STATIC_GROUP:
            settings |= {"group.instance.id": name}
        else:
            settings |= {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": str(SESSION_MS // 6)}
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.group.id": group,
            "kafka.client.id": name,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "kafka.group.events.publish": "true",  # the doctor reads what members know, too
            **{f"kafka.{setting}": value for setting, value in settings.items()},
        }
        query = {
            "group": group,
            "options": options,
            "checkpoint": str(self.home / f"checkpoint-{group}-{name}"),
            "trigger": TRIGGER,
            "slow_s": slow_s,
        }
        self.crew.hand(name).tell(do="start", query=query)

    def _consumer(self, name: str, group: str, static: bool) -> None:
        settings = {"session.timeout.ms": 30_000, "partition.assignment.strategy": "cooperative-sticky"}
        self._hire(name, "consumer", group, settings=settings | ({"group.instance.id": name} if static else {}))

    def _hire(self, name: str, client: str, group: str, **config: Any) -> None:
        self.crew.hire(name, client, TOPIC, group, module="hands", **config)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _until(self, what: str, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            if failures := self.crew.failures():
                raise NotSeen("; ".join(failures))
            return condition()

        self.watch.until(what, holds, PATIENCE_S)

    def _until_stable(self, group: str, members: int, since: int = 0) -> None:
        self._until(
            f"group {group} with {members} working members", lambda: self.watch.is_settled(group, members, since)
        )

    def _until_reading(self, *names: str, group: str = GROUP) -> None:
        """Wait until each of them has read more."""
        for name in names:
            before = self.crew.readings[group, name]
            self._until(
                f"records read by {name}",
                lambda name=name, before=before: self.crew.readings[group, name] > before,  # type: ignore[misc]
            )

    def _owned(self) -> dict[str, set[int]]:
        return {one.name: set(one.partitions) for one in self.watch.group(GROUP).members}

    def _stopped(self, name: str, group: str) -> bool:
        said = self.crew.hand(name).said
        return any(one["say"] == "stopped" and one["group"] == group for one in said)
