"""`slackwater watch`: the alert rules, held against a live cluster.

Rules kept here
- Any cluster, through the open_admin: no Spark, no Java, and nothing is changed or joined.
- What is told is one line when an alert begins and one when it ends; with --json one object per line. What is quiet
  stands in one line of its own, on a terminal's standard error.
- Exit codes for scripts: 0 nothing fired, 1 an alert fired, 2 could not tell, 3 bad input. Ctrl-C and SIGTERM are the
  usual way to end it: they bring the account of what was seen, and its exit code.
- A look that fails is told once, when looks begin to fail and when they succeed again; alerts stay as they were.
"""

import signal
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slackwater.cli.checked import BAD_INPUT, UNKNOWN_STATE
from slackwater.cli.connecting import AsJson, Bootstrap, ConfigFile, client_settings, open_admin
from slackwater.cli.groups.shown import member_name, total_lag
from slackwater.cli.printing import count, emit, warn
from slackwater.cli.times import clock, duration_ms
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError

if TYPE_CHECKING:
    from slackwater.client.admin import Admin, GroupDescription, GroupOffset
    from slackwater.client.admin.group_log import GroupLogEntries
    from slackwater.doctor.alerts.monitor import AlertNotice, ClusterSnapshot, GroupSnapshot, ObservedGeneration
    from slackwater.doctor.alerts.rules import Alert

CALM: Final = 0
FIRED: Final = 1
HISTORY_MS: Final = 3_600_000
SHORTEST_MS: Final = 100
_TONES: Final = {"critical": "red", "warning": "yellow", "info": "cyan"}
_REFUSED: Final = frozenset({Error.GROUP_AUTHORIZATION_FAILED, Error.CLUSTER_AUTHORIZATION_FAILED})


def watch(
    group: Annotated[list[str] | None, typer.Option(metavar="GROUP", help="Only this group; repeatable.")] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End after this time; else with Ctrl-C.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One look, and what is wrong now.")] = False,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="From one look to the next.")] = "5s",
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other limits: TOML, a table per rule with limit, for_s, off.")
    ] = None,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print the rules as a Prometheus rules file, and end.")
    ] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Watch groups and say when something goes wrong: one line when an alert begins, one when it ends.

    The rules: more than one rebalance an hour, failed rebalances, one that takes more than 60 s, a group that stays in
    PreparingRebalance, lag without commits, members without partitions. Exit code 0: nothing fired, 1: an alert fired
    (with --once: is firing), 2: could not tell, 3: the input was wrong.
    """
    try:
        plan = _plan(group, for_, once, interval, rules)
        if prometheus:
            _print_rules(plan)
            return
        where = str(client_settings(bootstrap, config)["bootstrap.servers"])
        admin = open_admin(bootstrap, config)
    except UsageError as error:
        warn(str(error))
        raise typer.Exit(BAD_INPUT) from None
    with admin, _ended_by_signals():
        code = _Watcher(admin, where, plan, as_json=as_json).run()
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class _Plan:
    groups: tuple[str, ...]
    length_s: float | None
    interval_s: float
    once: bool
    rules: "tuple[Alert, ...]"
    adapted: bool


def _plan(groups: Sequence[str] | None, length: str | None, once: bool, interval: str, rules: Path | None) -> _Plan:
    from slackwater.doctor.alerts.rules import ALERTS, adapted

    if once and length is not None:
        raise UsageError("--once is one look, and --for many; use one of them.")
    length_ms = None if length is None else duration_ms(length, "--for")
    interval_ms = duration_ms(interval, "--interval")
    if interval_ms < SHORTEST_MS:
        raise UsageError(f"--interval {interval} is too short; use 0.1s or more.")
    chosen = ALERTS if rules is None else adapted(_toml(rules), f"--rules {rules}")
    length_s = None if length_ms is None else length_ms / 1000
    return _Plan(tuple(dict.fromkeys(groups or ())), length_s, interval_ms / 1000, once, chosen, rules is not None)


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--rules {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--rules {path} is no TOML: {error}.") from None


def _print_rules(plan: _Plan) -> None:
    if plan.adapted:
        raise UsageError("--prometheus prints the rules as they are; change the file that it prints, not --rules.")
    from slackwater.doctor.alerts.rules import prometheus_rules

    typer.echo(prometheus_rules(), nl=False)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM, with which `timeout` and containers end a program, be as good as Ctrl-C."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only there are signals heard
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(slots=True)
class _Account:
    """What became of the looks."""

    began: float
    looks: int = 0
    failed: int = 0
    missing: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    trouble: str | None = None


class _Watcher:
    """One run of the command."""

    def __init__(self, admin: "Admin", where: str, plan: _Plan, *, as_json: bool) -> None:
        from slackwater.client.admin.group_log import GroupLogFollower
        from slackwater.doctor.alerts.monitor import AlertMonitor

        self._admin = admin
        self._where = where
        self._plan = plan
        self._as_json = as_json
        self._watch = AlertMonitor(plan.rules)
        self._follower = GroupLogFollower(_now_ms() - HISTORY_MS)
        self._account = _Account(time.monotonic())
        self._preparing: set[str] = set()
        self._status_shown = False

    def run(self) -> int:
        """Look until the time is over; the exit code."""
        try:
            while True:
                self._look()
                left_s = self._left_s()
                if left_s <= 0:
                    break
                time.sleep(min(self._plan.interval_s, left_s))
        except KeyboardInterrupt:
            pass
        self._clear_status()
        return self._close()

    def _left_s(self) -> float:
        if self._plan.once:
            return 0
        if self._plan.length_s is None:
            return self._plan.interval_s
        return self._plan.length_s - (time.monotonic() - self._account.began)

    # --- one look -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        try:
            look = self._seen()
        except SlackwaterError as error:
            self._note_failure(str(error))
            return
        if self._account.trouble is not None:
            self._tell_trouble(None)
        self._account.looks += 1
        notices = self._watch.observe(look)
        if self._watch.looks == 1 and not (self._plan.once and self._account.missing):
            self._tell_start(look)
        for notice in notices:
            self._tell(notice)
        self._show_status(look)

    def _seen(self) -> "ClusterSnapshot":
        from slackwater.client.admin.generations import EVENTS_TOPIC, OFFSETS_TOPIC
        from slackwater.doctor.alerts.monitor import ClusterSnapshot

        names = self._plan.groups or self._listed()
        described = self._described(names)
        written = self._admin.follow_groups(self._follower, names)
        offsets = self._admin.group_offsets(described)
        self._account.seen |= {one.group_id for one in described}
        return ClusterSnapshot(
            time_ms=_now_ms(),
            groups={one.group_id: _group_seen(one, offsets.get(one.group_id, [])) for one in described},
            generations=_generations(written, self._plan.groups),
            events=[one for one in written.events if not self._plan.groups or one.group in self._plan.groups],
            has_events=EVENTS_TOPIC in written.topics,
            has_offsets=OFFSETS_TOPIC in written.topics,
            known_since_ms=self._follower.known_since_ms if written.topics else None,
        )

    def _listed(self) -> list[str]:
        from slackwater.client.admin.groups import DESCRIBED_TYPES

        return [one.group_id for one in self._admin.list_groups() if one.type.lower() in DESCRIBED_TYPES]

    def _described(self, names: Sequence[str]) -> list["GroupDescription"]:
        """The groups that are there; whom a rebalance waits for is asked of those that are at it for longer."""
        found = self._each(names)
        preparing = {one.group_id for one in found if one.state == "PreparingRebalance"}
        if again := sorted(preparing & self._preparing):
            closer = {one.group_id: one for one in self._each(again, find_generation=True)}
            found = [closer.get(one.group_id, one) for one in found]
        self._preparing = preparing
        return found

    def _each(self, names: Sequence[str], *, find_generation: bool = False) -> list["GroupDescription"]:
        try:
            return self._admin.describe_groups(names, find_generation=find_generation)
        except BrokerError as error:
            if error.error is not Error.GROUP_ID_NOT_FOUND and error.error not in _REFUSED:
                raise
        found: list[GroupDescription] = []
        for name in names:  # one of them is gone, or may not be looked at: which?
            try:
                found += self._admin.describe_groups([name], find_generation=find_generation)
            except BrokerError as error:
                self._note_absence(name, error)
        return found

    def _note_absence(self, name: str, error: BrokerError) -> None:
        if error.error in _REFUSED:
            if name not in self._account.refused:
                self._say(f"group {name} may not be looked at: {error.error.name}. Ask for the right to describe it.")
            self._account.refused.add(name)
        elif error.error is not Error.GROUP_ID_NOT_FOUND:
            raise error
        elif self._plan.groups:
            if name not in self._account.missing:
                self._say(str(error))
            self._account.missing.add(name)

    def _note_failure(self, what: str) -> None:
        self._account.failed += 1
        if self._account.trouble is None:
            self._tell_trouble(what)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        """A sentence beside the alerts."""
        self._clear_status()
        warn(text)

    def _tell_trouble(self, what: str | None) -> None:
        self._account.trouble = what
        self._say(what if what is not None else f"{self._where} answers again.")

    def _tell_start(self, look: "ClusterSnapshot") -> None:
        told = sorted({str(self._watch.told_by(one)) for one in look.groups.values()})
        unmeasured = [rule.name for rule in self._watch.not_measured()] if look.groups else []
        if self._as_json:
            emit(
                {
                    "event": "watching",
                    "time_ms": look.time_ms,
                    "cluster": self._admin.cluster_id,
                    "bootstrap": self._where,
                    "groups": sorted(look.groups),
                    "counted_by": told,
                    "not_measured": unmeasured,
                    "rules": [rule.name for rule in self._plan.rules],
                }
            )
            return
        by = f"; rebalances are counted by {' and '.join(told)}" if told else ""
        self._say(f"watching {count(len(look.groups), 'group')} at {self._where}{by}.")
        for name in unmeasured:
            self._say(f"{name} cannot be told here: this cluster writes no __group_events. Ask the clients' metrics.")

    def _tell(self, notice: "AlertNotice") -> None:
        if self._as_json:
            emit(_json(notice))
            return
        self._clear_status()
        typer.echo(_line(notice))

    def _show_status(self, look: "ClusterSnapshot") -> None:
        if self._as_json or self._plan.once or not sys.stderr.isatty():
            return
        firing = len(self._watch.firing)
        alerts = count(firing, "alert") if firing else "no alerts"
        lag = sum(one.lag or 0 for one in look.groups.values())
        line = f"{clock(look.time_ms)}  {count(len(look.groups), 'group')}, lag {lag:,}, {alerts}"
        typer.echo(f"\r\033[K{line}", err=True, nl=False)
        self._status_shown = True

    def _clear_status(self) -> None:
        if self._status_shown:
            typer.echo("\r\033[K", err=True, nl=False)
        self._status_shown = False

    # --- the end ------------------------------------------------------------------------------------------------------

    def _close(self) -> int:
        code = self._code()
        if self._plan.once:
            for notice in self._watch.pending:
                self._tell(notice)
        if self._as_json:
            emit(self._account_json(code))
        elif code != BAD_INPUT:
            typer.echo(self._account_text(code))
        return code

    def _code(self) -> int:
        if self._watch.fired:
            return FIRED
        if not self._account.looks:
            return UNKNOWN_STATE
        unseen = set(self._plan.groups) - self._account.seen
        if unseen and self._plan.once and not unseen <= self._account.refused:
            return BAD_INPUT
        return UNKNOWN_STATE if unseen or (self._account.refused and not self._account.seen) else CALM

    def _account_text(self, code: int) -> str:
        account = self._account
        seconds = round(time.monotonic() - account.began)
        what = f"{count(account.looks, 'look')} in {seconds} s at {count(len(account.seen), 'group')}"
        failed = f", and {account.failed} that failed" if account.failed else ""
        if not account.looks:
            return f"{count(account.failed, 'look')} in {seconds} s, and none succeeded: could not tell."
        if code == FIRED:
            names = sorted({f"{one.group} {one.alert.name}" for one in self._watch.fired})
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            return f"{what}{failed}: {count(len(self._watch.fired), 'alert')} fired: {shown}."
        return f"{what}{failed}: {'nothing fired' if code == CALM else 'could not tell'}."

    def _account_json(self, code: int) -> dict[str, object]:
        account = self._account
        return {
            "event": "account",
            "time_ms": _now_ms(),
            "seconds": round(time.monotonic() - account.began, 3),
            "looks": account.looks,
            "failed_looks": account.failed,
            "groups": sorted(account.seen),
            "missing": sorted(account.missing - account.seen),
            "refused": sorted(account.refused),
            "fired": [{"group": one.group, "rule": one.alert.name} for one in self._watch.fired],
            "firing": [{"group": one.group, "rule": one.alert.name} for one in self._watch.firing],
            "exit_code": code,
        }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _group_seen(group: "GroupDescription", offsets: Sequence["GroupOffset"]) -> "GroupSnapshot":
    from slackwater.client.admin.descriptions import GenerationSource
    from slackwater.doctor.alerts.monitor import GroupSnapshot, MemberSnapshot

    names = {one.member_id: member_name(one, group.members) for one in group.members}
    return GroupSnapshot(
        group=group.group_id,
        state=group.state,
        members=tuple(MemberSnapshot(one.member_id, names[one.member_id], one.partitions) for one in group.members),
        epoch=group.generation if group.generation_source is GenerationSource.GROUP_EPOCH else None,
        committed={one.partition: one.committed for one in offsets if one.committed is not None},
        lag=_lag(group, offsets),
        waiting_for=tuple(names.get(one, one) for one in group.waiting_for or ()),
    )


def _lag(group: "GroupDescription", offsets: Sequence["GroupOffset"]) -> int | None:
    """What waits in the partitions that somebody has; the rest of a group's offsets are left over from other days."""
    owned = {partition for one in group.members for partition in one.partitions or ()}
    return total_lag(one for one in offsets if not owned or one.partition in owned)


def _generations(written: "GroupLogEntries", groups: Sequence[str]) -> "list[ObservedGeneration]":
    from slackwater.doctor.alerts.monitor import ObservedGeneration

    return [
        ObservedGeneration(
            one.group,
            one.time_ms,
            one.generation,
            one.members,
            cooperative="cooperative" in (one.assignor or ""),
            is_epoch=one.members is None,
        )
        for one in written.generations
        if not groups or one.group in groups
    ]


def _json(notice: "AlertNotice") -> dict[str, object]:
    return {
        "event": f"alert_{notice.transition}",
        "time_ms": notice.time_ms,
        "group": notice.group,
        "rule": notice.alert.name,
        "severity": notice.alert.severity,
        "says": notice.alert.says,
        "measure": notice.alert.measure,
        "value": notice.value,
        "limit": notice.alert.limit,
        "for_s": notice.alert.for_s,
        "since_ms": notice.since_ms,
        "seen": notice.seen,
        "first_action": notice.alert.first_action,
    }


def _line(notice: "AlertNotice") -> str:
    from slackwater.doctor.alerts.monitor import AlertTransition

    rule = notice.alert
    word = {AlertTransition.BEGAN: "ALERT", AlertTransition.ENDED: "over", AlertTransition.PENDING: "soon"}[
        notice.transition
    ]
    tone = {AlertTransition.BEGAN: _TONES.get(rule.severity), AlertTransition.ENDED: "green"}.get(notice.transition)
    head = typer.style(f"{word:<5}", fg=tone) if tone is not None and sys.stdout.isatty() else f"{word:<5}"
    told = f"{clock(notice.time_ms)}  {head}  {notice.group}  {rule.name}: {notice.seen}"
    if notice.transition is AlertTransition.BEGAN:
        return f"{told}. First: {rule.first_action}."
    lasted = count(round((notice.time_ms - notice.since_ms) / 1000), "second")
    if notice.transition is AlertTransition.PENDING:
        return f"{told}; for {lasted} so far, an alert after {rule.for_s}."
    return f"{told}; it lasted {lasted}."
