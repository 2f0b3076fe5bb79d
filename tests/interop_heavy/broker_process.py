"""Our broker in its own process, started as a user starts it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop_heavy.client_process import ClientProcess, wait_for

READY: Final = "Slackwater broker listening on "
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
START_SECONDS: Final = 30.0


class BrokerProcess(ClientProcess):
    """A running broker; its log is its standard error."""

    def __init__(self, data: Path, listen: str) -> None:
        settings = [argument for name, value in SETTINGS.items() for argument in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "slackwater", "broker", "--listen", listen, "--data", str(data), *settings]
        super().__init__(command)
        self.name = "the broker"

    def wait_until_ready(self) -> str:
        """Wait until it listens, and return its address."""
        return wait_for("the broker", self._address, START_SECONDS, [self])

    def _address(self) -> str:
        ready = [line for line in self.errors if line.startswith(READY)]  # `errors` has all lines that are not JSON
        return ready[0].removeprefix(READY) if ready else ""

    def stop(self) -> None:
        """Stop cleanly and check the log."""
        self.terminate(START_SECONDS)
        assert self.returncode == 0, self.stderr_tail()
        self.check_log()

    def check_log(self) -> None:
        """The log must have no errors and no tracebacks."""
        errors = [line for line in self.errors if " ERROR " in line or line.startswith("Traceback")]
        assert not errors, errors


@contextmanager
def running_broker(data: Path, listen: str = "127.0.0.1:0") -> Iterator[BrokerProcess]:
    """A running broker; it is killed at the end if the caller did not stop it."""
    running = BrokerProcess(data, listen)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.close()
