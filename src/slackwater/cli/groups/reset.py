"""`slackwater groups reset-offsets`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.groups.offset_lines import format_offsets, read_offsets
from slackwater.cli.options import AsJson, Bootstrap, ConfigFile, DryRun, Yes, confirm, open_admin
from slackwater.cli.printing import count, emit, print_line, table
from slackwater.cli.times import datetime_ms, duration_ms
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    from slackwater.client.admin import OffsetChange, ResetTo


def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:0,1]", help="A topic, or partitions of it; repeatable."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics with committed offsets.", show_default=False)
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the committed offset, else the end.")] = False,
    to_offset: Annotated[int | None, typer.Option(metavar="N", help="To this offset.")] = None,
    shift_by: Annotated[int | None, typer.Option(metavar="N", help="Forward by N; backward if negative.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="To the first record since this time; ISO 8601, UTC without a zone."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="To the first record within this time: 90s, 1h30m, PT1H.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="To the offsets in this file: topic,partition,offset lines.")
    ] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Print topic,partition,offset lines, which --from-file can read.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Reset a group's committed offsets. The group must have no members.

    An offset outside the log becomes its start or end. A group that does not exist is created by its first offsets.
    With --json a partition is one line. Exit code 1 if the group has members.

    --from-file and --export have the format of Kafka's own tool. To save offsets, run --to-current --all-topics
    --dry-run --export.
    """
    if as_json and export:
        raise UsageError("use --json or --export, not both.")
    file_offsets = read_offsets(from_file, group) if from_file is not None else None
    to = _target(to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration, file_offsets)
    if from_file is not None:
        if all_topics or topic:
            raise UsageError("--from-file names the partitions; leave out --topic and --all-topics.")
    elif all_topics and topic:
        raise UsageError("use --topic or --all-topics, not both.")
    elif not (all_topics or topic):
        raise UsageError("no topics; use --topic TOPIC or --all-topics.")
    topics, partitions = _scope(topic or [])
    with open_admin(bootstrap, config) as admin:
        changes = admin.reset_offsets(group, to, topics=topics or None, partitions=partitions, dry_run=True)
        if not as_json and not export:
            _show(changes, group, dry_run=dry_run)
        if not dry_run:
            confirm(f"Move {count(len(changes), 'offset')} of group {group}?", yes=yes, as_json=as_json, export=export)
            admin.alter_offsets(group, {change.partition: change.new for change in changes})
    if export:
        for line in format_offsets(changes).split("\n")[:-1]:
            print_line(line)
    elif as_json:
        for change in changes:
            emit(_json(group, change, done=not dry_run))
    elif not dry_run:
        print_line(f"Moved {count(len(changes), 'offset')} of group {group}.")


def _target(
    earliest: bool,
    latest: bool,
    current: bool,
    offset: int | None,
    shift: int | None,
    when: str | None,
    ago: str | None,
    file_offsets: dict[TopicPartition, int] | None,
) -> "ResetTo":
    from slackwater.client.admin import ResetTo

    targets: list[ResetTo] = []
    if earliest:
        targets.append(ResetTo.earliest())
    if latest:
        targets.append(ResetTo.latest())
    if current:
        targets.append(ResetTo.current())
    if offset is not None:
        targets.append(ResetTo.offset(offset))
    if shift is not None:
        targets.append(ResetTo.shift(shift))
    if when is not None:
        targets.append(ResetTo.time(datetime_ms(when, "--to-datetime")))
    if ago is not None:
        targets.append(ResetTo.time(max(time.time_ns() // 1_000_000 - duration_ms(ago, "--by-duration"), 0)))
    if file_offsets is not None:
        targets.append(ResetTo.offsets(file_offsets))
    if len(targets) != 1:
        raise UsageError(
            "use exactly one of --to-earliest, --to-latest, --to-current, --to-offset, "
            "--shift-by, --to-datetime, --by-duration or --from-file."
        )
    return targets[0]


def _scope(words: list[str]) -> tuple[list[str], list[TopicPartition]]:
    topics, partitions = [], []
    for word in words:
        name, colon, numbers = word.partition(":")
        if not colon:
            topics.append(name)
            continue
        for number in numbers.split(","):
            if not number.isascii() or not number.isdigit():
                raise UsageError(f"--topic {word} does not name partitions. Use topic:0,1.")
            partitions.append(TopicPartition(name, int(number)))
    return topics, partitions


def _show(changes: list["OffsetChange"], group: str, *, dry_run: bool) -> None:
    noted = any(change.note for change in changes)
    print_line(f"{'Would move' if dry_run else 'Moving'} {count(len(changes), 'offset')} of group {group}:")
    table(
        ["TOPIC", "PARTITION", "FROM", "TO", "CHANGE", *(["NOTE"] if noted else [])],
        (
            [
                *change.partition,
                change.old,
                change.new,
                f"{change.new - change.old:+,}" if change.old is not None else "new",
                *([change.note] if noted else []),
            ]
            for change in changes
        ),
    )


def _json(group: str, change: "OffsetChange", *, done: bool) -> dict[str, object]:
    return {
        "group": group,
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "from": change.old,
        "to": change.new,
        "note": change.note or None,
        "moved": done,
    }
