"""The host: our broker in a process of its own, as a user starts it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop_heavy.guest import Guest, eventually

READY: Final = "Slackwater broker listening on "
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
START_SECONDS: Final = 30.0


class Host(Guest):
    """A running broker, and where it listens; its log is what it wrote on standard error."""

    def __init__(self, data: Path, listen: str) -> None:
        settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "slackwater", "broker", "--listen", listen, "--data", str(data), *settings]
        super().__init__(command)
        self.name = "the broker"

    def wait_until_ready(self) -> str:
        """Its address."""
        return eventually("the broker", self._address, START_SECONDS, [self])

    def _address(self) -> str:
        ready = [line for line in self.errors if line.startswith(READY)]  # it is no JSON, so it is kept there
        return ready[0].removeprefix(READY) if ready else ""

    def stop(self) -> None:
        """A clean stop, with nothing in the log that should not be there."""
        self.terminate(START_SECONDS)
        assert self.returncode == 0, self.last_words()
        self.check_log()

    def check_log(self) -> None:
        """No guest may have met a fault of the broker's own."""
        faults = [line for line in self.errors if " ERROR " in line or line.startswith("Traceback")]
        assert not faults, faults


@contextmanager
def host(data: Path, listen: str = "127.0.0.1:0") -> Iterator[Host]:
    """A broker that is ready; its end is the caller's to ask for, and is made sure of here."""
    running = Host(data, listen)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.close()
