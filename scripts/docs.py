"""Write the generated pages of docs/: state machines, command line, settings, Spark options, the timeout diagram.

`--check` writes nothing and exits with 1 if a page is out of date.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from typer import Typer
from typer.testing import CliRunner

from slackwater.broker.config import BROKER_SETTINGS, SYNONYMS, TOPIC_SETTINGS, Setting, format_value
from slackwater.cli.app import app
from slackwater.client.config import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from slackwater.client.config.common import COMMON
from slackwater.client.config.parsing import OTHER_CLIENTS_SETTINGS
from slackwater.client.config.unsupported import UNSUPPORTED
from slackwater.client.producer.transaction_states import REMEDIES, TransactionManagerInput, TransactionManagerState
from slackwater.client.producer.transaction_states import TRANSITIONS as TRANSACTION_TRANSITIONS
from slackwater.group.coordinator.states import NEXT_STATES, TRANSITIONS, GroupAction
from slackwater.group.events import GroupState
from slackwater.group.member.states import MEMBER_TRANSITIONS, MemberAction, MemberInput, MemberState
from slackwater.group.transactions.states import TRANSITIONS as COORDINATOR_TRANSACTIONS
from slackwater.group.transactions.states import TransactionAction
from slackwater.group.transactions.states import TransactionState as CoordinatorTransactionState
from slackwater.spark.clients.option_names import PREFIX
from slackwater.spark.sink.options import OPTIONS as SINK_OPTIONS
from slackwater.spark.sink.options import REJECTED as SINK_REJECTED
from slackwater.spark.source.options import OPTIONS as SPARK_OPTIONS
from slackwater.spark.source.options import REJECTED

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.timeouts_figure import draw, record  # noqa: E402

DOCS = ROOT / "docs"
MAX_LABELS = 6
GENERATED = "<!-- Written by `make docs` from the code; changes here are overwritten. -->"


def diagram(edges: Mapping[tuple[str, str], Iterable[str]], first: str) -> list[str]:
    """A Mermaid state diagram: one arrow per pair of states, labelled with the inputs that lead along it."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR", f"    [*] --> {first}"]
    lines += [f"    {source} --> {target}: {_label(list(inputs))}" for (source, target), inputs in edges.items()]
    return [*lines, "```"]


def _label(inputs: list[str]) -> str:
    """A label that fits next to an arrow; the table below the diagram has all inputs."""
    if len(inputs) > MAX_LABELS:
        inputs = [*inputs[: MAX_LABELS - 1], f"and {len(inputs) - MAX_LABELS + 1} more"]
    return "<br/>".join(inputs)


def words(name: str) -> str:
    """JOIN_WITHOUT_ID -> join without id."""
    return name.lower().replace("_", " ")


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    head = list(columns)
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]


def coordinator_page() -> str:
    """Return docs/coordinator-states.md."""
    edges: dict[tuple[str, str], list[str]] = {}
    for group_input, row in TRANSITIONS.items():
        for state, transition in row.items():
            for target in transition.next_states:
                if target in NEXT_STATES[state] and (GroupState.DEAD not in (state, target)):
                    edges.setdefault((state.value, target.value), []).append(words(group_input.name))
    rows = []
    for group_input, row in TRANSITIONS.items():
        cells = []
        for transition in row.values():
            if transition.action is GroupAction.REJECT:
                cells.append(transition.error.name)
            else:
                targets = ", ".join(state.value for state in transition.next_states)
                cells.append(transition.action.value + (f" → {targets}" if targets else ""))
        rows.append([f"**{words(group_input.name)}**: {group_input.value}", *cells])
    lines = [
        GENERATED,
        "# The coordinator's states",
        "",
        "The states of a classic group in the coordinator. During KIP-134's delay a group is in InitialRebalance,",
        "which is PreparingRebalance on the wire. Every state can also change to Dead: an administrator or the",
        "expiration check deletes an empty group, and unloading drops a group in any state.",
        "",
        *diagram(edges, GroupState.EMPTY.value),
        "",
        "## Every state and every input",
        "",
        "Checks that do not depend on the state (a known member id, the current generation, a common protocol) run",
        "before this table is read. A cell with an arrow names the states that may follow; without an arrow the state",
        "does not change. A dash marks a pair that an earlier check or a cancelled timer excludes. A rebalance without",
        "members goes through PreparingRebalance to Empty in one step; one that all members have already joined goes",
        "to CompletingRebalance.",
        "",
        *table(["input", *(state.value for state in GroupState)], rows),
        "",
    ]
    return "\n".join(lines)


def transaction_coordinator_page() -> str:
    """Return docs/transaction-coordinator-states.md."""
    edges: dict[tuple[str, str], list[str]] = {}
    rows = []
    states = [state for state in CoordinatorTransactionState if state is not CoordinatorTransactionState.DEAD]
    for happened, row in COORDINATOR_TRANSACTIONS.items():
        cells = []
        for state in states:
            transition = row[state]
            target = transition.next_state
            if target is not None:
                edges.setdefault((state.value, target.value), []).append(words(happened.name))
            if transition.action is TransactionAction.REJECT:
                cells.append(transition.error.name)
            else:
                cells.append(transition.action.value + (f" → {target.value}" if target is not None else ""))
        rows.append([f"**{words(happened.name)}**: {happened.value}", *cells])
    lines = [
        GENERATED,
        "# The states of a transaction in the coordinator",
        "",
        "The states of a transactional id in the broker's transaction coordinator, under Kafka's names. The producer's",
        "half is [transaction-states.md](transaction-states.md).",
        "",
        *diagram(edges, CoordinatorTransactionState.EMPTY.value),
        "",
        "## Every state and every input",
        "",
        "Checks of the producer id and epoch run before this table is read. A cell with an arrow names the state that",
        "follows when its record is written; without an arrow the state does not change. While a record is being",
        "written, requests that would change the state get CONCURRENT_TRANSACTIONS. A dash marks a pair that cannot",
        "occur.",
        "",
        *table(["input", *(state.value for state in states)], rows),
        "",
    ]
    return "\n".join(lines)


def member_page() -> str:
    """docs/member-states.md."""
    edges: dict[tuple[str, str], list[str]] = {}
    rows = []
    for happened in MemberInput:
        cells = []
        for state in MemberState:
            outcome = MEMBER_TRANSITIONS[state][happened]
            if outcome.next_state is not state:
                edges.setdefault((state.value, outcome.next_state.value), []).append(words(happened.name))
            moves = "" if outcome.next_state is state else f" → {outcome.next_state.value}"
            cells.append("–" if outcome.action is MemberAction.IGNORE and not moves else outcome.action.value + moves)
        rows.append([f"**{words(happened.name)}**: {happened.value}", *cells])
    lines = [
        GENERATED,
        "# A member's states",
        "",
        "The client's half, under the Java client's names. UNJOINED has no generation; PREPARING_REBALANCE has sent",
        "JoinGroup; COMPLETING_REBALANCE has its generation and waits for its assignment; STABLE has both.",
        "",
        *diagram(edges, MemberState.UNJOINED.value),
        "",
        "## Every state and every input",
        "",
        *table(["input", *(state.value for state in MemberState)], rows),
        "",
    ]
    return "\n".join(lines)


def cli_page() -> str:
    """docs/cli.md."""
    lines = [GENERATED, "# The command line", "", "```text", *_help(), "```", ""]
    for name in sorted(_commands()):
        lines += [f"## slackwater {name}", "", "```text", *_help(*name.split()), "```", ""]
    return "\n".join(lines)


def settings_page() -> str:
    """docs/settings.md."""
    synonyms = set(SYNONYMS.values())
    own = [setting for name, setting in BROKER_SETTINGS.items() if name not in synonyms]
    columns = ["setting", "default", "values", "at run time", "meaning"]
    lines = [
        GENERATED,
        "# Settings",
        "",
        "Kafka's names and meanings. The defaults are Kafka's, except for replication (there is one replica),",
        "`sasl.enabled.mechanisms` and `queued.max.request.bytes`. Only `flush`, `group.events.enable`,",
        "`group.metrics.max.groups`, `message.max.uncompressed.bytes`, `sasl.plain.users.file` and",
        "`connection.authentication.timeout.ms` are Slackwater's own. `listener.name.NAME.` before the name of a TLS",
        "or SASL setting sets it for one listener: [secure-broker.md](secure-broker.md).",
        "[broker.md](broker.md) describes how to set them. Those marked *yes* can be changed at run time.",
        "",
        "## Broker settings",
        "",
        *table(columns, ([*_setting(one), "yes" if one.dynamic else "", one.doc] for one in own)),
        "",
        "## Topic settings",
        "",
        "A topic setting defaults to the broker setting named in its row. Both can be changed at run time.",
        "",
        *table(
            ["setting", "default", "values", "broker setting", "meaning"],
            ([*_setting(one), _synonym(name), one.doc] for name, one in TOPIC_SETTINGS.items()),
        ),
        "",
    ]
    return "\n".join(lines)


def client_settings_page() -> str:
    """docs/client-settings.md."""
    columns = ["setting", "default", "values", "meaning"]
    common = [setting.name for setting in COMMON]
    consumer = [setting for name, setting in CONSUMER_SETTINGS.items() if name not in common]
    producer = [setting for name, setting in PRODUCER_SETTINGS.items() if name not in common]
    ignored = sorted(OTHER_CLIENTS_SETTINGS - set(CONSUMER_SETTINGS) - set(PRODUCER_SETTINGS) - set(UNSUPPORTED))
    lines = [
        GENERATED,
        "# Client settings",
        "",
        "The settings of `Consumer`, `Producer` and `Admin`: Kafka's names, defaults and meanings. Only",
        "`rebalance.timeout.ms` and `group.events.publish` of the consumer and `sasl.oauthbearer.token.provider` are",
        "Slackwater's own. Some security settings have librdkafka's names.",
        "[tuning.md](tuning.md) explains how to choose timeouts. In Spark, prefix a consumer setting with `kafka.`:",
        "[spark-options.md](spark-options.md).",
        "",
        "## Settings of every client",
        "",
        *table(columns, ([*_setting(setting), setting.doc] for setting in COMMON)),
        "",
        "## Consumer settings",
        "",
        *table(columns, ([*_setting(setting), setting.doc] for setting in consumer)),
        "",
        "## Producer settings",
        "",
        *table(columns, ([*_setting(setting), setting.doc] for setting in producer)),
        "",
        "## The rebalance timeout of other clients",
        "",
        "Every member sends a rebalance timeout when it joins. The coordinator waits for the longest one in the group.",
        "",
        *table(
            ["client", "setting", "default"],
            (
                ["Slackwater's consumer", "`rebalance.timeout.ms`", "`max.poll.interval.ms`"],
                [
                    "a Spark application of Slackwater",
                    "`kafka.rebalance.timeout.ms`",
                    "`kafka.max.poll.interval.ms`",
                ],
                ["the Java consumer, librdkafka", "`max.poll.interval.ms`", "`300000`"],
                ["a worker of Kafka Connect", "`rebalance.timeout.ms` of the worker", "`60000`"],
                ["aiokafka", "`rebalance_timeout_ms`", "the session timeout"],
            ),
        ),
        "",
        "The setting exists for members that can rejoin while work is in progress: `Consumer.run`, a Spark",
        "application, a worker of Connect. Their rebalance timeout need not be as long as their longest batch. With",
        "eager assignors, which revoke all partitions first, it limits how long the group waits for running handlers.",
        "",
        "## Settings that are refused",
        "",
        "The client does not support these settings. It refuses them, because ignoring them would change its",
        "behaviour. It also refuses librdkafka's names of settings that it has under Kafka's name.",
        "",
        *table(["setting", "reason"], ([f"`{name}`", entry.reason] for name, entry in UNSUPPORTED.items())),
        "",
        "## Settings without effect",
        "",
        "These settings of the Java client are accepted and logged as ignored. So are librdkafka's own settings. Any",
        "other name is an error that suggests the closest setting.",
        "",
        ", ".join(f"`{name}`" for name in ignored) + ".",
        "",
    ]
    return "\n".join(lines)


def spark_page() -> str:
    """docs/spark-options.md."""
    lines = [
        GENERATED,
        "# Options of the Spark source",
        "",
        "Option names are case-insensitive. Options of Spark's own Kafka source have the same meaning; see",
        "[spark.md](spark.md). Client settings have the prefix `kafka.`; `kafka.bootstrap.servers` is required.",
        "",
    ]
    for use, options in SPARK_OPTIONS.items():
        rows = ([*_setting(one), one.doc] for one in options)
        lines += [f"## {use.value}", "", *table(["option", "default", "values", "meaning"], rows), ""]
    lines += [
        "## Client settings that are rejected",
        "",
        *table(["setting", "reason"], ([f"`{PREFIX}{name}`", why] for name, why in REJECTED.items())),
        "",
    ]
    return "\n".join(lines)


def spark_sink_page() -> str:
    """docs/spark-sink-options.md."""
    lines = [
        GENERATED,
        "# Options of the Spark sink",
        "",
        "Option names are case-insensitive; see [spark-sink.md](spark-sink.md). Producer settings have the prefix",
        "`kafka.`; `kafka.bootstrap.servers` is required.",
        "",
        *table(["option", "default", "values", "meaning"], ([*_setting(one), one.doc] for one in SINK_OPTIONS)),
        "",
        "## Producer settings that are rejected",
        "",
        *table(["setting", "reason"], ([f"`{PREFIX}{name}`", why] for name, why in SINK_REJECTED.items())),
        "",
    ]
    return "\n".join(lines)


def _synonym(name: str) -> str:
    return f"`{SYNONYMS[name]}`" if name in SYNONYMS else ""


def _setting(setting: Setting) -> list[str]:
    bounds = (setting.low is not None, setting.high is not None)
    values = {
        (True, True): f"{setting.low} to {setting.high}",
        (True, False): f"{setting.low} or more",
        (False, True): f"{setting.high} or less",
        (False, False): ", ".join(filter(None, setting.choices)) or setting.kind.name.lower(),
    }
    shown = format_value(setting.default)
    return [f"`{setting.name}`", f"`{shown}`" if shown else "", values[bounds]]


def _commands() -> list[str]:
    """Every command, and those of every group of commands."""
    names = _names(app)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            names += [f"{group.name} {name}" for name in ("", *_names(group.typer_instance))]
    return [name.strip() for name in names]


def transaction_page() -> str:
    """Return docs/transaction-states.md."""
    edges: dict[tuple[str, str], list[str]] = {}
    for state, row in TRANSACTION_TRANSITIONS.items():
        for happened, target in row.items():
            if target is not state and target is not TransactionManagerState.FATAL_ERROR:
                edges.setdefault((state.value, target.value), []).append(words(happened.name))
    rows = []
    for happened in TransactionManagerInput:
        targets = (TRANSACTION_TRANSITIONS[state].get(happened) for state in TransactionManagerState)
        cells = ("–" if target is None else target.value for target in targets)
        rows.append([f"**{words(happened.name)}**: {happened.value}", *cells])
    lines = [
        GENERATED,
        "# The states of a transactional producer",
        "",
        "The names are those of Java's TransactionManager. [Transactions](producer.md#transactions) has the calls.",
        "",
        *diagram(edges, TransactionManagerState.UNINITIALIZED.value),
        "",
        "A fatal error leads from every state to FATAL_ERROR.",
        "",
        "## Every state and every input",
        "",
        "A call without a next state raises an error. In an error state this is the error that led to it.",
        "",
        *table(["input", *(state.value for state in TransactionManagerState)], rows),
        "",
        "## The error of a call that a state does not allow",
        "",
        *table(["state", "error"], ([state.value, remedy] for state, remedy in REMEDIES.items())),
        "",
    ]
    return "\n".join(lines)


def _names(program: Typer) -> list[str]:
    commands = program.registered_commands
    return [info.name or str(getattr(info.callback, "__name__", "")).replace("_", "-") for info in commands]


def _help(*words: str) -> list[str]:
    shown = CliRunner().invoke(
        app, [*words, "--help"], prog_name="slackwater", terminal_width=100, env={"COLUMNS": "100"}
    )
    return [line.rstrip() for line in shown.output.strip().splitlines()]


def timeouts_figure() -> str:
    """docs/timeouts.svg."""
    return draw(record())


PAGES = {
    "coordinator-states.md": coordinator_page,
    "member-states.md": member_page,
    "transaction-coordinator-states.md": transaction_coordinator_page,
    "transaction-states.md": transaction_page,
    "cli.md": cli_page,
    "settings.md": settings_page,
    "client-settings.md": client_settings_page,
    "spark-options.md": spark_page,
    "spark-sink-options.md": spark_sink_page,
    "timeouts.svg": timeouts_figure,
}


def main() -> int:
    """Write the pages, or check them."""
    check = "--check" in sys.argv[1:]
    stale = [name for name, page in PAGES.items() if not _is_current(DOCS / name, page())]
    if check:
        for name in stale:
            print(f"docs/{name} is out of date; run: make docs")
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"docs/{name} written")
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
