"""`slackwater demo`: a broker, stock clients in processes of their own, and five things that happen to a group.

Rules kept here
- Ctrl-C at any moment leaves nothing behind: no process, no directory.
- What is told at the end was counted: records acknowledged, read, read twice.
"""

import importlib.util
import logging
import time
from typing import Final

from slackwater.group.errors import UsageError

_CLIENTS: Final = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python", "aiokafka": "aiokafka"}


def demo() -> None:
    """Show a group of stock clients through join, scale-out, a static restart, a kill and a cooperative change.

    It takes about half a minute, and needs nothing but this machine.
    """
    missing = [name for module, name in _CLIENTS.items() if importlib.util.find_spec(module) is None]
    if missing:
        names = " ".join(missing)
        raise UsageError(f"the demo runs stock clients, and not all of them are installed. Run: pip install {names}")

    from rich.console import Console

    from slackwater.broker.embedded import Broker
    from slackwater.cli.demo import story
    from slackwater.cli.demo.crew import Crew
    from slackwater.cli.demo.screen import Screen, account
    from slackwater.cli.demo.watch import NotSeen, Watch

    logging.getLogger("slackwater").setLevel(logging.ERROR)
    console = Console()
    began = time.monotonic()
    with Broker(settings=dict(story.SETTINGS)) as broker:
        for topic in story.TOPICS:
            broker.create_topic(topic, story.PARTITIONS)
        crew, watch = Crew(broker.bootstrap_servers), Watch(broker)
        try:
            with Screen(console, watch, crew, story.PARTITIONS) as screen:
                told = story.Story(crew, watch, screen)
                told.tell()
                crew.stop("producer")
                watch.until("the last record", lambda: crew.counts()[0] >= crew.acknowledged)
            crew.stop_all()
        except NotSeen as error:
            raise UsageError(f"the demo stopped: {error}. Is the machine very busy? Run it again.") from error
        finally:
            crew.dismiss()
        console.print(account(told.rows))
        read, twice = crew.counts()
    why = " (the killed member had read them and not yet committed)" if twice else ""
    console.print(
        f"{crew.acknowledged} records acknowledged, {read} read, {twice} of them twice{why}.", highlight=False
    )
    console.print(f"{time.monotonic() - began:.0f} seconds. Nothing is left running.", highlight=False)


__all__ = ["demo"]
