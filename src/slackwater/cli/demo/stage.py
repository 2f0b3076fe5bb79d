"""Where the demo's two stories are played: a broker, a crew, a screen, a directory; and what is said at the end.

Rules kept here
- Everything is taken down in the reverse order, whatever happened; the janitor takes down what is left.
"""

import logging
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from slackwater.broker.embedded import EmbeddedBroker
from slackwater.cli.demo import pipeline, story
from slackwater.cli.demo.crew import Crew
from slackwater.cli.demo.janitor import Janitor
from slackwater.cli.demo.screen import Screen, account
from slackwater.cli.demo.watch import NotSeen, Watch
from slackwater.group.errors import UsageError


@dataclass(frozen=True, slots=True)
class Stage:
    """What a story needs."""

    console: Console
    home: Path
    broker: EmbeddedBroker
    crew: Crew
    watch: Watch


@contextmanager
def _stage(settings: Mapping[str, str]) -> Iterator[Stage]:
    logging.getLogger("slackwater").setLevel(logging.CRITICAL)
    home = Path(tempfile.mkdtemp(prefix="slackwater-demo-"))
    janitor = Janitor(home)
    try:
        with EmbeddedBroker(data=home / "broker", settings=dict(settings)) as broker:
            crew, watch = Crew(broker.bootstrap_servers, home, janitor), Watch(broker)
            try:
                yield Stage(Console(), home, broker, crew, watch)
            except NotSeen as error:
                raise UsageError(f"the demo stopped: {error}. Is the machine very busy? Run it again.") from error
            finally:
                watch.close()
                crew.dismiss()
    finally:
        janitor.finish()


def show_plain() -> None:
    """The story of stock clients."""
    began = time.monotonic()
    with _stage(story.SETTINGS) as stage:
        console, crew, watch = stage.console, stage.crew, stage.watch
        for topic in story.TOPICS:
            stage.broker.create_topic(topic, story.PARTITIONS)
        with Screen(console, watch, crew, story.PARTITIONS, "one broker, stock clients, real groups") as screen:
            told = story.Story(crew, watch, screen)
            told.tell()
            crew.stop("producer")
            watch.until("the last record", lambda: crew.counts()[0] >= crew.acknowledged)
        crew.stop_all()
        console.print(account(told.rows))
        read, twice = crew.counts()
    why = " (the killed member had read them and not yet committed)" if twice else ""
    console.print(
        f"{crew.acknowledged} records acknowledged, {read} read, {twice} of them twice{why}.", highlight=False
    )
    console.print(f"{time.monotonic() - began:.0f} seconds. Nothing is left running.", highlight=False)


def show_pipeline(*, fast: bool, report: Path) -> None:
    """The story of Spark applications."""
    began = time.monotonic()
    title = "one broker, Spark applications, one group"
    with _stage(pipeline.SETTINGS) as stage:
        stage.broker.create_topic(pipeline.TOPIC, pipeline.PARTITIONS)
        with Screen(stage.console, stage.watch, stage.crew, pipeline.PARTITIONS, title) as screen:
            told = pipeline.Pipeline(
                stage.crew, stage.watch, screen, stage.broker.bootstrap_servers, stage.home, report, fast
            )
            told.set_up()
            ready = time.monotonic()
            told.tell()
            told.finish()
        stage.console.print(account(told.rows))
        lines = [*_closing(told, stage), _lasted(began, ready)]
    for line in lines:
        stage.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _lasted(began: float, ready: float) -> str:
    now = time.monotonic()
    return f"{now - ready:.0f} seconds, after {ready - began:.0f} of set-up. Nothing is left running."


def _closing(told: pipeline.Pipeline, stage: Stage) -> list[str]:
    """The closing account: what was measured in this run."""
    crew, watch, measured = stage.crew, stage.watch, told.measured
    produced = crew.written[pipeline.TOPIC]
    ends = stage.broker.committed(pipeline.GROUP)
    read, twice = crew.counts(pipeline.GROUP)
    missing = crew.read[pipeline.GROUP].missing({(at.topic, at.partition): end for at, end in ends.items()})
    ownership = watch.measured(pipeline.GROUP)
    equal = "=" if read == produced and not missing else "but"
    with_whom = "plain consumers" if told.fast else "Spark applications"
    lines = [
        f"Records: {produced:,} produced {equal} {read:,} accounted for; {missing:,} missing, {twice:,} read twice"
        + (" (batches that were under way when their application was killed or had to leave)." if twice else "."),
        (
            f"Rebalances of group {pipeline.GROUP}: {measured.rebalances}. Without an owner: {ownership.total_s:.1f} "
            f"partition-seconds, one partition at most {ownership.longest_s:.1f} s."
        ),
        (
            f"Rolling deploy of three {with_whom}: {measured.deploy_dynamic} rebalances with dynamic members, "
            f"{measured.deploy_static} with static ones, whose partitions waited up to {measured.static_wait_s:.1f} s."
        ),
        (
            f"Rebalances per minute: {measured.storm_per_minute:.1f} in the storm, {measured.calm_per_minute:.1f} "
            "with what the doctor prescribed."
        ),
    ]
    if measured.report is not None:
        lines.append(f"The doctor's report: {measured.report}")
    return lines
