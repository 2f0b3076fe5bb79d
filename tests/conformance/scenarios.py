"""Scenarios that run against Apache Kafka and against our broker; `transcripts/` has Kafka's responses.

Invariants:
- A scenario is a function that adds steps to a script. Its name is the group id, its docstring the description.
- Additional groups are named `<name>/…`, so that ListGroups responses can be reduced to the groups of the scenario.
- Results do not depend on less than 100 ms: a request takes 50 ms (`transcripts.STEP_MS`), and every timer deadline is
  at least 100 ms away from a step. Timers that must not fire have a timeout of ten seconds or more.
- Kafka chooses a new leader, and a protocol in a tie, by the order of a Java hash map. Scenarios avoid both cases.
- For each difference in docs/differences.md, `Script.differs` gives the step and our response.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from slackwater.group.assignors.consumer_protocol import Subscription, encode_subscription

from .transcripts import HOST, Difference, Fields, Pause, Request, Scenario, Step, StepResponse, client_of

TOPICS: Final = {"t": 3, "u": 1}  # existing topics and their partition counts

_MIN_SESSION: Final = {"group.min.session.timeout.ms": 100}
NO_DELAY: Final = _MIN_SESSION | {"group.initial.rebalance.delay.ms": 0, "offset.metadata.max.bytes": 8}
DELAYED: Final = _MIN_SESSION | {"group.initial.rebalance.delay.ms": 600}
MAX_SIZE_2: Final = _MIN_SESSION | {"group.initial.rebalance.delay.ms": 0, "group.max.size": 2}

LONG_MS: Final = 30_000
MIN_VERSION_WITH_ID: Final = 4  # JoinGroup: since this version a dynamic member sends two requests


def subscription(*topics: str) -> str:
    """Return the bytes of a subscription, as text."""
    return encode_subscription(Subscription(topics)).decode("latin-1")


def join_protocols(*names: str, topics: Sequence[str] = ("t",)) -> list[Fields]:
    """Return the protocols of a member in order of preference, all with one subscription."""
    return [{"name": name, "metadata": subscription(*topics)} for name in names]


RANGE: Final = join_protocols("range")


class Script:
    """The steps of a scenario; each method adds one step and returns its number, unless it adds several."""

    def __init__(self, name: str) -> None:
        self.group = name
        self.steps: list[Step] = []
        self.differences: dict[int, Difference] = {}

    def request(self, on: str, api: str, version: int, *, parks: bool = False, **fields: Any) -> int:
        """Add a request."""
        self.steps.append(Request(on, api, version, fields, parks))
        return len(self.steps) - 1

    def pause(self, ms: int) -> int:
        """Add a pause."""
        self.steps.append(Pause(ms))
        return len(self.steps) - 1

    def differs(self, number: int, reason: str, response: Fields | None, during: int | None = None) -> None:
        """Record a deliberate difference; the response arrives during the step itself if `during` is None."""
        ours = None if response is None else StepResponse(number if during is None else during, response)
        self.differences[number] = Difference(reason, ours)

    # --- members ------------------------------------------------------------------------------------------------------

    def join(
        self,
        on: str,
        member: str = "",
        *,
        v: int = 9,
        instance: str | None = None,
        protocols: Sequence[Fields] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = LONG_MS,
        rebalance_ms: int = LONG_MS,
        group: str | None = None,
        parks: bool = False,
    ) -> int:
        """Add a JoinGroup request."""
        fields: Fields = {
            "group_id": self.group if group is None else group,
            "session_timeout_ms": session_ms,
            "member_id": member,
            "protocol_type": protocol_type,
            "protocols": list(protocols),
        }
        if v >= 1:
            fields["rebalance_timeout_ms"] = rebalance_ms
        if v >= 5:
            fields["group_instance_id"] = instance
        return self.request(on, "JoinGroup", v, parks=parks, **fields)

    def join_dynamic(self, on: str, *, parks: bool = False, **more: Any) -> int:
        """Add the two JoinGroup requests of a dynamic member."""
        self.join(on, **more)
        return self.join(on, f"${on}", parks=parks, **more)

    def sync(
        self,
        on: str,
        generation: int,
        parts: Mapping[str, str] | None = None,
        *,
        v: int = 5,
        member: str | None = None,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        group: str | None = None,
        parks: bool = False,
    ) -> int:
        """Add a SyncGroup request; `parts` is the assignment of a leader, by client."""
        fields: Fields = {
            "group_id": self.group if group is None else group,
            "generation_id": generation,
            "member_id": f"${client_of(on)}" if member is None else member,
            "assignments": [{"member_id": f"${name}", "assignment": part} for name, part in (parts or {}).items()],
        }
        if v >= 3:
            fields["group_instance_id"] = instance
        if v >= 5:
            fields["protocol_type"] = protocol_type
            fields["protocol_name"] = protocol
        return self.request(on, "SyncGroup", v, parks=parks, **fields)

    def heartbeat(
        self,
        on: str,
        generation: int,
        *,
        v: int = 4,
        member: str | None = None,
        instance: str | None = None,
        group: str | None = None,
    ) -> int:
        """Add a Heartbeat request."""
        fields: Fields = {
            "group_id": self.group if group is None else group,
            "generation_id": generation,
            "member_id": f"${client_of(on)}" if member is None else member,
        }
        if v >= 3:
            fields["group_instance_id"] = instance
        return self.request(on, "Heartbeat", v, **fields)

    def leave(self, on: str, *members: tuple[str, str | None], v: int = 5, group: str | None = None) -> int:
        """Add a LeaveGroup request for the client itself, or for these (member id, instance id) pairs."""
        leavers = members or ((f"${client_of(on)}", None),)
        fields: Fields = {"group_id": self.group if group is None else group}
        if v < 3:
            fields["member_id"] = leavers[0][0]
        else:
            fields["members"] = [{"member_id": member, "group_instance_id": instance} for member, instance in leavers]
        return self.request(on, "LeaveGroup", v, **fields)

    def stable_group(self, *names: str, static: bool = False, **more: Any) -> None:
        """Add the steps to a stable group; the first member leads. A single member has generation 1, several have 2."""

        def instance(name: str) -> str | None:
            return name if static else None

        first, *others = names
        if static:
            self.join(first, instance=first, **more)
        else:
            self.join_dynamic(first, **more)
        for name in others:
            if static:
                self.join(name, instance=name, parks=True, **more)
            else:
                self.join_dynamic(name, parks=True, **more)
        if others:
            self.join(first, f"${first}", instance=instance(first), **more)
        generation = 2 if others else 1
        self.sync(first, generation, {name: name.upper() for name in names}, instance=instance(first))
        for name in others:
            self.sync(name, generation, instance=instance(name))

    # --- offsets and administration -----------------------------------------------------------------------------------

    def commit(
        self,
        on: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        v: int = 9,
        generation: int = -1,
        member: str = "",
        instance: str | None = None,
        metadata: str | None = "",
        group: str | None = None,
        **more: Any,
    ) -> int:
        """Add an OffsetCommit request."""
        topics: dict[str, list[Fields]] = {}
        for (topic, partition), offset in offsets.items():
            entry: Fields = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
            if v >= 6:
                entry["committed_leader_epoch"] = 7
            topics.setdefault(topic, []).append(entry)
        fields: Fields = {
            "group_id": self.group if group is None else group,
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
        if v >= 7:
            fields["group_instance_id"] = instance
        return self.request(on, "OffsetCommit", v, **fields, **more)

    def fetch(
        self,
        on: str,
        partitions: Sequence[tuple[str, int]] | None,
        *groups: str,
        v: int = 9,
        **more: Any,
    ) -> int:
        """Add an OffsetFetch request; None requests all partitions."""
        topics: list[Fields] | None = None
        if partitions is not None:
            names = dict.fromkeys(topic for topic, _ in partitions)
            topics = [
                {"name": name, "partition_indexes": [number for topic, number in partitions if topic == name]}
                for name in names
            ]
        if v < 8:
            group = groups[0] if groups else self.group
            return self.request(on, "OffsetFetch", v, group_id=group, topics=topics, **more)
        requested = [{"group_id": group, "topics": topics} for group in groups or (self.group,)]
        return self.request(on, "OffsetFetch", v, groups=requested, **more)

    def describe(self, *groups: str, v: int = 6, on: str = "admin") -> int:
        """Add a DescribeGroups request."""
        return self.request(on, "DescribeGroups", v, groups=list(groups or (self.group,)))

    def list_groups(self, *states: str, types: Sequence[str] = (), v: int = 5, on: str = "admin") -> int:
        """Add a ListGroups request."""
        fields: Fields = {}
        if v >= 4:
            fields["states_filter"] = list(states)
        if v >= 5:
            fields["types_filter"] = list(types)
        return self.request(on, "ListGroups", v, **fields)

    def delete_groups(self, *groups: str, v: int = 2, on: str = "admin") -> int:
        """Add a DeleteGroups request."""
        return self.request(on, "DeleteGroups", v, groups_names=list(groups or (self.group,)))

    def delete_offsets(self, *partitions: tuple[str, int], group: str | None = None, on: str = "admin") -> int:
        """Add an OffsetDelete request."""
        names = dict.fromkeys(topic for topic, _ in partitions)
        topics = [
            {"name": name, "partitions": [{"partition_index": number} for topic, number in partitions if topic == name]}
            for name in names
        ]
        return self.request(on, "OffsetDelete", 0, group_id=self.group if group is None else group, topics=topics)


SCENARIOS: Final[list[Scenario]] = []
_ScenarioFunction = Callable[[Script], None]


def scenario(settings: Mapping[str, int] = NO_DELAY) -> Callable[[_ScenarioFunction], _ScenarioFunction]:
    """Register the scenario that the function adds to a script."""

    def register(add_steps: _ScenarioFunction) -> _ScenarioFunction:
        name = add_steps.__name__
        script = Script(name)
        add_steps(script)
        about = (add_steps.__doc__ or "").strip()
        SCENARIOS.append(Scenario(name, about, settings, script.steps, script.differences))
        return add_steps

    return register


# --- joining ----------------------------------------------------------------------------------------------------------


@scenario()
def first_member(s: Script) -> None:
    """One member from its first join to its leave, with the group described in every state (ST-03 … ST-11, AD-02)."""
    s.describe()
    s.join("a")
    s.describe()
    s.list_groups()
    s.join("a", "$a")
    s.describe()
    s.heartbeat("a", 1)
    s.sync("a", 1, {"a": "A"})
    s.describe()
    s.heartbeat("a", 1)
    s.sync("a", 1)
    s.list_groups()
    s.leave("a")
    s.describe()
    s.list_groups()
    s.heartbeat("a", 1)
    s.sync("a", 1)
    s.join("a", "$a")


@scenario()
def join_versions(s: Script) -> None:
    """Each version of JoinGroup, with a single member (JG-07, JG-08, JG-50)."""
    for v in range(10):
        group = f"{s.group}/{v}"
        on = "abcdefghij"[v]
        s.join(on, v=v, group=group)
        if v >= MIN_VERSION_WITH_ID:
            s.join(on, f"${on}", v=v, group=group)
        s.join(on, f"${on}", v=v, group=group)
        s.join(on, "nobody", v=v, group=group)


@scenario()
def join_refused(s: Script) -> None:
    """Joins that are rejected before the group exists (JG-01 … JG-05)."""
    s.join("a", group="")
    s.join("a", group="", v=0)
    s.join("a", session_ms=99)
    s.join("a", "x", session_ms=99)
    s.join("a", session_ms=1_800_001)
    s.join("a", "x", session_ms=1_800_001, v=3)
    s.join("a", "x")
    s.join("a", "x", v=0)
    s.join("a", "x", instance="i")
    s.describe()
    s.join("a", protocol_type="")
    s.join("a", protocols=[])
    s.join("a", protocol_type="", v=0)
    s.join("a", protocol_type="", instance="i")


@scenario()
def join_other_protocols(s: Script) -> None:
    """A member without a protocol that all members support is rejected (JG-06)."""
    s.stable_group("a", "b")
    s.join("c", protocol_type="connect")
    s.join("c", protocols=join_protocols("sticky"))
    s.join("c", protocols=join_protocols("sticky"), v=3)
    s.join("c", protocols=join_protocols("sticky"), instance="c")
    s.join("c", protocols=[])
    s.join("b", "$b", protocols=join_protocols("sticky"))
    s.join("b", "$b", protocol_type="connect")
    s.join("a", "$a", protocols=join_protocols("sticky"))
    s.join("d")
    s.join("d", "$d", protocols=join_protocols("sticky"))
    s.join("e", "nobody", protocols=join_protocols("sticky"))
    s.heartbeat("a", 2)
    s.heartbeat("b", 2)


@scenario()
def lone_member_switches_protocol(s: Script) -> None:
    """A single stable member that replaces all its protocols is rejected: its old list counts (JG-06)."""
    s.stable_group("a")
    s.join("a", "$a", protocols=join_protocols("sticky"))
    s.heartbeat("a", 1)
    s.join("a", "$a", protocols=join_protocols("sticky", "range"))
    s.sync("a", 2, {"a": "A"}, protocol="sticky")
    s.describe()


@scenario()
def rejoin_when_stable(s: Script) -> None:
    """An unchanged follower gets a response; the leader or a changed follower starts a rebalance (JG-17 …)."""
    s.stable_group("a", "b")
    s.join("b", "$b")
    s.join("b", "$b", v=3)
    s.heartbeat("a", 2)
    s.join("b", "$b", protocols=join_protocols("range", topics=("t", "u")), parks=True)
    s.heartbeat("a", 2)
    s.describe()
    s.join("a", "$a")
    s.sync("b", 3, parks=True)
    s.sync("a", 3, {"a": "A2", "b": "B2"})
    s.describe()
    s.join("a", "$a", parks=True)
    s.heartbeat("b", 3)
    s.join("b", "$b", protocols=join_protocols("range", topics=("t", "u")))


@scenario()
def rejoin_with_another_order(s: Script) -> None:
    """Another order of the same protocols is a change (JG-18)."""
    s.stable_group("a", "b", "c", protocols=join_protocols("range", "sticky"))
    s.join("b", "$b", protocols=join_protocols("range", "sticky"))
    s.join("b", "$b", protocols=join_protocols("sticky", "range"), parks=True)
    s.heartbeat("a", 2)
    s.join("c", "$c", protocols=join_protocols("range", "sticky"), parks=True)
    s.join("a", "$a", protocols=join_protocols("range", "sticky"))


@scenario()
def rejoin_when_completing(s: Script) -> None:
    """While completing, an unchanged rejoin gets a response; a change starts a rebalance (JG-20, JG-21, ST-10)."""
    s.stable_group("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.describe()
    s.join("a", "$a")
    s.join("b", "$b")
    s.join("b", "$b", v=4)
    s.sync("b", 3, parks=True)
    s.join("b'", "$b", protocols=join_protocols("range", topics=("u",)), parks=True)
    s.describe()
    s.heartbeat("a", 3)
    s.sync("a", 3, {"a": "A"})
    s.join("a", "$a")
    s.sync("a", 4, {"a": "A", "b": "B"})
    s.sync("b", 4)


@scenario()
def newcomer_when_completing(s: Script) -> None:
    """A new member during CompletingRebalance starts a rebalance and fails parked syncs (ST-10)."""
    s.stable_group("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.sync("b", 3, parks=True)
    s.join("c")
    s.heartbeat("a", 3)
    s.join("c", "$c", parks=True)
    s.heartbeat("a", 3)
    s.join("b", "$b", parks=True)
    s.join("a", "$a")
    s.sync("a", 4, {"a": "A", "c": "C"})
    s.sync("b", 4)
    s.sync("c", 4)


@scenario()
def eager_rebalances(s: Script) -> None:
    """Three members join one after another and leave one after another."""
    s.join_dynamic("a")
    s.sync("a", 1, {"a": "all"})
    s.join_dynamic("b", parks=True)
    s.heartbeat("a", 1)
    s.join("a", "$a")
    s.sync("b", 2, parks=True)
    s.sync("a", 2, {"a": "half", "b": "other half"})
    s.join_dynamic("c", parks=True)
    s.heartbeat("b", 2)
    s.join("b", "$b", parks=True)
    s.join("a", "$a")
    s.sync("c", 3, parks=True)
    s.sync("b", 3, parks=True)
    s.sync("a", 3, {"a": "1", "b": "2", "c": "3"})
    s.describe()
    s.leave("b")
    s.heartbeat("c", 3)
    s.join("c", "$c", parks=True)
    s.leave("a")
    s.sync("c", 4, {"c": "all"})
    s.leave("c")
    s.describe()


def _wrong_ids(s: Script, generation: int) -> None:
    ids = ("nobody", None), ("nobody", "a"), ("nobody", "i"), ("$a", "b"), ("$a", "i"), ("", "a"), ("", None)
    for member, instance in ids:
        s.heartbeat("x", generation, member=member, instance=instance)
        s.sync("x", generation, member=member, instance=instance)
        s.commit("x", {("t", 0): 1}, generation=generation, member=member, instance=instance)
        if member:
            s.join("x", member, instance=instance)
    for other in (generation - 1, generation + 1, -1):
        s.heartbeat("x", other, member="$a", instance="a")
        s.sync("x", other, member="$a", instance="a")
        s.commit("x", {("t", 0): 2}, generation=other, member="$a", instance="a")
    s.sync("x", generation, member="$b", instance="b", protocol_type="connect")
    s.sync("x", generation, member="$b", instance="b", protocol="sticky")
    s.sync("x", generation, member="$b", instance="b", protocol=None)
    s.sync("x", generation, member="$b", instance="b", protocol_type=None)
    s.sync("x", generation, member="nobody", protocol=None)
    s.sync("x", generation + 1, member="$b", protocol="sticky")
    s.commit("x", {("t", 0): 3}, generation=generation, member="$a", instance="a")
    s.heartbeat("x", generation, member="$a")


@scenario()
def wrong_ids_when_stable(s: Script) -> None:
    """Every wrong id, generation, instance and protocol in a stable group (SG-03, HB-03, HB-04, OC-06)."""
    s.stable_group("a", "b", static=True)
    _wrong_ids(s, 2)


@scenario()
def wrong_ids_when_preparing(s: Script) -> None:
    """The same requests during PreparingRebalance."""
    s.stable_group("a", "b", static=True)
    s.join("c", v=3, parks=True)
    _wrong_ids(s, 2)
    s.sync("a", 2, {"a": "A"}, instance="a")
    s.heartbeat("a", 2, instance="a")


@scenario()
def wrong_ids_when_completing(s: Script) -> None:
    """The same requests during CompletingRebalance."""
    s.stable_group("a", "b", static=True)
    s.join("a", "$a", instance="a", parks=True)
    s.join("b", "$b", instance="b")
    _wrong_ids(s, 3)
    s.heartbeat("a", 3, instance="a")


@scenario()
def wrong_ids_when_empty(s: Script) -> None:
    """The same requests after all members have left (HB-01, SG-01, OC-03, OC-04)."""
    s.stable_group("a", "b", static=True)
    s.leave("admin", ("", "a"), ("", "b"))
    _wrong_ids(s, 3)


@scenario()
def wrong_ids_when_absent(s: Script) -> None:
    """Requests with wrong ids to a group that does not exist (HB-01, SG-01, OC-02)."""
    for v in (0, 2, 3, 4):
        s.heartbeat("x", 1, v=v, member="x")
    s.heartbeat("x", -1, member="")
    for v in (0, 3, 5):
        s.sync("x", 1, v=v, member="x")
    s.sync("x", 1, member="x", protocol_type=None)
    s.leave("x", ("x", None), v=0)
    s.leave("x", ("x", None), ("", "i"), ("y", "i"))
    s.commit("x", {("t", 0): 1}, generation=1, member="x")
    s.commit("x", {("t", 0): 1}, generation=1, member="x", v=8)
    s.commit("x", {("t", 0): 1}, generation=0)
    s.heartbeat("x", 1, member="x", group="")
    s.sync("x", 1, member="x", group="")
    s.leave("x", ("x", None), group="")
    s.leave("x", ("x", None), group="", v=1)
    s.describe()


# --- pending member ids -----------------------------------------------------------------------------------------------


@scenario()
def pending_id(s: Script) -> None:
    """A pending id is not a member (JG-08, JG-09, JG-14, HB-01, LG-07)."""
    s.stable_group("a")
    s.join("b")
    s.heartbeat("b", 1)
    s.sync("b", 1)
    s.commit("b", {("t", 0): 1}, generation=1, member="$b")
    s.join("b", "$b", instance="b")
    s.join("b", "$b", session_ms=50)
    s.heartbeat("a", 1)
    s.join("b", "$b", parks=True)
    s.heartbeat("a", 1)
    s.join("a", "$a")


@scenario()
def pending_id_leaves(s: Script) -> None:
    """A pending id that leaves starts a rebalance in a stable group and is unknown afterwards (LG-07)."""
    s.stable_group("a", "c")
    s.join("b")
    s.leave("b", ("$b", None))
    s.heartbeat("a", 2)
    s.join("b", "$b")
    s.join("a", "$a", parks=True)
    s.join("c", "$c")
    s.sync("c", 3, parks=True)
    s.join("b")
    s.leave("b", ("$b", "unknown instance"))
    s.heartbeat("a", 3)
    s.join("d")
    s.leave("d", ("$d", None), v=1)
    s.join("a", "$a", parks=True)
    s.join("e")
    s.join("c", "$c", parks=True)
    s.leave("e", ("$e", None))


@scenario()
def pending_id_holds_the_join_phase(s: Script) -> None:
    """The join phase waits for a pending id until it expires (JG-10, JG-11)."""
    s.stable_group("a")
    s.join("b", session_ms=500)
    s.join("a", "$a", parks=True)
    s.describe()
    s.pause(250)
    s.describe()
    s.pause(300)
    s.join("b", "$b", session_ms=500)
    s.heartbeat("a", 2)


@scenario()
def pending_id_outlives_the_last_member(s: Script) -> None:
    """The leave of the last member empties the group despite a pending id, which can still join (ST-11)."""
    s.stable_group("a")
    s.join("b")
    s.leave("a")
    s.describe()
    s.join("b", "$b")
    s.describe()


@scenario()
def pending_id_and_deletion(s: Script) -> None:
    """A group with only a pending id can be deleted (AD-04)."""
    s.join("a")
    s.list_groups()
    s.delete_groups()
    s.join("a", "$a")
    s.describe()


# --- old and new versions together ------------------------------------------------------------------------------------


@scenario()
def versions_mixed(s: Script) -> None:
    """Members of versions 0, 3 and 9 in one group (JG-07, JG-27)."""
    s.join("a", v=0)
    s.sync("a", 1, {"a": "A"}, v=0)
    s.heartbeat("a", 1, v=0)
    s.join("b", v=3, parks=True)
    s.join_dynamic("c", parks=True)
    s.heartbeat("a", 1, v=0)
    s.join("a", "$a", v=0)
    s.sync("b", 2, v=2, parks=True)
    s.sync("c", 2, parks=True)
    s.sync("a", 2, {"a": "A", "b": "B", "c": "C"}, v=0)
    s.describe(v=0)
    s.describe(v=3)
    s.describe(v=4)
    s.describe(v=5)
    s.leave("b", ("$b", None), v=2)
    s.heartbeat("a", 2, v=1)
    s.join("c", "$c", parks=True)
    s.leave("a", ("$a", None), v=0)
    s.leave("b", ("$b", None), v=2)


@scenario()
def sync_versions(s: Script) -> None:
    """Each version of SyncGroup and Heartbeat, in a stable group and with an unknown member."""
    s.stable_group("a")
    for v in range(6):
        s.sync("a", 1, v=v)
        s.sync("a", 9, v=v)
        s.sync("a", 1, v=v, member="nobody")
    for v in range(5):
        s.heartbeat("a", 1, v=v)
        s.heartbeat("a", 9, v=v)


# --- protocols --------------------------------------------------------------------------------------------------------


@scenario()
def protocol_vote(s: Script) -> None:
    """Of the protocols that all members support, the one with the most votes wins (JG-33)."""
    s.join_dynamic("a", protocols=join_protocols("range", "sticky", "roundrobin"))
    s.join_dynamic("b", protocols=join_protocols("roundrobin", "sticky", "cooperative"), parks=True)
    s.join_dynamic("c", protocols=join_protocols("sticky", "roundrobin"), parks=True)
    s.join_dynamic("d", protocols=join_protocols("roundrobin", "range", "sticky"), parks=True)
    s.join_dynamic("e", protocols=join_protocols("roundrobin", "sticky"), parks=True)
    s.join("a", "$a", protocols=join_protocols("range", "sticky", "roundrobin"))
    s.sync("a", 2, {"a": "A"}, protocol="sticky")
    s.sync("a", 2, {"a": "A"}, protocol="roundrobin")
    s.describe()
    s.sync("b", 2, protocol=None)
    s.sync("b", 2, protocol="roundrobin")


@scenario()
def protocol_type_survives(s: Script) -> None:
    """An emptied group keeps its protocol type until a member joins with another type (ST-04)."""
    s.stable_group("a")
    s.leave("a")
    s.list_groups()
    s.join_dynamic("b", protocol_type="connect", protocols=[{"name": "default", "metadata": "x"}])
    s.list_groups()
    s.sync("b", 3, {"b": "B"}, protocol_type="connect", protocol="default")
    s.describe()
    s.join("c")
    s.delete_offsets(("t", 0))
    s.leave("b")
    s.describe()


# --- syncing ----------------------------------------------------------------------------------------------------------


@scenario()
def sync_omits_members(s: Script) -> None:
    """Members missing from the leader's assignment get empty bytes; unknown members in it are ignored (SG-06)."""
    s.stable_group("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.sync("b", 3, parks=True)
    s.request(
        "a",
        "SyncGroup",
        5,
        group_id=s.group,
        generation_id=3,
        member_id="$a",
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": "$a", "assignment": "A"}, {"member_id": "ghost", "assignment": "G"}],
    )
    s.describe()
    s.sync("b", 3)
    s.sync("a", 3, {"a": "other", "b": "other"})
    s.sync("b", 3)


@scenario()
def sync_timeout_of_a_follower(s: Script) -> None:
    """A follower that does not sync is removed at the rebalance timeout, although the group is stable (SG-11)."""
    s.stable_group("a", "b", rebalance_ms=600)
    s.join("a", "$a", parks=True, rebalance_ms=600)
    s.join("b", "$b", rebalance_ms=600)
    s.sync("a", 3, {"a": "A", "b": "B"})
    s.heartbeat("b", 3)
    s.pause(250)
    s.heartbeat("b", 3)
    s.heartbeat("a", 3)
    s.pause(300)
    s.heartbeat("b", 3)
    s.heartbeat("a", 3)
    s.describe()
    s.join("a", "$a", rebalance_ms=600)


@scenario()
def sync_timeout_of_the_leader(s: Script) -> None:
    """A leader that does not sync is removed, and parked followers get REBALANCE_IN_PROGRESS (SG-11)."""
    s.stable_group("a", "b", "c", rebalance_ms=600)
    s.join("a", "$a", parks=True, rebalance_ms=600)
    s.join("b", "$b", parks=True, rebalance_ms=600)
    s.join("c", "$c", rebalance_ms=600)
    s.sync("b", 3, parks=True)
    s.pause(300)
    s.heartbeat("a", 3)
    s.pause(300)
    s.heartbeat("a", 3)
    s.heartbeat("c", 3)
    s.join("b", "$b", rebalance_ms=600)
    s.describe()


@scenario()
def leader_leaves_while_the_assignment_is_awaited(s: Script) -> None:
    """Parked followers get REBALANCE_IN_PROGRESS (SG-13)."""
    s.stable_group("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.sync("b", 3, parks=True)
    s.leave("a")
    s.describe()
    s.join("b", "$b")
    s.sync("b", 4, {"b": "B"})


# --- timers -----------------------------------------------------------------------------------------------------------


@scenario()
def session_expiry(s: Script) -> None:
    """A silent member is removed; heartbeats and commits extend the session (SE-01, SE-02, OC-08)."""
    s.join_dynamic("a")
    for name in "bcd":
        s.join_dynamic(name, parks=True, session_ms=600)
    s.join("a", "$a")
    s.sync("a", 2, {name: name for name in "abcd"})
    for name in "bcd":
        s.sync(name, 2)
    for _ in range(4):
        s.pause(200)
        s.heartbeat("c", 2)
        s.commit("d", {("t", 0): 1}, generation=2, member="$d")
    s.heartbeat("b", 2)
    s.heartbeat("a", 2)
    s.join("c", "$c", parks=True)
    s.join("d", "$d", parks=True)
    s.join("a", "$a")


@scenario()
def session_expiry_empties_the_group(s: Script) -> None:
    """The last member expires: the group is empty in a new generation (ST-11)."""
    s.stable_group("a", session_ms=400)
    s.pause(650)
    s.describe()
    s.join_dynamic("b")


@scenario()
def session_is_not_over_while_parked(s: Script) -> None:
    """A parked join or sync suspends the session, which starts again with the response (SE-03, SG-10)."""
    s.stable_group("a")
    s.join_dynamic("b", session_ms=400, parks=True)
    s.pause(700)
    s.join("a", "$a")
    s.sync("b", 2, parks=True)
    s.pause(700)
    s.sync("a", 2, {"a": "A", "b": "B"})
    s.pause(150)
    s.heartbeat("a", 2)
    s.pause(350)
    s.heartbeat("a", 2)


@scenario()
def sync_when_stable_does_not_extend_the_session(s: Script) -> None:
    """SyncGroup in a stable group does not extend the session (SG-09)."""
    s.stable_group("a", "b", session_ms=600)
    for _ in range(3):
        s.pause(150)
        s.heartbeat("a", 2)
        s.sync("b", 2)
    s.pause(250)
    s.heartbeat("a", 2)


@scenario()
def unchanged_rejoin_does_not_extend_the_session(s: Script) -> None:
    """An unchanged follower's rejoin does not extend its session or change its timeout (JG-18)."""
    s.stable_group("a", "b", session_ms=600)
    s.join("b", "$b", session_ms=LONG_MS)
    s.pause(250)
    s.heartbeat("a", 2)
    s.join("b", "$b", session_ms=LONG_MS)
    s.pause(450)
    s.heartbeat("a", 2)


@scenario()
def rebalance_timeout(s: Script) -> None:
    """A member that sends heartbeats but does not rejoin is removed at the rebalance timeout (JG-29, SE-05)."""
    s.stable_group("a", "b", "c", rebalance_ms=600)
    s.join_dynamic("d", parks=True, rebalance_ms=600)
    s.join("a", "$a", parks=True, rebalance_ms=600)
    s.pause(200)
    s.heartbeat("b", 2)
    s.heartbeat("c", 2)
    s.pause(350)
    s.heartbeat("b", 2)
    s.heartbeat("c", 3)
    s.sync("a", 3, {"a": "A", "d": "D"})
    s.describe()


@scenario()
def rebalance_timeout_of_the_leader(s: Script) -> None:
    """The leader does not rejoin in time: a member that did becomes the leader (JG-31)."""
    s.stable_group("a", "b", rebalance_ms=500)
    s.join("b", "$b", protocols=join_protocols("range", topics=("u",)), rebalance_ms=500, parks=True)
    s.heartbeat("a", 2)
    s.pause(600)
    s.heartbeat("a", 2)
    s.sync("b", 3, {"b": "B"})
    s.describe()


@scenario()
def rebalance_timeout_of_nobody(s: Script) -> None:
    """No member rejoins in time: dynamic members are removed and the group is empty."""
    s.stable_group("a", rebalance_ms=500)
    s.join_dynamic("b", rebalance_ms=500, parks=True)
    s.leave("b'", ("$b", None))
    s.describe()
    s.heartbeat("a", 1)
    s.pause(600)
    s.describe()
    s.heartbeat("a", 1)


@scenario()
def rebalance_timeout_is_the_longest(s: Script) -> None:
    """The group uses its longest rebalance timeout; for v0 it is the session timeout (JG-26, JG-27)."""
    s.join_dynamic("a", rebalance_ms=200)
    s.join("b", v=0, session_ms=700, parks=True)
    s.join("a", "$a", rebalance_ms=200)
    s.sync("a", 2, {"a": "A"})
    s.sync("b", 2, v=0)
    s.join("a", "$a", rebalance_ms=200, parks=True)
    s.pause(400)
    s.heartbeat("b", 2)
    s.pause(350)
    s.heartbeat("b", 2)


@scenario()
def heartbeat_while_rebalancing_extends_the_session(s: Script) -> None:
    """Heartbeats extend the session in both rebalance phases (HB-05, HB-06); silent members expire (SE-02)."""
    s.stable_group("a", "b", "c", session_ms=600)
    s.join("a", "$a", parks=True, session_ms=600)
    for _ in range(3):
        s.pause(250)
        s.heartbeat("b", 2)
    s.describe()
    s.join("b", "$b", session_ms=600)
    for _ in range(3):
        s.pause(250)
        s.heartbeat("a", 3)
    s.describe()
    s.pause(700)
    s.describe()


# --- the initial delay ------------------------------------------------------------------------------------------------


@scenario(DELAYED)
def initial_delay_alone(s: Script) -> None:
    """A single member waits for the initial delay (JG-34)."""
    s.join_dynamic("a", parks=True)
    s.describe()
    s.pause(300)
    s.heartbeat("a'", 0, member="x")
    s.pause(300)
    s.sync("a", 1, {"a": "A"})
    s.leave("a")
    s.join_dynamic("a", parks=True)
    s.pause(350)
    s.describe()
    s.pause(300)


@scenario(DELAYED)
def initial_delay_extended(s: Script) -> None:
    """A new member extends the delay (JG-35)."""
    s.join_dynamic("a", parks=True)
    s.join_dynamic("b", parks=True)
    s.pause(650)
    s.describe()
    s.pause(600)


@scenario(DELAYED)
def initial_delay_extended_within_bounds(s: Script) -> None:
    """The rebalance timeout of the first member limits the extensions (JG-34, JG-35)."""
    s.join("a", v=3, rebalance_ms=1000, parks=True)
    s.join("b", v=3, parks=True)
    s.pause(650)
    s.join("c", v=3, parks=True)
    s.describe()
    s.pause(300)
    s.describe()


@scenario(DELAYED)
def initial_delay_longer_than_the_rebalance_timeout(s: Script) -> None:
    """The first delay is not shortened, and it is not extended (JG-34)."""
    s.join("a", v=3, rebalance_ms=200, parks=True)
    s.join("b", v=3, rebalance_ms=200, parks=True)
    s.pause(300)
    s.describe()
    s.pause(250)
    s.describe()


@scenario(DELAYED)
def initial_delay_pending_id_expires(s: Script) -> None:
    """A pending id that expires ends the delay early (JG-37)."""
    s.join("b", session_ms=300)
    s.join_dynamic("a", parks=True)
    s.pause(50)
    s.describe()
    s.pause(200)
    s.describe()


@scenario(DELAYED)
def initial_delay_pending_id_leaves(s: Script) -> None:
    """A pending id that leaves does not end the delay (JG-37)."""
    s.join_dynamic("a", parks=True)
    s.join("b")
    s.leave("b", ("$b", None))
    s.describe()
    s.pause(250)
    s.describe()
    s.pause(300)


@scenario(DELAYED)
def initial_delay_pending_id_holds_on(s: Script) -> None:
    """The delay ends despite a pending id (JG-34)."""
    s.join_dynamic("a", parks=True)
    s.join("b")
    s.pause(650)
    s.describe()
    s.join("b", "$b", parks=True)
    s.describe()


@scenario(DELAYED)
def initial_delay_member_leaves(s: Script) -> None:
    """Members that leave do not end the delay; a parked join of a leaving member fails (LG-09, LG-10)."""
    s.join("a", v=3, parks=True)
    s.join("b", instance="b", parks=True)
    s.leave("admin", ("", "b"))
    s.describe()
    s.pause(550)
    s.describe()
    s.pause(700)
    s.describe()


@scenario(DELAYED)
def initial_delay_everybody_leaves(s: Script) -> None:
    """The group has no members when the delay ends."""
    s.join("a", instance="a", parks=True)
    s.leave("admin", ("", "a"))
    s.describe()
    s.pause(700)
    s.describe()


# --- static members ---------------------------------------------------------------------------------------------------


def _static_leader_returns(s: Script, v: int) -> None:
    s.stable_group("a", "b", static=True)
    s.join("a", instance="a", v=v)
    s.heartbeat("a", 2, instance="a")
    s.heartbeat("x", 2, member="$a#1", instance="a")
    s.heartbeat("x", 2, member="$a#1")
    s.join("x", "$a#1", instance="a")
    s.join("x", "$a#1")
    s.sync("x", 2, member="$a#1", instance="a")
    s.commit("x", {("t", 0): 1}, generation=2, member="$a#1", instance="a")
    s.leave("x", ("$a#1", "a"))
    s.sync("a", 2, {"a": "new"}, instance="a")
    s.heartbeat("b", 2, instance="b")
    s.describe()
    s.join("b", "$b", instance="b")
    s.join("a", "$a", instance="a", v=v, parks=True)
    s.heartbeat("b", 2, instance="b")


@scenario()
def static_leader_returns_v5(s: Script) -> None:
    """A static leader of v5 returns; the response names its old id as the leader (JG-41, JG-43, JG-49)."""
    _static_leader_returns(s, 5)


@scenario()
def static_leader_returns_v8(s: Script) -> None:
    """The same requests with v8."""
    _static_leader_returns(s, 8)


@scenario()
def static_leader_returns_v9(s: Script) -> None:
    """A static leader of v9 returns and gets `skip_assignment` (JG-42)."""
    _static_leader_returns(s, 9)


@scenario()
def static_follower_returns(s: Script) -> None:
    """A static follower returns with the same or another subscription: no rebalance (JG-41)."""
    s.stable_group("a", "b", static=True)
    s.join("b", instance="b", v=5)
    s.sync("b", 2, instance="b")
    s.join("b", instance="b", protocols=join_protocols("range", topics=("u",)))
    s.sync("b", 2, instance="b")
    s.describe()
    s.heartbeat("a", 2, instance="a")
    s.join("b", instance="b", protocols=join_protocols("sticky"))
    s.join("b", "$b", instance="b", protocols=join_protocols("range", topics=("u",)))
    s.join("b", "$b", instance="b", protocols=join_protocols("range", topics=("t",)), parks=True)


@scenario()
def static_member_changes_the_vote(s: Script) -> None:
    """A static member returns and changes the selected protocol: a rebalance starts (JG-45)."""
    s.stable_group("a", static=True, protocols=join_protocols("range", "sticky"))
    s.join("a", instance="a", protocols=join_protocols("sticky", "range"))
    s.sync("a", 2, {"a": "A"}, instance="a", protocol="sticky")
    s.describe()


@scenario()
def static_member_returns_when_preparing(s: Script) -> None:
    """A static member returns during PreparingRebalance: the parked join of its old id is fenced (JG-47, JG-48)."""
    s.stable_group("a", "b", "c", static=True)
    s.join("c", "$c", instance="c", protocols=join_protocols("range", topics=("u",)), parks=True)
    s.join("b", "$b", instance="b", parks=True)
    s.join("b'", instance="b", parks=True)
    s.describe()
    s.join("a", instance="a")
    s.sync("b", 3, instance="b", parks=True)
    s.sync("a", 3, {"a": "A", "b": "B", "c": "C"}, instance="a")
    s.heartbeat("x", 3, member="$b#1", instance="b")


@scenario()
def static_member_returns_when_completing(s: Script) -> None:
    """A static member returns during CompletingRebalance: a rebalance starts, its parked sync is fenced (JG-46)."""
    s.stable_group("a", "b", static=True)
    s.join("a", "$a", instance="a", parks=True)
    s.join("b", "$b", instance="b")
    s.sync("b", 3, instance="b", parks=True)
    s.join("b'", instance="b", parks=True)
    s.describe()
    s.heartbeat("a", 3, instance="a")
    s.join("a", "$a", instance="a")
    s.join("a", instance="a", parks=True)
    s.heartbeat("b", 4, instance="b")


@scenario()
def static_member_expires(s: Script) -> None:
    """An absent static member stays in the group until its session expires (JG-29, SE-06)."""
    s.join("a", instance="a", rebalance_ms=500)
    s.join("b", instance="b", rebalance_ms=500, session_ms=1500, parks=True)
    s.join("a", "$a", instance="a", rebalance_ms=500)
    s.sync("a", 2, {"a": "A", "b": "B"}, instance="a")
    s.sync("b", 2, instance="b")
    s.join("a", "$a", instance="a", rebalance_ms=500, parks=True)
    s.pause(600)
    s.sync("a", 3, {"a": "A", "b": "B"}, instance="a")
    s.describe()
    s.pause(200)
    s.heartbeat("a", 3, instance="a")
    s.pause(600)
    s.heartbeat("a", 3, instance="a")
    s.describe()


@scenario()
def static_members_all_absent(s: Script) -> None:
    """Only absent static members remain at the timeout: it restarts without a new generation (JG-30)."""
    s.stable_group("a", "b", static=True, rebalance_ms=500)
    s.join_dynamic("c", rebalance_ms=500, parks=True)
    s.leave("c'", ("$c", None))
    s.pause(650)
    s.describe()
    s.join("a", "$a", instance="a", rebalance_ms=500, parks=True)
    s.describe()
    s.pause(450)
    s.describe()
    s.heartbeat("b", 2, instance="b")
    s.heartbeat("b", 3, instance="b")


@scenario()
def static_instance_ids(s: Script) -> None:
    """Any string is a valid instance id (JG-13)."""
    s.join("a", instance="", parks=True)
    s.join("b", instance="with / and space", parks=True)
    s.join("c", instance="x" * 249, parks=True)
    s.describe(v=4)


@scenario()
def static_newcomers(s: Script) -> None:
    """Static and dynamic members in one group; an instance id with the member id of a dynamic member."""
    s.stable_group("a")
    s.join("b", instance="b", parks=True)
    s.join("c", "$a", instance="c")
    s.join("a", "$a")
    s.sync("a", 2, {"a": "A", "b": "B"})
    s.sync("b", 2, instance="b")
    s.heartbeat("a", 2, instance="b")
    s.heartbeat("b", 2)
    s.join("b", "$b")
    s.describe()
    s.leave("b", ("$b", None))
    s.join("b", instance="b", parks=True)


# --- leaving ----------------------------------------------------------------------------------------------------------


@scenario()
def leave_versions(s: Script) -> None:
    """Each version of LeaveGroup, with an unknown and a known member (LG-01)."""
    for v in range(6):
        group = f"{s.group}/{v}"
        on = "abcdef"[v]
        s.leave(on, ("nobody", None), v=v, group=group)
        s.join(on, v=0, group=group)
        s.leave(on, ("nobody", None), v=v, group=group)
        s.leave(on, ("", None), v=v, group=group)
        s.leave(on, v=v, group=group)
        s.leave(on, v=v, group=group)
    s.describe(*(f"{s.group}/{v}" for v in range(6)))


@scenario()
def leave_in_batches(s: Script) -> None:
    """A batch with every kind of leaving member: each has a separate error (LG-02 … LG-08)."""
    s.stable_group("a", "b", "c", static=True)
    s.join_dynamic("d", parks=True)
    s.join("e")
    s.leave(
        "admin",
        ("nobody", None),
        ("", None),
        ("", "nobody"),
        ("$a", "b"),
        ("$a", "nobody"),
        ("", "b"),
        ("", "b"),
        ("$c", "c"),
        ("$e", None),
        ("$d", None),
    )
    s.describe()
    s.request("admin", "LeaveGroup", 5, group_id=s.group, members=[])
    s.heartbeat("a", 2, instance="a")
    s.join("a", "$a", instance="a")


@scenario()
def leave_when_stable(s: Script) -> None:
    """A member that leaves a stable group starts a rebalance (LG-09)."""
    s.stable_group("a", "b", "c")
    s.leave("b")
    s.heartbeat("a", 2)
    s.describe()
    s.join("a", "$a", parks=True)
    s.leave("c")
    s.sync("a", 3, {"a": "A"})
    s.heartbeat("c", 3)


@scenario()
def leave_with_a_parked_join(s: Script) -> None:
    """The parked join of a leaving member gets a response (LG-10)."""
    s.stable_group("a", "b", "c")
    s.join("a", "$a", parks=True)
    s.join("b", "$b", parks=True)
    s.leave("b'", ("$b", None))
    s.leave("a'", ("$a", None))
    s.join("c", "$c")


# --- group.max.size ---------------------------------------------------------------------------------------------------


@scenario(MAX_SIZE_2)
def size_when_stable(s: Script) -> None:
    """A full stable group rejects new members (JG-38, JG-40)."""
    s.stable_group("a", "b")
    s.join("c")
    s.join("c", v=3)
    s.join("c", instance="c")
    s.join("c", "nobody")
    s.join("b", "$b")
    s.heartbeat("a", 2)
    s.describe()


@scenario(MAX_SIZE_2)
def size_of_a_static_return(s: Script) -> None:
    """A static member that returns to a full group counts as new (JG-40)."""
    s.stable_group("a", "b", static=True)
    s.join("b", instance="b")
    s.heartbeat("b", 2, instance="b")


@scenario(MAX_SIZE_2)
def size_and_pending_ids(s: Script) -> None:
    """Pending ids do not count (JG-12)."""
    s.stable_group("a")
    s.join("b")
    s.join("c")
    s.join("d")
    s.join("b", "$b", parks=True)
    s.join("c", "$c", parks=True)
    s.join("d", "$d")
    s.describe()


@scenario(MAX_SIZE_2)
def size_when_completing(s: Script) -> None:
    """A full group in CompletingRebalance rejects new members and continues (JG-38)."""
    s.stable_group("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.sync("b", 3, parks=True)
    s.join("c")
    s.join("c", v=2)
    s.sync("a", 3, {"a": "A", "b": "B"})


# --- offsets ----------------------------------------------------------------------------------------------------------


@scenario()
def commit_versions(s: Script) -> None:
    """Each version of OffsetCommit, without membership and from a member, read back with OffsetFetch (OC-01)."""
    for v in range(2, 10):
        group = f"{s.group}/{v}"
        s.commit("a", {("t", 0): 10 + v, ("u", 0): 20}, v=v, group=group, metadata="m")
        s.fetch("a", [("t", 0), ("t", 1), ("u", 0)], group)
    s.describe(s.group + "/2")
    s.list_groups()
    s.join("b", v=0)
    s.sync("b", 1, {"b": "B"})
    for v in range(2, 10):
        s.commit("b", {("t", 0): v}, v=v, generation=1, member="$b")
        s.commit("b", {("t", 0): 99}, v=v, generation=2, member="$b")
        s.commit("b", {("t", 0): 99}, v=v)
    s.fetch("b", None)


@scenario()
def commit_in_every_state(s: Script) -> None:
    """Which commits are accepted in which state (OC-01 … OC-08)."""
    offsets = {("t", 0): 1, ("u", 0): 2}
    s.commit("x", offsets, generation=5, member="x")
    s.commit("x", offsets, generation=5, member="x", v=8)
    s.commit("x", offsets)
    s.commit("x", offsets, generation=0)
    s.commit("x", offsets, member="x")
    s.commit("x", offsets, instance="i")
    s.describe()
    s.join_dynamic("a")
    s.commit("a", offsets, generation=1, member="$a")
    s.commit("a", offsets)
    s.commit("a", offsets, generation=-1, member="$a")
    s.commit("a", offsets, generation=-1, instance="i")
    s.sync("a", 1, {"a": "A"})
    s.commit("a", offsets)
    s.commit("a", offsets, generation=1)
    s.commit("a", offsets, generation=-1, member="$a")
    s.commit("a", {("t", 0): 50}, generation=1, member="$a")
    s.join("b", v=0, parks=True)
    s.commit("a", {("t", 0): 51}, generation=1, member="$a")
    s.commit("a", {("t", 0): 52}, generation=2, member="$a")
    s.commit("b'", {("t", 0): 53})
    s.fetch("a", None)
    s.leave("a")
    s.describe()


@scenario()
def commit_metadata(s: Script) -> None:
    """Metadata that is too long fails only its partition; the limit counts characters (OC-09)."""
    s.request(
        "a",
        "OffsetCommit",
        9,
        group_id=s.group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            {
                "name": "t",
                "partitions": [
                    {"partition_index": 0, "committed_offset": 1, "committed_metadata": "12345678"},
                    {"partition_index": 1, "committed_offset": 2, "committed_metadata": "123456789"},
                    {"partition_index": 2, "committed_offset": 3, "committed_metadata": "éééééééé"},
                ],
            },
            {"name": "u", "partitions": [{"partition_index": 0, "committed_offset": 4, "committed_metadata": None}]},
        ],
    )
    s.fetch("a", None)
    s.fetch("a", [("t", 0), ("t", 1), ("t", 2), ("u", 0)])
    s.commit("a", {("t", 0): 9}, metadata="123456789", generation=3, member="x")
    s.commit("a", {("t", 0): 9}, metadata="123456789", group=s.group + "/never")
    s.describe(s.group + "/never")
    s.commit("a", {("t", 0): -1})
    s.commit("a", {("t", 1): -5})
    s.fetch("a", None)


@scenario()
def commit_odd_shapes(s: Script) -> None:
    """An empty commit, a repeated topic, a repeated partition, the empty group id (OC-14)."""
    s.commit("a", {})
    s.describe()
    s.commit("a", {}, generation=3, member="x")
    partition = {"partition_index": 0, "committed_metadata": ""}
    s.request(
        "a",
        "OffsetCommit",
        8,
        group_id=s.group,
        topics=[
            {"name": "t", "partitions": [partition | {"committed_offset": 1}, partition | {"committed_offset": 2}]},
            {"name": "u", "partitions": [partition | {"committed_offset": 3}]},
            {"name": "t", "partitions": [partition | {"committed_offset": 4, "partition_index": 1}]},
        ],
    )
    s.fetch("a", None)
    s.fetch("a", [("t", 0), ("t", 0), ("u", 0), ("t", 2)])
    s.commit("a", {("u", 0): 3}, group="")
    s.fetch("a", [("u", 0)], "", v=5)
    s.describe("")
    s.delete_offsets(("u", 0), group="")
    s.delete_groups("")
    s.fetch("a", [("u", 0)], "")


@scenario()
def commit_retention(s: Script) -> None:
    """A commit with its own retention time (OC-13)."""
    for v in (2, 3, 4):
        s.commit("a", {("t", v - 2): v}, v=v, retention_time_ms=3_600_000)
    s.fetch("a", None)


@scenario()
def fetch_versions(s: Script) -> None:
    """Each version of OffsetFetch: known and unknown partitions, all partitions, an unknown group (OF-01, OF-04)."""
    s.commit("a", {("t", 0): 5, ("t", 2): 6, ("u", 0): 7}, metadata="m")
    for v in range(1, 10):
        s.fetch("a", [("u", 0), ("t", 1), ("t", 0), ("nowhere", 0)], v=v)
        s.fetch("a", [("t", 0)], s.group + "/never", v=v)
        s.fetch("a", [], v=v)
        if v >= 2:
            s.fetch("a", None, v=v)
            s.fetch("a", None, s.group + "/never", v=v)
    s.fetch("a", [("t", 0)], v=7, require_stable=True)
    s.fetch("a", None, s.group, s.group + "/never", v=9, require_stable=True)


@scenario()
def fetch_many_groups(s: Script) -> None:
    """Several groups in one request, each with its own topics; member ids are not checked (OF-02, OF-04)."""
    s.commit("a", {("t", 0): 5})
    s.commit("a", {("u", 0): 6}, group=s.group + "/2")
    groups: list[Fields] = [
        {"group_id": s.group, "topics": [{"name": "t", "partition_indexes": [0, 1]}]},
        {"group_id": s.group + "/2", "topics": None},
        {"group_id": s.group + "/never", "topics": [{"name": "u", "partition_indexes": [0]}]},
    ]
    s.request("a", "OffsetFetch", 8, groups=groups)
    s.request("a", "OffsetFetch", 8, groups=[])
    s.request("a", "OffsetFetch", 9, groups=[groups[0] | {"member_id": "x", "member_epoch": 3}])
    s.stable_group("b")
    s.request("b", "OffsetFetch", 9, groups=[groups[0] | {"member_id": "x", "member_epoch": 9}])


@scenario()
def delete_offsets(s: Script) -> None:
    """Offsets of topics without a subscriber are deleted, in every state (AD-05)."""
    s.delete_offsets(("t", 0))
    s.commit("x", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    s.delete_offsets(("t", 0), ("t", 2))
    s.fetch("x", None)
    s.stable_group("a")
    s.delete_offsets(("t", 1), ("u", 0), ("t", 2))
    s.fetch("x", None)
    s.join("b", v=0, protocols=join_protocols("range", topics=("u",)), parks=True)
    s.delete_offsets(("t", 1), ("u", 0))
    s.join("a", "$a")
    s.delete_offsets(("t", 1), ("u", 0))
    s.leave("a")
    s.delete_offsets(("t", 1))
    s.leave("b")
    s.delete_offsets(("t", 1))
    s.fetch("x", None)
    s.describe()


@scenario()
def delete_offsets_of_other_types(s: Script) -> None:
    """A group of another type with members keeps its offsets (AD-05), as do invalid subscriptions (EX-09)."""
    s.commit("x", {("t", 0): 5}, group=s.group + "/connect")
    s.join(
        "a", v=0, protocol_type="connect", protocols=[{"name": "default", "metadata": ""}], group=s.group + "/connect"
    )
    s.delete_offsets(("t", 0), group=s.group + "/connect")
    s.commit("x", {("t", 0): 5, ("u", 0): 5})
    s.join("b", v=0, protocols=[{"name": "range", "metadata": "?"}])
    s.delete_offsets(("t", 0))
    s.sync("b", 1, {"b": "B"})
    s.delete_offsets(("t", 0), ("u", 0))
    s.describe()


# --- administration ---------------------------------------------------------------------------------------------------


@scenario()
def delete_groups(s: Script) -> None:
    """Groups without members are deleted (AD-04)."""
    s.delete_groups()
    s.commit("x", {("t", 0): 5})
    s.delete_groups(v=0)
    s.fetch("x", None)
    s.describe()
    s.stable_group("a")
    s.delete_groups(v=1)
    s.join("b", v=0, parks=True)
    s.delete_groups()
    s.join("a", "$a")
    s.delete_groups()
    s.leave("a", ("$a", None), ("$b", None))
    s.commit("x", {("t", 0): 5}, group=s.group + "/2")
    s.delete_groups(s.group, s.group + "/never", s.group + "/2", s.group)
    s.list_groups()
    s.join_dynamic("a")


@scenario()
def describe_versions(s: Script) -> None:
    """Each version of DescribeGroups: a stable, a simple, a missing and a repeated group (AD-01)."""
    s.stable_group("a", "b", static=True)
    s.commit("x", {("t", 0): 5}, group=s.group + "/simple")
    for v in range(7):
        s.describe(s.group, s.group + "/never", s.group + "/simple", v=v)
    s.describe(s.group, s.group)
    s.request("admin", "DescribeGroups", 5, groups=[])


@scenario()
def list_versions(s: Script) -> None:
    """Each version of ListGroups, and its filters (AD-03)."""
    s.stable_group("a")
    s.join("b", v=0, group=s.group + "/completing")
    s.join("c", v=0, group=s.group + "/preparing")
    s.join("d", v=0, group=s.group + "/preparing", parks=True)
    s.join("e", v=0, group=s.group + "/empty")
    s.leave("e", group=s.group + "/empty")
    s.commit("x", {("t", 0): 5}, group=s.group + "/simple")
    for v in range(6):
        s.list_groups(v=v)
    s.list_groups("Stable")
    s.list_groups("stable", "EMPTY", v=4)
    s.list_groups("PreparingRebalance", "CompletingRebalance")
    s.list_groups("Nonsense")
    s.list_groups("Dead")
    s.list_groups(types=("classic",))
    s.list_groups(types=("Classic",))
    s.list_groups(types=("consumer",))
    s.list_groups("Stable", types=("classic", "consumer"))
    s.list_groups("Assigning", v=4)


@scenario()
def states_through_deletion(s: Script) -> None:
    """A deleted group is created again as a new group (ST-03)."""
    s.stable_group("a")
    s.leave("a")
    s.delete_groups()
    s.heartbeat("a", 1)
    s.join("a", "$a")
    s.stable_group("a")


@scenario()
def fetch_odd_shapes(s: Script) -> None:
    """A topic in two entries, a repeated partition, a repeated group."""
    s.commit("a", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    t0: Fields = {"name": "t", "partition_indexes": [0, 0]}
    t1: Fields = {"name": "t", "partition_indexes": [1, 0]}
    u: Fields = {"name": "u", "partition_indexes": [0]}
    for v in (1, 5, 7):
        s.request("a", "OffsetFetch", v, group_id=s.group, topics=[t0, u, t1])
        s.request("a", "OffsetFetch", v, group_id=s.group + "/never", topics=[t0, u, t1])
    s.request("a", "OffsetFetch", 9, groups=[{"group_id": s.group, "topics": [t0, u, t1]}])
    group: Fields = {"group_id": s.group, "topics": [t0]}
    s.request("a", "OffsetFetch", 9, groups=[group, {"group_id": s.group + "/never", "topics": [u]}, group])


@scenario()
def commit_topics_repeated(s: Script) -> None:
    """The order of the response when a topic has two entries or no partitions."""
    zero: Fields = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    first = zero | {"partition_index": 1}
    t0: Fields = {"name": "t", "partitions": [zero]}
    t1: Fields = {"name": "t", "partitions": [first]}
    u: Fields = {"name": "u", "partitions": [zero]}
    empty: Fields = {"name": "t", "partitions": []}
    for v in (2, 8, 9):
        for topics in ([t0, u, t1], [empty, u], [empty]):
            s.request("a", "OffsetCommit", v, group_id=s.group, topics=topics)
            s.request("a", "OffsetCommit", v, group_id=s.group + "/x", topics=topics, generation_id_or_member_epoch=3)
    s.request(
        "admin",
        "OffsetDelete",
        0,
        group_id=s.group,
        topics=[
            {"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 0}]},
            {"name": "u", "partitions": []},
        ],
    )


@scenario()
def commit_to_what_is_not_there(s: Script) -> None:
    """Missing topics and partitions are rejected and come first; the others are committed (OC-10)."""
    zero: Fields = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    first, missing, negative = (zero | {"partition_index": index} for index in (1, 9, -1))
    t: Fields = {"name": "t", "partitions": [zero, missing, first, negative]}
    u: Fields = {"name": "u", "partitions": [zero]}
    z: Fields = {"name": "z", "partitions": [first, zero]}
    empty: Fields = {"name": "z", "partitions": []}
    third: Fields = {"name": "t", "partitions": [zero | {"partition_index": 2}]}
    for v in (2, 8, 9):
        for topics in ([u, t, z], [u, u, z], [third, t, u, third, z, z], [z], [empty], [empty, u]):
            s.request("a", "OffsetCommit", v, group_id=s.group, topics=topics)
        s.request("a", "OffsetCommit", v, group_id=s.group + "/x", topics=[u, t], generation_id_or_member_epoch=3)
        s.request("a", "OffsetCommit", v, group_id=s.group + "/x", topics=[z], generation_id_or_member_epoch=3)
    s.fetch("a", None)


@scenario()
def topics_by_id(s: Script) -> None:
    """OffsetCommit and OffsetFetch v10 identify topics by id, also in the response (OC-10)."""
    zero: Fields = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    t: Fields = {"topic_id": "@t", "partitions": [zero, zero | {"partition_index": 9}]}
    u: Fields = {"topic_id": "@u", "partitions": [zero]}
    unknown: Fields = {"topic_id": "@gone", "partitions": [zero, zero]}
    for topics in ([u], [u, unknown, t], [u, u, unknown, t, unknown], [unknown], []):
        s.request("a", "OffsetCommit", 10, group_id=s.group, topics=topics)
    s.request("a", "OffsetCommit", 10, group_id=s.group + "/x", topics=[unknown, u], generation_id_or_member_epoch=3)
    t = {"topic_id": "@t", "partition_indexes": [0, 9]}
    u = {"topic_id": "@u", "partition_indexes": [0]}
    unknown = {"topic_id": "@gone", "partition_indexes": [1, 0]}
    for requested in ([t], [unknown, t, u, t], [unknown, unknown], [], None):
        groups: list[Fields] = [{"group_id": name, "topics": requested} for name in (s.group, s.group + "/x")]
        s.request("a", "OffsetFetch", 10, groups=groups)


@scenario()
def fetch_without_partitions(s: Script) -> None:
    """A topic without partitions, a topic in two adjacent entries, a missing topic."""
    s.commit("a", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    empty: Fields = {"name": "t", "partition_indexes": []}
    t0: Fields = {"name": "t", "partition_indexes": [0]}
    t1: Fields = {"name": "t", "partition_indexes": [1]}
    z: Fields = {"name": "z", "partition_indexes": [0]}
    for topics in ([empty], [empty, empty], [t0, t1], [t0, t0, empty, z], []):
        for v in (1, 2, 7):
            s.request("a", "OffsetFetch", v, group_id=s.group, topics=topics)
        s.request("a", "OffsetFetch", 9, groups=[{"group_id": s.group, "topics": topics}])


@scenario()
def delete_offsets_that_are_not_there(s: Script) -> None:
    """Missing topics and partitions are rejected and come first; the others are deleted (AD-05)."""
    s.commit("a", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    zero, first, missing = ({"partition_index": index} for index in (0, 1, 9))
    t: Fields = {"name": "t", "partitions": [zero, missing, first]}
    u: Fields = {"name": "u", "partitions": [zero]}
    z: Fields = {"name": "z", "partitions": [first, zero]}
    empty: Fields = {"name": "u", "partitions": []}
    missing_empty: Fields = {"name": "z", "partitions": []}
    for topics in ([u, t, z], [empty], [empty, t], [missing_empty], [z, u, z, u], [z], []):
        s.request("admin", "OffsetDelete", 0, group_id=s.group, topics=topics)
        s.request("admin", "OffsetDelete", 0, group_id=s.group + "/never", topics=topics)
    s.fetch("a", None)


@scenario()
def authorized_operations(s: Script) -> None:
    """Without an authorizer all group operations are authorized (AD-02)."""
    s.commit("a", {("t", 0): 5})
    for v in range(3, 7):
        groups = [s.group, s.group + "/never"]
        s.request("admin", "DescribeGroups", v, groups=groups, include_authorized_operations=True)


# --- deliberate differences -------------------------------------------------------------------------------------------

_NO_RESPONSE: Final = "Kafka sends no response to"
_NOT_REQUESTED: Final = -(2**31)  # authorized operations


def _join_error(code: int, member: str) -> Fields:
    return {
        "error_code": code,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member,
        "members": [],
    }


def _sync_error(code: int) -> Fields:
    return {"error_code": code, "protocol_type": None, "protocol_name": None, "assignment": ""}


def _joined_member(member: str, instance: str | None) -> Fields:
    return {"member_id": member, "group_instance_id": instance, "metadata": subscription("t")}


def _described(group: str, state: str, protocol_type: str, members: list[Fields]) -> Fields:
    fields = {
        "error_code": 0,
        "error_message": None,
        "group_id": group,
        "group_state": state,
        "protocol_type": protocol_type,
        "protocol_data": "",
        "members": members,
        "authorized_operations": _NOT_REQUESTED,
    }
    return {"groups": [fields]}


def _described_member(member: str, instance: str | None, client_id: str, assignment: str) -> Fields:
    return {
        "member_id": member,
        "group_instance_id": instance,
        "client_id": client_id,
        "client_host": HOST,
        "member_metadata": "",
        "member_assignment": assignment,
    }


def _not_found(group: str) -> Fields:
    fields = _described(group, "Dead", "", [])["groups"][0]
    return {"groups": [fields | {"error_code": 69, "error_message": f"Group {group} not found."}]}


def _committed(topic: str, partition: int, code: int) -> Fields:
    return {"topics": [{"name": topic, "partitions": [{"partition_index": partition, "error_code": code}]}]}


@scenario()
def differs_superseded_join(s: Script) -> None:
    """A member joins again while its older join is parked."""
    s.stable_group("a", "b")
    older = s.join("b", "$b", protocols=join_protocols("range", topics=("u",)), parks=True)
    newer = s.join("b'", "$b", parks=True)
    s.join("a", "$a")
    s.heartbeat("b''", 3)
    s.differs(older, f"{_NO_RESPONSE} the older join: REBALANCE_IN_PROGRESS", _join_error(27, "b-<2>"), newer)


@scenario()
def differs_superseded_sync(s: Script) -> None:
    """A member syncs again while its older sync is parked."""
    s.stable_group("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    older = s.sync("b", 3, parks=True)
    newer = s.sync("b'", 3, parks=True)
    s.sync("a", 3, {"a": "A", "b": "B"})
    s.differs(older, f"{_NO_RESPONSE} the older sync: REBALANCE_IN_PROGRESS", _sync_error(27), newer)


@scenario()
def differs_leaver_with_a_parked_sync(s: Script) -> None:
    """A member leaves while its own sync is parked."""
    s.stable_group("a", "b", "c")
    s.join("a", "$a", parks=True)
    s.join("b", "$b", parks=True)
    s.join("c", "$c")
    parked = s.sync("b", 3, parks=True)
    s.sync("c", 3, parks=True)
    leave = s.leave("b'", ("$b", None))
    s.join("a", "$a", parks=True)
    s.join("c", "$c")
    s.differs(parked, f"{_NO_RESPONSE} the sync of the leaving member: UNKNOWN_MEMBER_ID", _sync_error(25), leave)


@scenario(MAX_SIZE_2)
def differs_refused_for_size_while_preparing(s: Script) -> None:
    """A new member takes the last place before a member rejoins: that member is rejected and removed."""
    s.stable_group("a", "d", rebalance_ms=600)
    first = s.join("a", "$a", rebalance_ms=600, parks=True)
    second = s.join("b", instance="b", rebalance_ms=2000, parks=True)
    rejected = s.join("d", "$d", rebalance_ms=600)
    described = s.describe()
    s.heartbeat("d", 2)
    s.pause(550)
    s.describe()
    reason = "Kafka ends the join phase at its timer, although all members have joined"
    joined = {"generation_id": 3, "protocol_type": "consumer", "protocol_name": "range", "leader": "a-<1>"}
    members = [_joined_member("a-<1>", None), _joined_member("b-<3>", "b")]
    s.differs(first, reason, _join_error(0, "a-<1>") | joined | {"members": members}, rejected)
    s.differs(second, reason, _join_error(0, "b-<3>") | joined, rejected)
    members = [_described_member("a-<1>", None, "a", "A"), _described_member("b-<3>", "b", "b", "")]
    s.differs(described, reason, _described(s.group, "CompletingRebalance", "consumer", members))


@scenario()
def differs_refused_first_join(s: Script) -> None:
    """In Kafka a rejected first join leaves an empty group."""
    s.join("a", protocol_type="")
    described = s.describe()
    listed = s.list_groups()
    reason = "Kafka keeps an empty group"
    s.differs(described, reason, _not_found(s.group))
    s.differs(listed, reason, {"error_code": 0, "groups": []})


@scenario()
def differs_protocol_named_twice(s: Script) -> None:
    """A member sends one protocol name twice."""
    joined = s.join("a", protocols=join_protocols("range", "range"), instance="a", parks=True)
    described = s.describe()
    reason = "in Kafka the join phase throws and the group never completes a rebalance: INCONSISTENT_GROUP_PROTOCOL"
    s.differs(joined, reason, _join_error(23, ""))
    s.differs(described, reason, _not_found(s.group))


@scenario()
def differs_overlong_subscription(s: Script) -> None:
    """The topic count of a subscription exceeds its bytes."""
    protocols = [{"name": "range", "metadata": "\0\0\0\x0f\x42\x40\0\x01t"}]
    joined = s.join("a", protocols=protocols, instance="a", parks=True)
    described = s.describe()
    reason = "in Kafka the join phase throws and the group never completes a rebalance: INVALID_REQUEST"
    s.differs(joined, reason, _join_error(42, ""))
    s.differs(described, reason, _not_found(s.group))


@scenario()
def differs_refused_first_commit(s: Script) -> None:
    """In Kafka a first commit without valid partitions leaves an empty group."""
    s.commit("a", {("t", 0): 1}, metadata="123456789", v=8)
    second = s.commit("a", {("t", 0): 1}, generation=0, v=8)
    deleted = s.delete_groups()
    reason = "Kafka keeps an empty group, which affects the next writes"
    s.differs(second, f"{reason}: ILLEGAL_GENERATION, as for any missing group", _committed("t", 0, 22))
    s.differs(deleted, reason, {"results": [{"group_id": s.group, "error_code": 69}]})


@scenario(DELAYED)
def sync_during_the_initial_delay(s: Script) -> None:
    """No protocol is selected yet, so every protocol is accepted (SG-03, SG-04)."""
    s.join("a", instance="a", parks=True)
    s.pause(700)
    s.sync("a", 1, {"a": "A"}, instance="a")
    s.leave("a", ("$a", "a"))
    s.join_dynamic("b", parks=True)
    s.sync("b'", 2)
    s.sync("b'", 2, protocol="other")
    s.sync("b'", 2, protocol_type="connect")
    s.sync("b'", 2, v=4)
    s.sync("b'", 1)
    s.pause(450)


@scenario()
def client_id_of_a_member(s: Script) -> None:
    """A member keeps the client id of its first join, whichever client rejoins with its ids (AD-02)."""
    s.stable_group("a", "b", static=True)
    s.join("x", instance="b")
    s.join("y", "$a", instance="a", parks=True)
    s.describe()
