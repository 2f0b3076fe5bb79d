"""`Kafka`: the broker of the `kafka` fixture, with fault injection and virtual time.

Invariants:
- Every call has taken effect when it returns.
- A new group does not wait for more members (group.initial.rebalance.delay.ms=0) unless a test sets the delay; all
  other settings are as in production.
- Virtual time applies to groups only: sessions, rebalances, the initial delay, the expiry of offsets. Clients, fetches,
  retention and delayed responses use real time.
"""

import os
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final, Self, TypeVar

from slackwater.broker.config import Value
from slackwater.broker.embedded import EmbeddedBroker
from slackwater.broker.embedded.thread import ThreadBackend
from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.broker.server import Server
from slackwater.broker.startup import Address, BrokerOptions
from slackwater.clock import ManualClock
from slackwater.group.coordinator.group import ClassicGroupMember
from slackwater.group.errors import Error, UsageError
from slackwater.testing.faults import DelayFault, DropFault, ErrorFault, FaultInjector, InjectedFault

_T = TypeVar("_T")
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}


class Kafka(EmbeddedBroker):
    """A broker in a thread, for tests."""

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Mapping[str, Value] | None = None,
        metrics: str | bool = False,
        virtual_time: bool = False,
        security: str = "PLAINTEXT",
    ) -> None:
        super().__init__(
            data=data,
            host=host,
            port=port,
            settings={**SETTINGS, **(settings or {})},
            metrics=metrics,
            security=security,
        )
        self._clock = ManualClock(time.time_ns() // 1_000_000) if virtual_time else None
        self._faults = FaultInjector()

    def start(self) -> Self:
        """Start the broker; remaining faults stay active."""
        super().start()
        self._thread().call(self._faults.attach)
        return self

    def call(self, function: Callable[[Server], _T]) -> _T:
        """Run a function with the server on the broker's thread, and return its result."""
        return self._thread().call(function)

    # --- faults -------------------------------------------------------------------------------------------------------

    def delay(self, api: str, seconds: float, *, times: int | None = 1) -> InjectedFault:
        """Execute the next requests of an API at once, and delay their responses."""
        if seconds < 0:
            raise UsageError(f"The delay is {seconds} s; use 0 or more.")
        return self._add(api, DelayFault(seconds, _check_times(times)))

    def drop(self, api: str, *, times: int | None = 1, processed: bool = True) -> InjectedFault:
        """Close the connection instead of responding; with `processed=False`, without executing the request."""
        return self._add(api, DropFault(_check_times(times), processed=processed))

    def fail(self, api: str, error: Error | str, *, times: int | None = 1) -> InjectedFault:
        """Respond to the next requests of an API with an error, without executing them."""
        return self._add(api, ErrorFault(_error(error), _check_times(times)))

    def clear_faults(self) -> None:
        """Deactivate all faults."""
        self._thread().call(lambda _server: self._faults.clear())

    # --- members and time ---------------------------------------------------------------------------------------------

    def expire_member(self, group_id: str, member: str) -> None:
        """Expire the session of a member, found by member id, group.instance.id or client id."""
        self._thread().call(lambda server: _expire(server, group_id, member))

    def advance(self, seconds: float) -> None:
        """Advance the virtual time of the groups; the timers fire in order, at their time.

        Clients send heartbeats in real time, so a session expires if the time advances by more than its timeout.
        """
        if self._clock is None:
            raise UsageError("This broker uses real time; use @pytest.mark.kafka(virtual_time=True).")
        if seconds < 0:
            raise UsageError(f"Cannot advance the time by {seconds} s; use 0 or more.")
        self._thread().call(lambda server: server.advance_group_clock(round(seconds * 1000)))

    # --- internal -----------------------------------------------------------------------------------------------------

    def _options(self, listen: Address) -> BrokerOptions:
        options = super()._options(listen)
        options.group_clock = self._clock
        return options

    def _thread(self) -> ThreadBackend:
        backend = self._running_backend()
        assert isinstance(backend, ThreadBackend)
        return backend

    def _add(self, name: str, fault: InjectedFault) -> InjectedFault:
        key = _api_key(name)
        self._thread().call(lambda server: self._faults.add(server, key, fault))
        return fault


def _api_key(name: str) -> int:
    keys = {api.name: api.key for api in SUPPORTED_APIS}
    if name not in keys:
        raise UsageError(f"{name} is not an API of this broker{_hint(name, list(keys))}")
    return keys[name]


def _error(error: Error | str) -> Error:
    if isinstance(error, Error):
        return error
    try:
        return Error[error]
    except KeyError:
        raise UsageError(f"{error} is not a Kafka error{_hint(error, Error.__members__)}") from None


def _hint(name: str, known: "Mapping[str, Error] | list[str]") -> str:
    nearest = get_close_matches(name, known, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else "."


def _check_times(times: int | None) -> int | None:
    if times is not None and times < 1:
        raise UsageError(f"times={times} is not valid; use 1 or more, or None for all requests.")
    return times


def _expire(server: Server, group_id: str, name: str) -> None:
    group = server.broker.group_coordinator.coordinator.groups.get(group_id)
    members = list(group.members.values()) if group is not None else []
    matches = [member for member in members if name in (member.member_id, member.group_instance_id, member.client_id)]
    if len(matches) != 1:
        names = ", ".join(_describe(member) for member in members) or "none"
        count = "no member" if not matches else f"{len(matches)} members"
        raise UsageError(f"Group {group_id} has {count} called {name}. Its members: {names}.")
    (member,) = matches
    if member.awaiting_join is not None or member.awaiting_sync is not None:
        raise UsageError(f"{_describe(member)} waits for a response in a rebalance and cannot expire until it is sent.")
    server.broker.group_coordinator.expire(group_id, member.member_id)


def _describe(member: ClassicGroupMember) -> str:
    instance = f", group.instance.id {member.group_instance_id}" if member.group_instance_id is not None else ""
    return f"{member.member_id} (client {member.client_id}{instance})"
