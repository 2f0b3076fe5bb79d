"""`slackwater topics`: list, describe, create, add partitions, change settings, delete."""

import base64
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    DryRun,
    Yes,
    confirm,
    open_admin,
)
from slackwater.cli.pairs import parse_pairs
from slackwater.cli.printing import count, emit, facts, heading, print_line, table
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    from slackwater.client.admin import Admin, ConfigEntry
    from slackwater.client.network.cluster import TopicMetadata

topics = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, describe, create, change and delete topics.",
)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.")]


@topics.command("list")
def list_(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the topics."""
    with open_admin(bootstrap, config) as admin:
        listed = admin.list_topics(internal=internal)
    if as_json:
        for topic in listed:
            emit({"topic": topic.name, "partitions": len(topic.partitions), "replication_factor": _replicas(topic)})
    elif not listed:
        print_line("There are no topics.")
    else:
        rows = ([topic.name, len(topic.partitions), _replicas(topic)] for topic in listed)
        table(["TOPIC", "PARTITIONS", "REPLICAS"], rows, styles={"TOPIC": "bold"})


@topics.command()
def describe(
    topic: Names,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show topics: partitions, leaders, replicas, offsets, and non-default settings.

    With --json, each topic is one line. Exit code 1 if a topic does not exist.
    """
    with open_admin(bootstrap, config) as admin:
        topics_described = [
            (described, _offsets(admin, described), admin.describe_configs("topic", described.name))
            for described in admin.describe_topics(topic)
        ]
    for number, (described, offsets, settings) in enumerate(topics_described):
        if as_json:
            emit(_json(described, offsets, settings))
            continue
        if number:
            print_line()
        _show(described, offsets, settings)


@topics.command()
def create(
    topic: Name,
    partitions: Annotated[int | None, typer.Option(metavar="N", help="Partitions [default: the broker's]")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(metavar="N", help="Replicas per partition [default: the broker's]")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A topic setting; repeatable.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if it already exists.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic. With --dry-run the broker only validates the request."""
    for option, number in (("--partitions", partitions), ("--replication-factor", replication_factor)):
        if number is not None and number < 1:
            raise UsageError(f"{option} is {number}; use 1 or more.")
    existed = False
    with open_admin(bootstrap, config) as admin:
        try:
            admin.create_topic(
                topic,
                partitions or -1,
                replication_factor or -1,
                parse_pairs(set_ or (), "--set"),
                validate_only=dry_run,
            )
        except BrokerError as error:
            if error.error is not Error.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            existed = True
    if as_json:
        emit({"topic": topic, "created": not dry_run and not existed})
    elif existed:
        print_line(f"Topic {topic} already exists.")
    else:
        print_line(f"Topic {topic} could be created." if dry_run else f"Created topic {topic}.")


@topics.command()
def add_partitions(
    topic: Name,
    total: Annotated[int, typer.Option(metavar="N", help="The new number of partitions.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic. This cannot be undone, and keys may map to other partitions.

    The groups that read the topic rebalance.
    """
    with open_admin(bootstrap, config) as admin:
        (described,) = admin.describe_topics([topic])
        before = len(described.partitions)
        admin.add_partitions(topic, total, validate_only=True)
        if not as_json:
            will = "would have" if dry_run else "will have"
            print_line(f"Topic {topic} has {count(before, 'partition')}, and {will} {total}.")
        if not dry_run:
            question = "Keys may map to other partitions, and this cannot be undone. Add the partitions?"
            confirm(question, yes=yes, as_json=as_json)
            admin.add_partitions(topic, total)
    if as_json:
        emit({"topic": topic, "partitions_before": before, "partitions": total, "added": not dry_run})
    elif not dry_run:
        print_line(f"Added {count(total - before, 'partition')} to topic {topic}.")


@topics.command("set")
def set_(
    topic: Name,
    setting: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="What to set.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Reset a setting to its default; repeatable.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of a topic, all or none. A shorter retention can delete records."""
    changes: dict[str, str | None] = {**parse_pairs(setting or ())}
    changes |= dict.fromkeys(unset or ())
    if not changes:
        raise UsageError("nothing to change; use NAME=VALUE or --unset NAME.")
    with open_admin(bootstrap, config) as admin:
        before = admin.describe_configs("topic", topic)
        admin.alter_configs("topic", topic, changes, validate_only=True)
        if not as_json:
            print_line(
                f"{'Would change' if dry_run else 'Changing'} {count(len(changes), 'setting')} of topic {topic}:"
            )
            rows = ([name, _value(before.get(name)), value or "(default)"] for name, value in changes.items())
            table(["SETTING", "FROM", "TO"], rows)
        if not dry_run:
            confirm(f"Change topic {topic}?", yes=yes, as_json=as_json)
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
        print_line(f"Changed topic {topic}.")


@topics.command()
def delete(
    topic: Names,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records and the offsets that groups have committed for them.

    With --json, each topic is one line. Exit code 1 if a topic does not exist.
    """
    with open_admin(bootstrap, config) as admin:
        to_delete = admin.describe_topics(topic)
        records = {
            described.name: sum(end - start for start, end in _offsets(admin, described).values())
            for described in to_delete
        }
        if not as_json:
            print_line(f"{'Would delete' if dry_run else 'Deleting'} {count(len(to_delete), 'topic')}:")
            rows = ([described.name, len(described.partitions), records[described.name]] for described in to_delete)
            table(["TOPIC", "PARTITIONS", "RECORDS"], rows)
        if not dry_run:
            confirm(f"Delete {count(len(to_delete), 'topic')} with all records?", yes=yes, as_json=as_json)
            for described in to_delete:
                admin.delete_topic(described.name)
    if as_json:
        for described in to_delete:
            emit({"topic": described.name, "records": records[described.name], "deleted": not dry_run})
    elif not dry_run:
        print_line(f"Deleted {count(len(to_delete), 'topic')}.")


def _replicas(topic: "TopicMetadata") -> int | None:
    return max((len(partition.replicas) for partition in topic.partitions), default=None)


def _offsets(admin: "Admin", topic: "TopicMetadata") -> dict[int, tuple[int, int]]:
    """Start and end offsets of the partitions that have a leader."""
    partitions = [
        TopicPartition(topic.name, partition.index) for partition in topic.partitions if partition.leader >= 0
    ]
    starts, ends = admin.list_offsets(dict.fromkeys(partitions, -2)), admin.list_offsets(dict.fromkeys(partitions, -1))
    offsets = {}
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        if start is not None and end is not None:
            offsets[partition.partition] = (start.offset, end.offset)
    return offsets


def _value(entry: "ConfigEntry | None") -> str | None:
    return entry.value if entry is not None else None


def _show(topic: "TopicMetadata", offsets: dict[int, tuple[int, int]], settings: dict[str, "ConfigEntry"]) -> None:
    heading(f"Topic {topic.name}")
    own = [(entry.name, entry.value or "", "") for entry in settings.values() if not entry.is_default]
    facts([("partitions", str(len(topic.partitions)), ""), ("id", _id(topic), ""), *own])
    print_line()
    table(
        ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END"],
        (
            [
                partition.index,
                partition.leader if partition.leader >= 0 else None,
                ",".join(map(str, partition.replicas)),
                ",".join(map(str, partition.isr)),
                *offsets.get(partition.index, (None, None)),
            ]
            for partition in topic.partitions
        ),
    )


def _json(
    topic: "TopicMetadata", offsets: dict[int, tuple[int, int]], settings: dict[str, "ConfigEntry"]
) -> dict[str, Any]:
    unknown = (None, None)
    return {
        "topic": topic.name,
        "id": _id(topic),
        "internal": topic.is_internal,
        "settings": {entry.name: entry.value for entry in settings.values() if not entry.is_default},
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader if partition.leader >= 0 else None,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "start": offsets.get(partition.index, unknown)[0],
                "end": offsets.get(partition.index, unknown)[1],
            }
            for partition in topic.partitions
        ],
    }


def _id(topic: "TopicMetadata") -> str:
    """A topic's id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
