"""The demo with Spark applications: members of one group that scale out, are deployed, crash, and cause a storm.

Processes that a step needs start while the step before it runs, because a JVM takes some seconds. With `fast`
there are two applications and no rolling deploy.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slackwater.cli.demo.environment import DemoEnvironment, Step
from slackwater.cli.demo.processes import ChildProcess
from slackwater.cli.printing import count
from slackwater.group.errors import UsageError
from slackwater.group.events import EventKind, Trigger

TOPIC: Final = "orders"
GROUP: Final = "orders"
STATIC_GROUP: Final = "orders-static"
PARTITIONS: Final = 6
RECORDS_PER_S: Final = 200
SESSION_MS: Final = 6_000
STATIC_SESSION_MS: Final = 45_000
PAUSE_S: Final = 1.5
FAST_PAUSE_S: Final = 0.5
TRIGGER: Final = "2 seconds"  # six queries with a batch every second leave two cores no time to start applications
REMOVALS: Final = 3
POLL_INTERVAL: Final = "max.poll.interval.ms"
POLL_INTERVAL_MS: Final = 2_000
FAST_POLL_INTERVAL_MS: Final = 1_500
SLOW_SINK_FACTOR: Final = 1.7  # how much longer a slow batch takes than max.poll.interval.ms
SETTINGS: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
}


@dataclass(frozen=True, slots=True)
class DeployResult:
    """The rebalances of a rolling deploy, with dynamic and with static members."""

    dynamic: int
    static: int
    expired: tuple[str, ...]
    """Static members whose session expired before their new process had joined."""

    def __str__(self) -> str:
        """The counts; if static members caused rebalances, also why."""
        text = f"{count(self.dynamic, 'rebalance')} with dynamic members, {self.static} with static members"
        if not self.expired:
            return text
        late = ", ".join(self.expired)
        return f"{text} (a slow machine: {late} came back after session.timeout.ms={STATIC_SESSION_MS})"


class SparkScenario:
    """Runs the steps; `summary_lines` are printed at the end."""

    def __init__(self, environment: DemoEnvironment, report: Path, *, fast: bool) -> None:
        self._environment = environment
        self._pool = environment.pool
        self._monitor = environment.monitor
        self._screen = environment.screen
        self._report = report
        self._fast = fast
        self._applications = ["app-1", "app-2"] if fast else ["app-1", "app-2", "app-3"]
        self._last = self._applications[-1]  # the application that is killed and gets the slow sink
        self._poll_interval_ms = FAST_POLL_INTERVAL_MS if fast else POLL_INTERVAL_MS
        self._sink_s = SLOW_SINK_FACTOR * self._poll_interval_ms / 1000
        self._prepared: dict[str, ChildProcess] = {}
        self._deploy_result: DeployResult | None = None
        self._storm_started_ms = 0
        self._storm_rate = self._fixed_rate = 0.0
        self._prescribed: dict[str, str] = {}
        self.summary_lines: list[str] = []

    def set_up(self) -> None:
        """Start the Spark applications and the producer."""
        self._screen.start_step("Set-up", f"Starting {len(self._applications)} Spark applications …")
        for name in self._applications:
            self._prepare(name)
        if not self._fast:
            self._wait_ready(*self._applications)
        self._pool.start_client("producer", "producer", TOPIC, records_per_s=RECORDS_PER_S, partitions=PARTITIONS)
        self._environment.wait("the first records", lambda: self._pool.produced[TOPIC] > 0)

    def run(self) -> None:
        """Run the demo, then let everything be read and committed."""
        self._environment.run_steps(self._steps(), [GROUP, STATIC_GROUP], FAST_PAUSE_S if self._fast else PAUSE_S)
        self._screen.note("The producer has stopped. The remaining records are read.")
        self._pool.stop("producer")
        produced = self._pool.produced[TOPIC]
        self._environment.wait("the last record", lambda: self._pool.read_counts(GROUP)[0] >= produced)
        self._environment.wait("the last commit", lambda: self._monitor.lag(GROUP, produced) == 0)
        self.summary_lines = self._summary_lines(produced)
        self._pool.stop_all(timeout_s=None)

    def _steps(self) -> list[Step]:
        share: list[Step] = [
            (
                "Share",
                "A PySpark application reads six partitions."
                if self._fast
                else "Two PySpark applications, each a process, share six partitions.",
                self._share,
            ),
            ("Scale-out", f"{self._last} joins, and takes its share while the others go on.", self._scale_out),
        ]
        deploy: Step = (
            "Rolling deploy",
            "Every application runs a second query, a static member. All are replaced in turn.",
            self._deploy,
        )
        return [
            *(share if self._fast else [*share, deploy]),
            ("Kill", f"{self._last} is killed, driver and JVM. Its session has to expire first.", self._kill),
            (
                "Storm",
                f"{self._last} is back; its batches take {self._sink_s} s, longer than {POLL_INTERVAL}.",
                self._storm,
            ),
            ("Doctor", f"`slackwater doctor` reads the history of group {GROUP} on Spark.", self._diagnose),
            ("Fix", f"{self._last} starts again with the settings that the doctor prescribes.", self._fix),
        ]

    def _summary_lines(self, produced: int) -> list[str]:
        read, repeated = self._pool.read_counts(GROUP)
        committed = self._environment.broker.committed(GROUP)
        ends = {(partition.topic, partition.partition): end for partition, end in committed.items()}
        missing = self._pool.counts[GROUP].missing(ends)
        reason = " (batches that were running when their member was killed or removed)" if repeated else ""
        lines = [
            f"Records: {produced:,} produced, {read:,} read, {missing:,} missing, {repeated:,} read twice{reason}.",
            f"Rebalances of group {GROUP}: {len(self._monitor.rebalances(GROUP))}.",
        ]
        if self._deploy_result is not None:
            lines.append(f"Rolling deploy of three Spark applications: {self._deploy_result}.")
        return [
            *lines,
            f"Rebalances per minute: {self._storm_rate:.1f} in the storm, {self._fixed_rate:.1f} after the fix.",
            f"The doctor's report: {self._report}",
        ]

    # --- steps --------------------------------------------------------------------------------------------------------

    def _share(self) -> str:
        self._screen.show_group(GROUP, TOPIC)
        first = self._applications[:-1]
        self._wait_ready(*first)
        for name in first:
            self._start_application(name)
        self._environment.wait_settled(GROUP, len(first))
        self._wait_reading(*first)
        return "one application has all six" if self._fast else "three partitions each"

    def _scale_out(self) -> str:
        before, since = self._monitor.group(GROUP).owned(), len(self._monitor.events)
        if not self._fast:
            self._prepare("app-1")  # its next version, for the deploy
        self._wait_ready(self._last)
        self._start_application(self._last)
        self._environment.wait_settled(GROUP, len(self._applications), since)
        after = self._monitor.group(GROUP).owned()
        unmoved = sum(len(partitions & after.get(name, set())) for name, partitions in before.items())
        self._wait_reading(self._last)
        return f"{self._last} got {len(after[self._last])}; {unmoved} of {PARTITIONS} partitions never stopped"

    def _deploy(self) -> str:
        self._screen.show_group(STATIC_GROUP, TOPIC)
        for name in self._applications:
            self._start_query(name, STATIC_GROUP)
        self._environment.wait_settled(STATIC_GROUP, len(self._applications))
        self._wait_reading(*self._applications, group=STATIC_GROUP)
        since = len(self._monitor.events)
        for name, following in zip(self._applications, [*self._applications[1:], None], strict=True):
            self._replace(name, following)
        expired = self._monitor.events_of(STATIC_GROUP, EventKind.MEMBER_EXPIRED, since=since)
        self._deploy_result = result = DeployResult(
            len(self._monitor.rebalances(GROUP, since)),
            len(self._monitor.rebalances(STATIC_GROUP, since)),
            tuple(dict.fromkeys(event.client or "a member" for event in expired)),
        )
        for name in self._applications:
            self._stop_query(name, STATIC_GROUP)
        self._screen.hide_group(STATIC_GROUP)
        return str(result)

    def _replace(self, name: str, following: str | None) -> None:
        """Replace one application; meanwhile the next one's new process starts."""
        self._wait_ready(name)
        since = len(self._monitor.events)
        self._pool.stop(name, timeout_s=None)
        self._start_application(name)
        self._start_query(name, STATIC_GROUP)
        if following is not None:
            self._prepare(following)
        self._environment.wait_joined(STATIC_GROUP, name, since)
        for group in (GROUP, STATIC_GROUP):
            self._environment.wait_settled(group, len(self._applications), since)
        dynamic, static = (len(self._monitor.rebalances(group, since)) for group in (GROUP, STATIC_GROUP))
        self._screen.note(f"{name} is replaced. Rebalances: {dynamic} in {GROUP}, {static} in {STATIC_GROUP}.")

    def _kill(self) -> str:
        self._prepare(self._last)  # for the next step
        self._prepare("doctor")
        self._prepared["doctor"].send(
            command="diagnose", request=self._request(), report=""
        )  # Spark's first job is slow
        since, killed = len(self._monitor.events), time.time()
        self._pool.kill(self._last)
        self._environment.wait_settled(GROUP, len(self._applications) - 1, since)
        expired = self._monitor.events_of(GROUP, EventKind.MEMBER_EXPIRED, since=since)[0]
        return f"noticed after {expired.time_ms / 1000 - killed:.1f} s: kafka.session.timeout.ms is {SESSION_MS}"

    def _storm(self) -> str:
        self._wait_ready(self._last)
        since = len(self._monitor.events)
        self._storm_started_ms = int(time.time() * 1000)
        self._start_application(self._last, sink_s=self._sink_s, **{POLL_INTERVAL: str(self._poll_interval_ms)})

        def removals() -> int:
            rebalances = self._monitor.rebalances(GROUP, since)
            return sum(event.trigger is Trigger.POLL_TIMEOUT for event in rebalances)

        for number in range(1, REMOVALS + 1):
            self._environment.wait(
                f"removal {number} of {REMOVALS} of {self._last}",
                lambda number=number: removals() >= number,  # type: ignore[misc]
            )
            self._screen.note(f"{self._last} left the group: {POLL_INTERVAL} exceeded ({number} of {REMOVALS})")
        joined = self._monitor.events_of(GROUP, EventKind.MEMBER_JOINED, since=since)[0]
        rebalances = self._monitor.rebalances(GROUP, since)
        minutes = (rebalances[-1].time_ms - joined.time_ms) / 60_000
        self._storm_rate = len(rebalances) / minutes
        return f"{self._last} was removed {removals()} times: {self._storm_rate:.1f} rebalances per minute"

    def _request(self) -> dict[str, Any]:
        cluster = next((event.cluster for event in self._monitor.events if event.cluster is not None), None)
        return {"bootstrap": self._environment.broker.bootstrap_servers, "cluster": cluster, "groups": [GROUP]}

    def _diagnose(self) -> str:
        from slackwater.doctor.causes.rules import CAUSES

        doctor = self._prepared.pop("doctor")
        self._pool.register(doctor)
        self._environment.wait("Spark in the doctor's job", lambda: doctor.has_sent("diagnosed"))
        request = self._request() | {"since_ms": self._storm_started_ms}
        doctor.send(command="diagnose", request=request, report=str(self._report))
        self._environment.wait("the doctor's verdict", lambda: self._verdicts(doctor) is not None)
        verdicts = self._verdicts(doctor)
        if not verdicts:
            raise UsageError(f"the doctor found nothing about group {GROUP}")
        verdict = verdicts[0]
        culprits = ", ".join(verdict["culprits"])
        self._screen.note(f"{GROUP}: {verdict['cause']}, caused by {culprits} (confidence {verdict['confidence']:.2f})")
        self._screen.note(f"  {CAUSES[verdict['cause']].summary}")
        self._prescribed = self._choose(verdict["prescriptions"])
        for line in verdict["evidence"]:
            self._screen.note(f"  {time.strftime('%H:%M:%S', time.localtime(line['time_ms'] / 1000))}  {line['what']}")
        self._pool.stop("doctor", timeout_s=None)
        return f"{verdict['cause']}, caused by {culprits}"

    def _verdicts(self, doctor: ChildProcess) -> list[dict[str, Any]] | None:
        """The verdicts of the second diagnosis; the first one was made to warm up."""
        diagnosed = [message["verdicts"] for message in doctor.messages if message["message"] == "diagnosed"]
        return diagnosed[1] if len(diagnosed) > 1 else None

    def _choose(self, prescriptions: list[dict[str, Any]]) -> dict[str, str]:
        """The prescription that helps here: this sink is slow however few records it gets."""
        chosen = next((candidate for candidate in prescriptions if POLL_INTERVAL in candidate["settings"]), None)
        if chosen is None:
            raise UsageError(f"the doctor does not prescribe {POLL_INTERVAL}")
        for prescription in prescriptions:
            mark = "→" if prescription is chosen else " "
            self._screen.note(f"{mark} {prescription['order']}. {prescription['what']}")
        settings: dict[str, str] = chosen["settings"]
        self._screen.note("     " + ", ".join(f"kafka.{name}={value}" for name, value in settings.items()))
        return settings

    def _fix(self) -> str:
        self._screen.note(", ".join(f"kafka.{name}={value}" for name, value in self._prescribed.items()))
        since = len(self._monitor.events)
        self._stop_query(self._last, GROUP)
        self._start_query(self._last, sink_s=self._sink_s, **self._prescribed)
        self._environment.wait_joined(GROUP, self._last, since)
        self._environment.wait_settled(GROUP, len(self._applications), since)
        started, since = time.time(), len(self._monitor.events)
        for _ in range(2):
            self._wait_reading(self._last)
        self._fixed_rate = len(self._monitor.rebalances(GROUP, since)) / ((time.time() - started) / 60)
        return f"still slow, but it remains a member: {self._fixed_rate:.1f} rebalances per minute"

    # --- child processes ----------------------------------------------------------------------------------------------

    def _prepare(self, name: str) -> None:
        self._prepared[name] = self._pool.prepare_spark(name)

    def _wait_ready(self, *names: str) -> None:
        for name in names:
            child = self._prepared[name]
            self._environment.wait(f"Spark in {name}", lambda child=child: self._is_ready(child))  # type: ignore[misc]

    def _is_ready(self, child: ChildProcess) -> bool:
        if (reason := child.failure()) is not None:
            raise UsageError(f"the demo stopped: {child.name} could not start: {reason}")
        return child.has_sent("ready")

    def _start_application(self, name: str, **query: Any) -> None:
        """Let a prepared application take its name, and start its query in the group."""
        self._pool.register(self._prepared.pop(name))
        self._start_query(name, **query)

    def _start_query(self, name: str, group: str = GROUP, sink_s: float = 0.0, **settings: str) -> None:
        """Start an application's query; it resumes from its checkpoint."""
        session_ms = STATIC_SESSION_MS if group == STATIC_GROUP else SESSION_MS
        settings |= {"session.timeout.ms": str(session_ms), "heartbeat.interval.ms": str(SESSION_MS // 6)}
        if group == STATIC_GROUP:
            settings["group.instance.id"] = name
        options = {
            "kafka.bootstrap.servers": self._environment.broker.bootstrap_servers,
            "kafka.group.id": group,
            "kafka.client.id": name,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "kafka.group.events.publish": "true",  # the doctor reads the members' own events, too
            **{f"kafka.{setting}": value for setting, value in settings.items()},
        }
        query = {
            "group": group,
            "options": options,
            "checkpoint": str(self._environment.directory / f"checkpoint-{group}-{name}"),
            "trigger": TRIGGER,
            "sink_s": sink_s,
        }
        self._pool.child(name).send(command="start", query=query)

    def _stop_query(self, name: str, group: str) -> None:
        child = self._pool.child(name)
        child.send(command="stop", group=group)
        self._environment.wait(f"the end of {name}'s query", lambda: child.has_sent("stopped", group=group))

    def _wait_reading(self, *names: str, group: str = GROUP) -> None:
        """Wait until each of these has read more records."""
        for name in names:
            before = self._pool.reads[group, name]
            self._environment.wait(
                f"records read by {name}",
                lambda name=name, before=before: self._pool.reads[group, name] > before,  # type: ignore[misc]
            )
