"""Kafka Streams, unchanged: a word count, at least once, in two instances, with a repartition and a changelog topic."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop_heavy.conftest import Start
from tests.interop_heavy.guest import JARS, PEERS, Guest, eventually, need
from tests.interop_heavy.referee import Referee, Seen

CLASSES = PEERS / "classes"
PARTITIONS = 4
TASKS = {
    f"{part}_{partition}" for part in range(2) for partition in range(PARTITIONS)
}  # before and after the words part
SESSION_MS = "3000"
LINES = 400
WORDS = ("ebb", "flow", "slack", "water", "moon", "sun", "neap", "spring")

Instance = Callable[[str], Guest]


@pytest.fixture
def instance(start: Start, bootstrap: str, referee: Referee, unique: str, tmp_path: Path) -> Instance:
    """Starts an instance of the word count, by name; input and output topics are there."""
    need("Kafka Streams", JARS / ".ready", CLASSES / "WordCount.class")
    referee.create(f"lines-{unique}", PARTITIONS)
    referee.create(f"counts-{unique}", PARTITIONS)

    def run(name: str) -> Guest:
        java = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{CLASSES}:{JARS}/*", "WordCount")
        topics = (f"lines-{unique}", f"counts-{unique}")
        return start(*java, bootstrap, f"words-{unique}", *topics, tmp_path / name, SESSION_MS)

    return run


def lines(first: int, count: int) -> list[str]:
    """Lines of three words."""
    return [f"{WORDS[n % 8]} {WORDS[n // 3 % 8]} {WORDS[n // 7 % 8]}" for n in range(first, first + count)]


def tasks(guest: Guest) -> set[str]:
    """The tasks an instance runs, if it runs."""
    last = guest.lines[-1] if guest.lines else {}
    return set(last["tasks"]) if last.get("state") == "RUNNING" else set()


def share(instances: list[Guest]) -> bool:
    """Whether all tasks run, each in one place, and nobody idles."""
    parts = [tasks(one) for one in instances]
    return all(parts) and set.union(*parts) == TASKS and sum(map(len, parts)) == len(TASKS)


def sequences(records: list[Seen]) -> dict[str, list[int]]:
    """Every count told of each word, in order."""
    found: dict[str, list[int]] = {}
    for seen in records:
        found.setdefault(seen.key, []).append(int.from_bytes(seen.value.encode("latin-1"), "big"))
    return found


def last(records: list[Seen]) -> dict[str, int]:
    """The count of each word."""
    return {word: counts[-1] for word, counts in sequences(records).items()}


def words(some_lines: list[str]) -> dict[str, int]:
    """What the counts have to be."""
    return dict(Counter(word for line in some_lines for word in line.split()))


def caught_up(referee: Referee, unique: str) -> bool:
    """Whether the application has committed everything there is to read."""
    application = f"words-{unique}"
    for topic in (f"lines-{unique}", f"{application}-counts-repartition"):
        ends = {partition: end for partition, end in referee.ends(topic).items() if end}
        if not ends.items() <= referee.committed(application, topic).items():
            return False
    return True


def test_counts_are_exact_while_nobody_is_killed(instance: Instance, referee: Referee, unique: str) -> None:
    source, sink, application = f"lines-{unique}", f"counts-{unique}", f"words-{unique}"
    instances = [instance("a"), instance("b")]
    eventually("both instances at work", lambda: share(instances), watch=instances)
    referee.produce(source, lines(0, LINES), PARTITIONS)
    expected = words(lines(0, LINES))
    eventually("all counts", lambda: last(referee.records(sink)) == expected, watch=instances)
    assert sequences(referee.records(sink)) == {word: list(range(1, n + 1)) for word, n in expected.items()}

    changelog, repartition = f"{application}-counts-changelog", f"{application}-counts-repartition"
    assert (referee.topics()[changelog], referee.topics()[repartition]) == (PARTITIONS, PARTITIONS)
    assert referee.config(changelog)["cleanup.policy"] == "compact"
    assert last(referee.records(changelog)) == expected
    eventually(
        "the used part of the repartition topic deleted",
        lambda: all(low == high for low, high in referee.bounds(repartition).values()),
        watch=instances,
    )

    stopped, stayed = instances
    assert stopped.finish()[-1]["state"] == "STOPPED"
    eventually("everything in one place", lambda: tasks(stayed) == TASKS, watch=[stayed])
    referee.produce(source, lines(LINES, LINES), PARTITIONS)
    expected = words(lines(0, 2 * LINES))
    eventually("all counts again", lambda: last(referee.records(sink)) == expected, watch=[stayed])
    assert sequences(referee.records(sink)) == {word: list(range(1, n + 1)) for word, n in expected.items()}
    stayed.finish()
    assert caught_up(referee, unique)


def test_an_instance_is_killed_and_nothing_is_lost(instance: Instance, referee: Referee, unique: str) -> None:
    source, sink = f"lines-{unique}", f"counts-{unique}"
    instances = [instance("a"), instance("b")]
    eventually("both instances at work", lambda: share(instances), watch=instances)
    referee.produce(source, lines(0, LINES), PARTITIONS)
    eventually("the first counts", lambda: referee.records(sink), watch=instances)
    killed, survivor = instances
    killed.kill()
    referee.produce(source, lines(LINES, LINES), PARTITIONS)
    eventually("everything in one place", lambda: tasks(survivor) == TASKS, watch=[survivor])
    expected = words(lines(0, 2 * LINES))

    def all_there() -> bool:
        counts = last(referee.records(sink))
        return all(counts.get(word, 0) >= count for word, count in expected.items())

    eventually("all counts", all_there, watch=[survivor])
    eventually("nothing left to do", lambda: caught_up(referee, unique), watch=[survivor])

    returned = instance("a")  # with the state it left behind
    eventually("both instances at work again", lambda: share([survivor, returned]), watch=[survivor, returned])
    before = last(referee.records(sink))
    referee.produce(source, lines(0, LINES), PARTITIONS)
    more = words(lines(0, LINES))
    expected = {word: before[word] + more[word] for word in before}
    eventually("exact counts from here on", lambda: last(referee.records(sink)) == expected, watch=[survivor, returned])
    for guest in (survivor, returned):
        guest.finish()
