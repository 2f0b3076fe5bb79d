"""`slackwater watch`: evaluate the alert rules on a live cluster.

Invariants:
- It works on any cluster through the admin client, without Spark or Java, and joins or changes nothing.
- It prints one line when an alert begins and one when it ends; with --json one object per line. On a terminal a status
  line on standard error shows the current state.
- Exit codes: 0 no alert, 1 an alert fired, 2 unknown, 3 bad input. Ctrl-C and SIGTERM end it with a summary and the
  exit code.
- Failing requests are reported once when they begin to fail and once when they succeed again; alerts stay unchanged.
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

from slackwater.cli.exit_codes import BAD_INPUT, UNKNOWN_STATE
from slackwater.cli.groups.formatting import member_name, total_lag
from slackwater.cli.options import AsJson, Bootstrap, ConfigFile, client_settings, open_admin
from slackwater.cli.printing import count, emit, print_line, warn
from slackwater.cli.times import clock, duration_ms
from slackwater.escaping import escape_line
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError

if TYPE_CHECKING:
    from slackwater.client.admin import Admin, GroupDescription, GroupOffset
    from slackwater.client.admin.group_records import GroupRecords
    from slackwater.doctor.alerts.monitor import AlertNotice, ClusterSnapshot, ObservedGroup
    from slackwater.doctor.alerts.rules import Alert
    from slackwater.group.rebalance_counter import ObservedGeneration

NO_ALERT: Final = 0
FIRED: Final = 1
HISTORY_MS: Final = 3_600_000
MIN_INTERVAL_MS: Final = 100
_COLORS: Final = {"critical": "red", "warning": "yellow", "info": "cyan"}
_NOT_AUTHORIZED: Final = frozenset({Error.GROUP_AUTHORIZATION_FAILED, Error.CLUSTER_AUTHORIZATION_FAILED})


def watch(
    group: Annotated[list[str] | None, typer.Option(metavar="GROUP", help="Only this group; repeatable.")] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Stop after this time [default: at Ctrl-C].")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Check once and print the alerts that are active now.")] = False,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two checks.")] = "5s",
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other limits: a TOML file with a table per rule (limit, for_s, off)."),
    ] = None,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print the rules as a Prometheus rules file and exit.")
    ] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Watch groups and print one line when an alert begins and one when it ends.

    The rules: more than one rebalance per hour, failed rebalances, a rebalance longer than 60 s, a group that stays in
    PreparingRebalance, lag without commits, members without partitions. Exit codes: 0 no alert, 1 an alert fired (with
    --once: is active), 2 unknown, 3 bad input.
    """
    try:
        options = _parse_options(group, for_, once, interval, rules)
        if prometheus:
            _print_rules(options)
            return
        where = str(client_settings(bootstrap, config)["bootstrap.servers"])
        admin = open_admin(bootstrap, config)
    except UsageError as error:
        warn(str(error))
        raise typer.Exit(BAD_INPUT) from None
    with admin, _stop_at_sigterm():
        code = _Watcher(admin, where, options, as_json=as_json).run()
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class _Options:
    groups: tuple[str, ...]
    duration_s: float | None
    interval_s: float
    once: bool
    rules: "tuple[Alert, ...]"
    has_own_rules: bool


def _parse_options(
    groups: Sequence[str] | None, duration: str | None, once: bool, interval: str, rules: Path | None
) -> _Options:
    from slackwater.doctor.alerts.rules import ALERTS, adapt_rules

    if once and duration is not None:
        raise UsageError("--once and --for exclude each other. Use one of them.")
    run_ms = None if duration is None else duration_ms(duration, "--for")
    interval_ms = duration_ms(interval, "--interval")
    if interval_ms < MIN_INTERVAL_MS:
        raise UsageError(f"--interval {interval} is too short. Use 0.1s or more.")
    alerts = ALERTS if rules is None else adapt_rules(_read_toml(rules), f"--rules {rules}")
    duration_s = None if run_ms is None else run_ms / 1000
    return _Options(tuple(dict.fromkeys(groups or ())), duration_s, interval_ms / 1000, once, alerts, rules is not None)


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--rules {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--rules {path} is not TOML: {error}.") from None


def _print_rules(options: _Options) -> None:
    if options.has_own_rules:
        raise UsageError("--prometheus prints the default rules and ignores --rules. Edit the printed file instead.")
    from slackwater.doctor.alerts.rules import prometheus_rules

    typer.echo(prometheus_rules(), nl=False)


@contextmanager
def _stop_at_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: `timeout` and containers send it."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # signal handlers run only there
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(slots=True)
class _RunSummary:
    """Counts for the end of the run."""

    began: float
    checks: int = 0
    failed_checks: int = 0
    missing: set[str] = field(default_factory=set)
    unauthorized: set[str] = field(default_factory=set)
    observed: set[str] = field(default_factory=set)
    error: str | None = None
    """The error of the current series of failing checks."""


class _Watcher:
    """One run of the command."""

    def __init__(self, admin: "Admin", where: str, options: _Options, *, as_json: bool) -> None:
        from slackwater.client.admin.group_records import GroupRecordsFollower
        from slackwater.doctor.alerts.monitor import AlertMonitor

        self._admin = admin
        self._where = where
        self._options = options
        self._as_json = as_json
        self._monitor = AlertMonitor(options.rules)
        self._follower = GroupRecordsFollower(_now_ms() - HISTORY_MS)
        self._summary = _RunSummary(time.monotonic())
        self._preparing: set[str] = set()
        self._status_shown = False

    def run(self) -> int:
        """Check until the time is over and return the exit code."""
        try:
            while True:
                self._check()
                remaining_s = self._remaining_s()
                if remaining_s <= 0:
                    break
                time.sleep(min(self._options.interval_s, remaining_s))
        except KeyboardInterrupt:
            pass
        self._clear_status()
        return self._finish()

    def _remaining_s(self) -> float:
        if self._options.once:
            return 0
        if self._options.duration_s is None:
            return self._options.interval_s
        return self._options.duration_s - (time.monotonic() - self._summary.began)

    # --- one check ----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        try:
            snapshot = self._snapshot()
        except SlackwaterError as error:
            self._on_failed_check(str(error))
            return
        if self._summary.error is not None:
            self._report_error(None)
        self._summary.checks += 1
        notices = self._monitor.observe(snapshot)
        if self._monitor.snapshots == 1 and not (self._options.once and self._summary.missing):
            self._report_start(snapshot)
        for notice in notices:
            self._print_notice(notice)
        self._show_status(snapshot)

    def _snapshot(self) -> "ClusterSnapshot":
        from slackwater.doctor.alerts.monitor import ClusterSnapshot
        from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC

        names = self._options.groups or self._group_ids()
        described = self._describe(names)
        entries = self._admin.follow_groups(self._follower, names)
        offsets = self._admin.group_offsets(described)
        self._summary.observed |= {group.group_id for group in described}
        return ClusterSnapshot(
            time_ms=_now_ms(),
            groups={group.group_id: _group_snapshot(group, offsets.get(group.group_id, [])) for group in described},
            generations=_generations(entries, self._options.groups),
            events=[
                event for event in entries.events if not self._options.groups or event.group in self._options.groups
            ],
            has_events=EVENTS_TOPIC in entries.topics,
            has_offsets=OFFSETS_TOPIC in entries.topics,
            known_since_ms=self._follower.known_since_ms if entries.topics else None,
        )

    def _group_ids(self) -> list[str]:
        from slackwater.client.admin.groups import DESCRIBED_TYPES

        return [group.group_id for group in self._admin.list_groups() if group.type.lower() in DESCRIBED_TYPES]

    def _describe(self, names: Sequence[str]) -> list["GroupDescription"]:
        """Describe the groups; for those in PreparingRebalance at two checks in a row also find the awaited members."""
        descriptions = self._describe_each(names)
        preparing = {group.group_id for group in descriptions if group.state == "PreparingRebalance"}
        if waiting := sorted(preparing & self._preparing):
            detailed = {group.group_id: group for group in self._describe_each(waiting, find_generation=True)}
            descriptions = [detailed.get(group.group_id, group) for group in descriptions]
        self._preparing = preparing
        return descriptions

    def _describe_each(self, names: Sequence[str], *, find_generation: bool = False) -> list["GroupDescription"]:
        try:
            return self._admin.describe_groups(names, find_generation=find_generation)
        except BrokerError as error:
            if error.error is not Error.GROUP_ID_NOT_FOUND and error.error not in _NOT_AUTHORIZED:
                raise
        descriptions: list[GroupDescription] = []
        for name in names:  # one of them does not exist or is not authorized: find out which
            try:
                descriptions += self._admin.describe_groups([name], find_generation=find_generation)
            except BrokerError as error:
                self._report_missing_group(name, error)
        return descriptions

    def _report_missing_group(self, name: str, error: BrokerError) -> None:
        if error.error in _NOT_AUTHORIZED:
            if name not in self._summary.unauthorized:
                self._warn(f"Group {name} cannot be described: {error.error.name}. Grant DESCRIBE on it.")
            self._summary.unauthorized.add(name)
        elif error.error is not Error.GROUP_ID_NOT_FOUND:
            raise error
        elif self._options.groups:
            if name not in self._summary.missing:
                self._warn(str(error))
            self._summary.missing.add(name)

    def _on_failed_check(self, message: str) -> None:
        self._summary.failed_checks += 1
        if self._summary.error is None:
            self._report_error(message)

    # --- output -------------------------------------------------------------------------------------------------------

    def _warn(self, text: str) -> None:
        """Print a warning without breaking the status line."""
        self._clear_status()
        warn(text)

    def _report_error(self, message: str | None) -> None:
        self._summary.error = message
        self._warn(message if message is not None else f"{self._where} is reachable again.")

    def _report_start(self, snapshot: "ClusterSnapshot") -> None:
        sources = sorted({str(self._monitor.rebalance_source(group)) for group in snapshot.groups.values()})
        unmeasured = [rule.name for rule in self._monitor.not_measured()] if snapshot.groups else []
        if self._as_json:
            emit(
                {
                    "event": "watching",
                    "time_ms": snapshot.time_ms,
                    "cluster": self._admin.cluster_id,
                    "bootstrap": self._where,
                    "groups": sorted(snapshot.groups),
                    "counted_by": sources,
                    "not_measured": unmeasured,
                    "rules": [rule.name for rule in self._options.rules],
                }
            )
            return
        by = f"; rebalances are counted by {' and '.join(sources)}" if sources else ""
        self._warn(f"watching {count(len(snapshot.groups), 'group')} at {self._where}{by}.")
        for name in unmeasured:
            self._warn(f"{name} is not measured: this cluster has no __group_events. Use the clients' metrics.")

    def _print_notice(self, notice: "AlertNotice") -> None:
        if self._as_json:
            emit(_json(notice))
            return
        self._clear_status()
        typer.echo(_line(notice))

    def _show_status(self, snapshot: "ClusterSnapshot") -> None:
        if self._as_json or self._options.once or not sys.stderr.isatty():
            return
        firing = len(self._monitor.firing)
        alerts = count(firing, "alert") if firing else "no alerts"
        lag = sum(group.lag or 0 for group in snapshot.groups.values())
        line = f"{clock(snapshot.time_ms)}  {count(len(snapshot.groups), 'group')}, lag {lag:,}, {alerts}"
        typer.echo(f"\r\033[K{line}", err=True, nl=False)
        self._status_shown = True

    def _clear_status(self) -> None:
        if self._status_shown:
            typer.echo("\r\033[K", err=True, nl=False)
        self._status_shown = False

    # --- the end ------------------------------------------------------------------------------------------------------

    def _finish(self) -> int:
        code = self._exit_code()
        if self._options.once:
            for notice in self._monitor.pending:
                self._print_notice(notice)
        if self._as_json:
            emit(self._summary_json(code))
        elif code != BAD_INPUT:
            print_line(self._summary_text(code))
        return code

    def _exit_code(self) -> int:
        if self._monitor.fired:
            return FIRED
        if not self._summary.checks:
            return UNKNOWN_STATE
        unobserved = set(self._options.groups) - self._summary.observed
        if unobserved and self._options.once and not unobserved <= self._summary.unauthorized:
            return BAD_INPUT
        return UNKNOWN_STATE if unobserved or (self._summary.unauthorized and not self._summary.observed) else NO_ALERT

    def _summary_text(self, code: int) -> str:
        summary = self._summary
        seconds = round(time.monotonic() - summary.began)
        text = f"{count(summary.checks, 'check')} of {count(len(summary.observed), 'group')} in {seconds} s"
        failed = f", {summary.failed_checks} failed" if summary.failed_checks else ""
        if not summary.checks:
            return f"{count(summary.failed_checks, 'check')} in {seconds} s, none succeeded: state unknown."
        if code == FIRED:
            names = sorted({f"{notice.group} {notice.alert.name}" for notice in self._monitor.fired})
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            return f"{text}{failed}: {count(len(self._monitor.fired), 'alert')} fired: {shown}."
        return f"{text}{failed}: {'no alert' if code == NO_ALERT else 'state unknown'}."

    def _summary_json(self, code: int) -> dict[str, object]:
        summary = self._summary
        return {
            "event": "account",
            "time_ms": _now_ms(),
            "seconds": round(time.monotonic() - summary.began, 3),
            "checks": summary.checks,
            "failed_checks": summary.failed_checks,
            "groups": sorted(summary.observed),
            "missing": sorted(summary.missing - summary.observed),
            "refused": sorted(summary.unauthorized),
            "fired": [{"group": notice.group, "rule": notice.alert.name} for notice in self._monitor.fired],
            "firing": [{"group": notice.group, "rule": notice.alert.name} for notice in self._monitor.firing],
            "exit_code": code,
        }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _group_snapshot(group: "GroupDescription", offsets: Sequence["GroupOffset"]) -> "ObservedGroup":
    from slackwater.client.admin.descriptions import GenerationSource
    from slackwater.doctor.alerts.monitor import ObservedGroup, ObservedMember

    names = {member.member_id: member_name(member, group.members) for member in group.members}
    return ObservedGroup(
        group=group.group_id,
        state=group.state,
        members=tuple(
            ObservedMember(member.member_id, names[member.member_id], member.partitions) for member in group.members
        ),
        epoch=group.generation if group.generation_source is GenerationSource.GROUP_EPOCH else None,
        committed={offset.partition: offset.committed for offset in offsets if offset.committed is not None},
        lag=_lag(group, offsets),
        waiting_for=tuple(names.get(member_id, member_id) for member_id in group.waiting_for or ()),
    )


def _lag(group: "GroupDescription", offsets: Sequence["GroupOffset"]) -> int | None:
    """Return the lag of the assigned partitions; other offsets of the group are left over."""
    owned = {partition for member in group.members for partition in member.partitions or ()}
    return total_lag(offset for offset in offsets if not owned or offset.partition in owned)


def _generations(entries: "GroupRecords", groups: Sequence[str]) -> "list[ObservedGeneration]":
    from slackwater.group.rebalance_counter import ObservedGeneration

    return [
        ObservedGeneration(
            generation.group,
            generation.time_ms,
            generation.generation,
            generation.members,
            cooperative="cooperative" in (generation.assignor or ""),
            is_epoch=generation.members is None,
        )
        for generation in entries.generations
        if not groups or generation.group in groups
    ]


def _json(notice: "AlertNotice") -> dict[str, object]:
    return {
        "event": f"alert_{notice.state}",
        "time_ms": notice.time_ms,
        "group": notice.group,
        "rule": notice.alert.name,
        "severity": notice.alert.severity,
        "summary": notice.alert.summary,
        "measure": notice.alert.measure,
        "value": notice.value,
        "limit": notice.alert.limit,
        "for_s": notice.alert.for_s,
        "since_ms": notice.since_ms,
        "seen": notice.description,
        "first_action": notice.alert.first_action,
    }


def _line(notice: "AlertNotice") -> str:
    from slackwater.doctor.alerts.monitor import AlertState

    rule = notice.alert
    word = {AlertState.BEGAN: "ALERT", AlertState.ENDED: "ended", AlertState.PENDING: "pending"}[notice.state]
    tone = {AlertState.BEGAN: _COLORS.get(rule.severity), AlertState.ENDED: "green"}.get(notice.state)
    head = typer.style(f"{word:<7}", fg=tone) if tone is not None and sys.stdout.isatty() else f"{word:<7}"
    text = f"{notice.group}  {rule.name}: {notice.description}"
    lasted = count(round((notice.time_ms - notice.since_ms) / 1000), "second")
    match notice.state:
        case AlertState.BEGAN:
            text += f". First: {rule.first_action}."
        case AlertState.PENDING:
            text += f", for {lasted} so far; the alert fires after {count(rule.for_s, 'second')}."
        case AlertState.ENDED:
            text += f"; it lasted {lasted}."
    return f"{clock(notice.time_ms)}  {head}  {escape_line(text)}"
