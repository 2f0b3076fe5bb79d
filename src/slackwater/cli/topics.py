"""`slackwater topics`: list, describe, create, add partitions, change settings, delete."""

import base64
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.connecting import (
    AsJson,
    Bootstrap,
    ConfigFile,
    DryRun,
    Yes,
    administrator,
    may_go_on,
    pairs,
)
from slackwater.cli.printing import count, emit, facts, heading, table
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    from slackwater.client.admin import Admin, ConfigEntry
    from slackwater.client.network.cluster import TopicMetadata

topics = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show, create, grow, set and delete topics.",
)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.")]


@topics.command("list")
def list_(
    internal: Annotated[bool, typer.Option("--internal", help="Kafka's own topics, too.")] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the topics."""
    with administrator(bootstrap, config) as admin:
        found = admin.list_topics(internal=internal)
    if as_json:
        for topic in found:
            emit({"topic": topic.name, "partitions": len(topic.partitions), "replication_factor": _replicas(topic)})
    elif not found:
        typer.echo("There are no topics.")
    else:
        rows = ([topic.name, len(topic.partitions), _replicas(topic)] for topic in found)
        table(["TOPIC", "PARTITIONS", "REPLICAS"], rows, styles={"TOPIC": "bold"})


@topics.command()
def describe(
    topic: Names,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show topics: partitions, leaders, replicas, offsets, and the settings that are their own.

    With --json a topic is one line. Exit code 1 if one does not exist.
    """
    with administrator(bootstrap, config) as admin:
        found = [
            (one, _offsets(admin, one), admin.describe_configs("topic", one.name))
            for one in admin.describe_topics(topic)
        ]
    for number, (one, offsets, settings) in enumerate(found):
        if as_json:
            emit(_json(one, offsets, settings))
            continue
        if number:
            typer.echo()
        _show(one, offsets, settings)


@topics.command()
def create(
    topic: Name,
    partitions: Annotated[int | None, typer.Option(metavar="N", help="How many; else the broker's default.")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(metavar="N", help="How many replicas of each; else the broker's default.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the topic; repeatable.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="All is well if it is there already.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic. With --dry-run the broker says whether it could be created."""
    for option, number in (("--partitions", partitions), ("--replication-factor", replication_factor)):
        if number is not None and number < 1:
            raise UsageError(f"{option} is {number}; use 1 or more.")
    existed = False
    with administrator(bootstrap, config) as admin:
        try:
            admin.create_topic(
                topic, partitions or -1, replication_factor or -1, pairs(set_ or (), "--set"), validate_only=dry_run
            )
        except BrokerError as error:
            if error.error is not Error.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            existed = True
    if as_json:
        emit({"topic": topic, "created": not dry_run and not existed})
    elif existed:
        typer.echo(f"Topic {topic} is there already.")
    else:
        typer.echo(f"Topic {topic} could be created." if dry_run else f"Created topic {topic}.")


@topics.command()
def add_partitions(
    topic: Name,
    total: Annotated[int, typer.Option(metavar="N", help="How many partitions it shall have.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Give a topic more partitions. It cannot be taken back, and keys may move to other partitions.

    The groups that read the topic will rebalance.
    """
    with administrator(bootstrap, config) as admin:
        (found,) = admin.describe_topics([topic])
        before = len(found.partitions)
        admin.add_partitions(topic, total, validate_only=True)
        if not as_json:
            will = "would have" if dry_run else "will have"
            typer.echo(f"Topic {topic} has {count(before, 'partition')}, and {will} {total}.")
        if not dry_run:
            question = "Keys may move to other partitions, and it cannot be taken back. Add them?"
            may_go_on(question, yes=yes, as_json=as_json)
            admin.add_partitions(topic, total)
    if as_json:
        emit({"topic": topic, "partitions_before": before, "partitions": total, "added": not dry_run})
    elif not dry_run:
        typer.echo(f"Added {count(total - before, 'partition')} to topic {topic}.")


@topics.command("set")
def set_(
    topic: Name,
    setting: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="What to set.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Take a setting back to its default; repeatable.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of a topic: all of them, or none. Retention can delete records."""
    changes: dict[str, str | None] = {**pairs(setting or (), "")}
    changes |= dict.fromkeys(unset or ())
    if not changes:
        raise UsageError("say what to change: NAME=VALUE, or --unset NAME.")
    with administrator(bootstrap, config) as admin:
        before = admin.describe_configs("topic", topic)
        admin.alter_configs("topic", topic, changes, validate_only=True)
        if not as_json:
            typer.echo(
                f"{'Would change' if dry_run else 'Changing'} {count(len(changes), 'setting')} of topic {topic}:"
            )
            rows = ([name, _value(before.get(name)), value or "(default)"] for name, value in changes.items())
            table(["SETTING", "FROM", "TO"], rows)
        if not dry_run:
            may_go_on(f"Change topic {topic}?", yes=yes, as_json=as_json)
            admin.alter_configs("topic", topic, changes)
    if as_json:
        for name, value in changes.items():
            emit(
                {
                    "topic": topic,
                    "setting": name,
                    "from": _value(before.get(name)),
                    "to": value,
                    "changed": not dry_run,
                }
            )
    elif not dry_run:
        typer.echo(f"Changed topic {topic}.")


@topics.command()
def delete(
    topic: Names,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records, and the offsets that groups have committed for them.

    With --json a topic is one line. Exit code 1 if one does not exist.
    """
    with administrator(bootstrap, config) as admin:
        found = admin.describe_topics(topic)
        records = {one.name: sum(end - start for start, end in _offsets(admin, one).values()) for one in found}
        if not as_json:
            typer.echo(f"{'Would delete' if dry_run else 'Deleting'} {count(len(found), 'topic')}:")
            rows = ([one.name, len(one.partitions), records[one.name]] for one in found)
            table(["TOPIC", "PARTITIONS", "RECORDS"], rows)
        if not dry_run:
            may_go_on(f"Delete {count(len(found), 'topic')} with all records?", yes=yes, as_json=as_json)
            for one in found:
                admin.delete_topic(one.name)
    if as_json:
        for one in found:
            emit({"topic": one.name, "records": records[one.name], "deleted": not dry_run})
    elif not dry_run:
        typer.echo(f"Deleted {count(len(found), 'topic')}.")


# --- what is shown ----------------------------------------------------------------------------------------------------


def _replicas(topic: "TopicMetadata") -> int | None:
    return max((len(one.replicas) for one in topic.partitions), default=None)


def _offsets(admin: "Admin", topic: "TopicMetadata") -> dict[int, tuple[int, int]]:
    """Start and end of the partitions that have a leader."""
    there = [TopicPartition(topic.name, one.index) for one in topic.partitions if one.leader >= 0]
    starts, ends = admin.list_offsets(dict.fromkeys(there, -2)), admin.list_offsets(dict.fromkeys(there, -1))
    found = {}
    for partition in there:
        start, end = starts[partition], ends[partition]
        if start is not None and end is not None:
            found[partition.partition] = (start.offset, end.offset)
    return found


def _value(entry: "ConfigEntry | None") -> str | None:
    return entry.value if entry is not None else None


def _show(topic: "TopicMetadata", offsets: dict[int, tuple[int, int]], settings: dict[str, "ConfigEntry"]) -> None:
    heading(f"Topic {topic.name}")
    own = [(entry.name, entry.value or "", "") for entry in settings.values() if not entry.is_default]
    facts([("partitions", str(len(topic.partitions)), ""), ("id", _id(topic), ""), *own])
    typer.echo()
    table(
        ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END"],
        (
            [
                one.index,
                one.leader if one.leader >= 0 else None,
                ",".join(map(str, one.replicas)),
                ",".join(map(str, one.isr)),
                *offsets.get(one.index, (None, None)),
            ]
            for one in topic.partitions
        ),
    )


def _json(
    topic: "TopicMetadata", offsets: dict[int, tuple[int, int]], settings: dict[str, "ConfigEntry"]
) -> dict[str, Any]:
    nowhere = (None, None)
    return {
        "topic": topic.name,
        "id": _id(topic),
        "internal": topic.is_internal,
        "settings": {entry.name: entry.value for entry in settings.values() if not entry.is_default},
        "partitions": [
            {
                "partition": one.index,
                "leader": one.leader if one.leader >= 0 else None,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
                "start": offsets.get(one.index, nowhere)[0],
                "end": offsets.get(one.index, nowhere)[1],
            }
            for one in topic.partitions
        ],
    }


def _id(topic: "TopicMetadata") -> str:
    """A topic's id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
