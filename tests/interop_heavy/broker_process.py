"""Our broker in its own process, started as a user starts it."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop_heavy.client_process import ClientProcess, wait_for

READY: Final = "Slackwater broker listening on "
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
START_SECONDS: Final = 30.0


class BrokerProcess(ClientProcess):
    """A running broker; its log is its standard error."""

    def __init__(self, data: Path, *listen: str, settings: Mapping[str, object] | None = None) -> None:
        values = [f"--set={name}={value}" for name, value in {**SETTINGS, **(settings or {})}.items()]
        addresses = [f"--listen={address}" for address in listen]
        super().__init__([sys.executable, "-m", "slackwater", "broker", "--data", str(data), *addresses, *values])
        self._listeners = len(listen)
        self.name = "the broker"

    def wait_until_ready(self) -> str:
        """Wait until it listens, and return its first address."""
        wait_for("the broker", lambda: len(self.addresses) == self._listeners, START_SECONDS, [self])
        return self.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """The addresses that it listens on so far, in the order of its listeners."""
        return [line.removeprefix(READY) for line in self.errors if line.startswith(READY)]  # lines that are not JSON

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
