"""`Kafka`: the broker of the `kafka` fixture, with faults, and time that a test may move by hand.

Rules kept here
- Every call has happened when it returns.
- A group of the first members does not wait for more (group.initial.rebalance.delay.ms=0), unless a test says so: all
  else is as in production.
- Virtual time is the groups' alone: sessions, rebalances, the initial delay, the expiry of offsets. Clients live in
  real time, and so do fetches, retention and the delays of answers.
"""

import os
import time
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, Self

from slackwater.broker.config import Value
from slackwater.broker.embedded import EmbeddedBroker
from slackwater.broker.embedded.thread import ThreadBackend
from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.broker.process import Address, BrokerOptions
from slackwater.broker.server import Server
from slackwater.clock import ManualClock
from slackwater.group.coordinator.group import ClassicGroupMember
from slackwater.group.errors import Error, UsageError
from slackwater.testing.faults import DelayFault, DropFault, ErrorFault, FaultInjector, InjectedFault

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}


class Kafka(EmbeddedBroker):
    """A broker in a thread, for a test."""

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Mapping[str, Value] | None = None,
        metrics: str | bool = False,
        virtual_time: bool = False,
    ) -> None:
        super().__init__(data=data, host=host, port=port, settings={**SETTINGS, **(settings or {})}, metrics=metrics)
        self._clock = ManualClock(time.time_ns() // 1_000_000) if virtual_time else None
        self._faults = FaultInjector()

    def start(self) -> Self:
        """Start; faults that have not happened yet are still to come."""
        super().start()
        self._thread().call(self._faults.attach)
        return self

    # --- faults -------------------------------------------------------------------------------------------------------

    def delay(self, api: str, seconds: float, *, times: int | None = 1) -> InjectedFault:
        """Do the next requests of an API at once, and answer them that much later."""
        if seconds < 0:
            raise UsageError(f"A delay of {seconds} s cannot be; use 0 or more.")
        return self._add(api, DelayFault(seconds, _checked(times)))

    def drop(self, api: str, *, times: int | None = 1, processed: bool = True) -> InjectedFault:
        """Cut the connection instead of answering; with `processed=False`, before the request is done at all."""
        return self._add(api, DropFault(_checked(times), processed=processed))

    def fail(self, api: str, error: Error | str, *, times: int | None = 1) -> InjectedFault:
        """Answer the next requests of an API with an error, and do nothing."""
        return self._add(api, ErrorFault(_error(error), _checked(times)))

    def heal(self) -> None:
        """Let no more faults happen."""
        self._thread().call(lambda _server: self._faults.clear())

    # --- members and time ---------------------------------------------------------------------------------------------

    def expire_member(self, group_id: str, member: str) -> None:
        """End a member's session as if it had been silent: by member id, group.instance.id, or client id."""
        self._thread().call(lambda server: _expire(server, group_id, member))

    def advance(self, seconds: float) -> None:
        """Let virtual time pass for the groups: every timer fires, at its own time and in order.

        Whoever is silent for its session meanwhile expires, and clients send their heartbeats in real time.
        """
        if self._clock is None:
            raise UsageError("This broker lives in real time; use @pytest.mark.kafka(virtual_time=True).")
        if seconds < 0:
            raise UsageError(f"Time does not go back; {seconds} s were asked for.")
        self._thread().call(lambda server: server.pass_group_time(round(seconds * 1000)))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _plan(self, listen: Address) -> BrokerOptions:
        plan = super()._plan(listen)
        plan.group_clock = self._clock
        return plan

    def _thread(self) -> ThreadBackend:
        seat = self._running()
        assert isinstance(seat, ThreadBackend)
        return seat

    def _add(self, name: str, fault: InjectedFault) -> InjectedFault:
        key = _api_key(name)
        self._thread().call(lambda server: self._faults.add(server, key, fault))
        return fault


def _api_key(name: str) -> int:
    keys = {api.name: api.key for api in SUPPORTED_APIS}
    if name not in keys:
        raise UsageError(f"{name} is no API of this broker{_hint(name, list(keys))}")
    return keys[name]


def _error(error: Error | str) -> Error:
    if isinstance(error, Error):
        return error
    try:
        return Error[error]
    except KeyError:
        raise UsageError(f"{error} is no error of Kafka's{_hint(error, Error.__members__)}") from None


def _hint(name: str, known: "Mapping[str, Error] | list[str]") -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else "."


def _checked(times: int | None) -> int | None:
    if times is not None and times < 1:
        raise UsageError(f"times={times} cannot be; use 1 or more, or None for all.")
    return times


def _expire(server: Server, group_id: str, name: str) -> None:
    group = server.broker.groups.coordinator.groups.get(group_id)
    members = list(group.members.values()) if group is not None else []
    found = [member for member in members if name in (member.member_id, member.group_instance_id, member.client_id)]
    if len(found) != 1:
        seen = ", ".join(_shown(member) for member in members) or "none"
        count = "no member" if not found else f"{len(found)} members"
        raise UsageError(f"Group {group_id} has {count} called {name}. Its members: {seen}.")
    (member,) = found
    if member.parked_join is not None or member.parked_sync is not None:
        raise UsageError(f"{_shown(member)} waits for its answer in a rebalance, and cannot expire meanwhile.")
    server.broker.groups.expire(group_id, member.member_id)


def _shown(member: ClassicGroupMember) -> str:
    instance = f", group.instance.id {member.group_instance_id}" if member.group_instance_id is not None else ""
    return f"{member.member_id} (client {member.client_id}{instance})"
