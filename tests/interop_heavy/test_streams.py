"""Kafka Streams: a word count, at least once and exactly once, two instances, a repartition and a changelog topic."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop_heavy.client_process import JARS, PEERS, ClientProcess, require_installed, wait_for
from tests.interop_heavy.conftest import Start
from tests.interop_heavy.reference_client import ReadRecord, ReferenceClient

CLASSES = PEERS / "classes"
PARTITIONS = 4
TASKS = {f"{part}_{partition}" for part in range(2) for partition in range(PARTITIONS)}  # two sub-topologies
SESSION_MS = "3000"
LINES = 400
WORDS = ("ebb", "flow", "slack", "water", "moon", "sun", "neap", "spring")

EXACTLY_ONCE = "exactly_once_v2"

Instance = Callable[..., ClientProcess]


@pytest.fixture
def instance(start: Start, bootstrap: str, reference: ReferenceClient, unique: str, tmp_path: Path) -> Instance:
    """Starts an instance of the word count by name; the input and output topics exist."""
    require_installed("Kafka Streams", JARS / ".ready", CLASSES / "WordCount.class")
    reference.create(f"lines-{unique}", PARTITIONS)
    reference.create(f"counts-{unique}", PARTITIONS)

    def run(name: str, *guarantee: str) -> ClientProcess:
        java = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{CLASSES}:{JARS}/*", "WordCount")
        topics = (f"lines-{unique}", f"counts-{unique}")
        return start(*java, bootstrap, f"words-{unique}", *topics, tmp_path / name, SESSION_MS, *guarantee)

    return run


def lines(first: int, count: int) -> list[str]:
    """Lines of three words."""
    return [f"{WORDS[n % 8]} {WORDS[n // 3 % 8]} {WORDS[n // 7 % 8]}" for n in range(first, first + count)]


def tasks(process: ClientProcess) -> set[str]:
    """The tasks of an instance, if it is running."""
    last = process.lines[-1] if process.lines else {}
    return set(last["tasks"]) if last.get("state") == "RUNNING" else set()


def tasks_are_shared(instances: list[ClientProcess]) -> bool:
    """Whether every task runs on exactly one instance and every instance has a task."""
    parts = [tasks(instance) for instance in instances]
    return all(parts) and set.union(*parts) == TASKS and sum(map(len, parts)) == len(TASKS)


def sequences(records: list[ReadRecord]) -> dict[str, list[int]]:
    """Every count written for each word, in order."""
    counts: dict[str, list[int]] = {}
    for record in records:
        counts.setdefault(record.key, []).append(int.from_bytes(record.value.encode("latin-1"), "big"))
    return counts


def last_counts(records: list[ReadRecord]) -> dict[str, int]:
    """The last count of each word."""
    return {word: counts[-1] for word, counts in sequences(records).items()}


def count_words(some_lines: list[str]) -> dict[str, int]:
    """The expected counts."""
    return dict(Counter(word for line in some_lines for word in line.split()))


def caught_up(reference: ReferenceClient, unique: str) -> bool:
    """Whether the application has committed every record of its input topics."""
    application = f"words-{unique}"
    for topic in (f"lines-{unique}", f"{application}-counts-repartition"):
        ends = {partition: end for partition, end in reference.ends(topic).items() if end}
        if not ends.items() <= reference.committed(application, topic).items():
            return False
    return True


def test_counts_are_exact(instance: Instance, reference: ReferenceClient, unique: str) -> None:
    source, sink, application = f"lines-{unique}", f"counts-{unique}", f"words-{unique}"
    instances = [instance("a"), instance("b")]
    wait_for("tasks on both instances", lambda: tasks_are_shared(instances), watch=instances)
    reference.produce(source, lines(0, LINES), PARTITIONS)
    expected = count_words(lines(0, LINES))
    wait_for("all counts", lambda: last_counts(reference.records(sink)) == expected, watch=instances)
    assert sequences(reference.records(sink)) == {word: list(range(1, n + 1)) for word, n in expected.items()}

    changelog, repartition = f"{application}-counts-changelog", f"{application}-counts-repartition"
    assert (reference.topics()[changelog], reference.topics()[repartition]) == (PARTITIONS, PARTITIONS)
    assert reference.config(changelog)["cleanup.policy"] == "compact"
    assert last_counts(reference.records(changelog)) == expected
    wait_for(
        "the used part of the repartition topic deleted",
        lambda: all(low == high for low, high in reference.bounds(repartition).values()),
        watch=instances,
    )

    stopped, stayed = instances
    assert stopped.finish()[-1]["state"] == "STOPPED"
    wait_for("all tasks on one instance", lambda: tasks(stayed) == TASKS, watch=[stayed])
    reference.produce(source, lines(LINES, LINES), PARTITIONS)
    expected = count_words(lines(0, 2 * LINES))
    wait_for("all counts again", lambda: last_counts(reference.records(sink)) == expected, watch=[stayed])
    assert sequences(reference.records(sink)) == {word: list(range(1, n + 1)) for word, n in expected.items()}
    stayed.finish()
    assert caught_up(reference, unique)


def test_killed_instance_loses_nothing(instance: Instance, reference: ReferenceClient, unique: str) -> None:
    source, sink = f"lines-{unique}", f"counts-{unique}"
    instances = [instance("a"), instance("b")]
    wait_for("tasks on both instances", lambda: tasks_are_shared(instances), watch=instances)
    reference.produce(source, lines(0, LINES), PARTITIONS)
    wait_for("the first counts", lambda: reference.records(sink), watch=instances)
    killed, survivor = instances
    killed.kill()
    reference.produce(source, lines(LINES, LINES), PARTITIONS)
    wait_for("all tasks on one instance", lambda: tasks(survivor) == TASKS, watch=[survivor])
    expected = count_words(lines(0, 2 * LINES))

    def all_there() -> bool:
        counts = last_counts(reference.records(sink))
        return all(counts.get(word, 0) >= count for word, count in expected.items())

    wait_for("all counts", all_there, watch=[survivor])
    wait_for("all records committed", lambda: caught_up(reference, unique), watch=[survivor])

    returned = instance("a")  # with its state from before the kill
    wait_for("both instances at work again", lambda: tasks_are_shared([survivor, returned]), watch=[survivor, returned])
    before = last_counts(reference.records(sink))
    reference.produce(source, lines(0, LINES), PARTITIONS)
    more = count_words(lines(0, LINES))
    expected = {word: before[word] + more[word] for word in before}
    wait_for(
        "exact counts",
        lambda: last_counts(reference.records(sink)) == expected,
        watch=[survivor, returned],
    )
    for process in (survivor, returned):
        process.finish()


def test_exactly_once_although_an_instance_is_killed(
    instance: Instance, reference: ReferenceClient, unique: str
) -> None:
    source, sink = f"lines-{unique}", f"counts-{unique}"
    instances = [instance("a", EXACTLY_ONCE), instance("b", EXACTLY_ONCE)]
    wait_for("tasks on both instances", lambda: tasks_are_shared(instances), watch=instances)
    reference.produce(source, lines(0, LINES), PARTITIONS)
    wait_for("the first counts", lambda: reference.records(sink), watch=instances)
    killed, survivor = instances
    killed.kill()
    reference.produce(source, lines(LINES, LINES), PARTITIONS)
    expected = count_words(lines(0, 2 * LINES))
    # The reference client reads committed records only: every count of every word, exactly once.
    wait_for("all counts", lambda: last_counts(reference.records(sink)) == expected, watch=[survivor])
    assert sequences(reference.records(sink)) == {word: list(range(1, n + 1)) for word, n in expected.items()}
    survivor.finish()
