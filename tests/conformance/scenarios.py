"""The scenarios that Apache Kafka and our coordinator both play; what Kafka answered stands in `transcripts/`.

Rules kept here
- A scenario is a function that writes down steps; its name is the group's id, its docstring says what it is about.
- Groups beside the first are called `<name>/…`, so that ListGroups can be cut down to them.
- What happens must not hang on less than a hundred milliseconds: a request takes 50 ms (`transcripts.BEAT_MS`), and no
  deadline of a timer lies nearer than 100 ms to a step. Timers that are not meant to fire are ten seconds and more.
- Who leads after a leader has gone, and which protocol wins a tie, is left to Java's hash maps: scenarios avoid both.
- Where docs/differences.md names a difference, `Script.differs` says so for that step, with the answer we give.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from slackwater.group.assignors.consumer_protocol import Subscription, encode_subscription

from .transcripts import HOST, Answered, Difference, Fields, Pause, Request, Scenario, Step

TOPICS: Final = {"t": 3, "u": 1}  # the topics there are, and how many partitions each has

_MIN_SESSION: Final = {"group.min.session.timeout.ms": 100}
AT_ONCE: Final = _MIN_SESSION | {"group.initial.rebalance.delay.ms": 0, "offset.metadata.max.bytes": 8}
DELAYED: Final = _MIN_SESSION | {"group.initial.rebalance.delay.ms": 600}
SMALL: Final = _MIN_SESSION | {"group.initial.rebalance.delay.ms": 0, "group.max.size": 2}

LONG_MS: Final = 30_000
FIRST_ID_NEEDED: Final = 4  # JoinGroup: from this version on a dynamic member asks twice


def subscription(*topics: str) -> str:
    """The bytes of a subscription, as text."""
    return encode_subscription(Subscription(topics)).decode("latin-1")


def offers(*names: str, topics: Sequence[str] = ("t",)) -> list[Fields]:
    """Assignors in order of preference."""
    return [{"name": name, "metadata": subscription(*topics)} for name in names]


RANGE: Final = offers("range")


class Script:
    """A scenario being written down. Every request gives its step's number."""

    def __init__(self, name: str) -> None:
        self.group = name
        self.steps: list[Step] = []
        self.differences: dict[int, Difference] = {}

    def ask(self, on: str, api: str, version: int, *, parks: bool = False, **fields: Any) -> int:
        """Send any request."""
        self.steps.append(Request(on, api, version, fields, parks))
        return len(self.steps) - 1

    def pause(self, ms: int) -> int:
        """Let time pass."""
        self.steps.append(Pause(ms))
        return len(self.steps) - 1

    def differs(self, number: int, why: str, answer: Fields | None, during: int | None = None) -> None:
        """Here we differ on purpose; `during` is the step itself unless told otherwise."""
        ours = None if answer is None else Answered(number if during is None else during, answer)
        self.differences[number] = Difference(why, ours)

    # --- members ------------------------------------------------------------------------------------------------

    def join(
        self,
        on: str,
        member: str = "",
        *,
        v: int = 9,
        instance: str | None = None,
        protocols: Sequence[Fields] = RANGE,
        kind: str = "consumer",
        session: int = LONG_MS,
        rebalance: int = LONG_MS,
        group: str | None = None,
        parks: bool = False,
    ) -> int:
        """One JoinGroup."""
        fields: Fields = {
            "group_id": self.group if group is None else group,
            "session_timeout_ms": session,
            "member_id": member,
            "protocol_type": kind,
            "protocols": list(protocols),
        }
        if v >= 1:
            fields["rebalance_timeout_ms"] = rebalance
        if v >= 5:
            fields["group_instance_id"] = instance
        return self.ask(on, "JoinGroup", v, parks=parks, **fields)

    def enter(self, on: str, *, parks: bool = False, **more: Any) -> int:
        """A dynamic member joins in two steps."""
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
        kind: str | None = "consumer",
        protocol: str | None = "range",
        group: str | None = None,
        parks: bool = False,
    ) -> int:
        """One SyncGroup; `parts` are the leader's, by client."""
        fields: Fields = {
            "group_id": self.group if group is None else group,
            "generation_id": generation,
            "member_id": f"${client(on)}" if member is None else member,
            "assignments": [{"member_id": f"${one}", "assignment": part} for one, part in (parts or {}).items()],
        }
        if v >= 3:
            fields["group_instance_id"] = instance
        if v >= 5:
            fields["protocol_type"] = kind
            fields["protocol_name"] = protocol
        return self.ask(on, "SyncGroup", v, parks=parks, **fields)

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
        """One Heartbeat."""
        fields: Fields = {
            "group_id": self.group if group is None else group,
            "generation_id": generation,
            "member_id": f"${client(on)}" if member is None else member,
        }
        if v >= 3:
            fields["group_instance_id"] = instance
        return self.ask(on, "Heartbeat", v, **fields)

    def leave(self, on: str, *members: tuple[str, str | None], v: int = 5, group: str | None = None) -> int:
        """One LeaveGroup: of the client itself, or of these (member id, instance id)."""
        leavers = members or ((f"${client(on)}", None),)
        fields: Fields = {"group_id": self.group if group is None else group}
        if v < 3:
            fields["member_id"] = leavers[0][0]
        else:
            fields["members"] = [{"member_id": one, "group_instance_id": instance} for one, instance in leavers]
        return self.ask(on, "LeaveGroup", v, **fields)

    def settled(self, *names: str, static: bool = False, **more: Any) -> None:
        """These are members of a stable group, the first leads; generation 1 for one, 2 for more of them."""

        def instance(name: str) -> str | None:
            return name if static else None

        first, *others = names
        if static:
            self.join(first, instance=first, **more)
        else:
            self.enter(first, **more)
        for name in others:
            if static:
                self.join(name, instance=name, parks=True, **more)
            else:
                self.enter(name, parks=True, **more)
        if others:
            self.join(first, f"${first}", instance=instance(first), **more)
        generation = 2 if others else 1
        self.sync(first, generation, {name: name.upper() for name in names}, instance=instance(first))
        for name in others:
            self.sync(name, generation, instance=instance(name))

    # --- offsets and administration -------------------------------------------------------------------------------

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
        """One OffsetCommit."""
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
        return self.ask(on, "OffsetCommit", v, **fields, **more)

    def fetch(
        self,
        on: str,
        partitions: Sequence[tuple[str, int]] | None,
        *groups: str,
        v: int = 9,
        **more: Any,
    ) -> int:
        """One OffsetFetch; None asks for everything."""
        topics: list[Fields] | None = None
        if partitions is not None:
            names = dict.fromkeys(topic for topic, _ in partitions)
            topics = [
                {"name": name, "partition_indexes": [number for topic, number in partitions if topic == name]}
                for name in names
            ]
        if v < 8:
            group = groups[0] if groups else self.group
            return self.ask(on, "OffsetFetch", v, group_id=group, topics=topics, **more)
        wanted = [{"group_id": group, "topics": topics} for group in groups or (self.group,)]
        return self.ask(on, "OffsetFetch", v, groups=wanted, **more)

    def describe(self, *groups: str, v: int = 6, on: str = "admin") -> int:
        """One DescribeGroups."""
        return self.ask(on, "DescribeGroups", v, groups=list(groups or (self.group,)))

    def list_groups(self, *states: str, types: Sequence[str] = (), v: int = 5, on: str = "admin") -> int:
        """One ListGroups."""
        fields: Fields = {}
        if v >= 4:
            fields["states_filter"] = list(states)
        if v >= 5:
            fields["types_filter"] = list(types)
        return self.ask(on, "ListGroups", v, **fields)

    def delete_groups(self, *groups: str, v: int = 2, on: str = "admin") -> int:
        """One DeleteGroups."""
        return self.ask(on, "DeleteGroups", v, groups_names=list(groups or (self.group,)))

    def delete_offsets(self, *partitions: tuple[str, int], group: str | None = None, on: str = "admin") -> int:
        """One OffsetDelete."""
        names = dict.fromkeys(topic for topic, _ in partitions)
        topics = [
            {"name": name, "partitions": [{"partition_index": number} for topic, number in partitions if topic == name]}
            for name in names
        ]
        return self.ask(on, "OffsetDelete", 0, group_id=self.group if group is None else group, topics=topics)


def client(connection: str) -> str:
    """The client a connection belongs to."""
    return connection.rstrip("'")


SCENARIOS: Final[list[Scenario]] = []
_Writer = Callable[[Script], None]


def scenario(settings: Mapping[str, int] = AT_ONCE) -> Callable[[_Writer], _Writer]:
    """Keep what the function writes down."""

    def keep(write: _Writer) -> _Writer:
        name = write.__name__
        script = Script(name)
        write(script)
        about = (write.__doc__ or "").strip()
        SCENARIOS.append(Scenario(name, about, settings, script.steps, script.differences))
        return write

    return keep


# --- joining ----------------------------------------------------------------------------------------------------------


@scenario()
def first_member(s: Script) -> None:
    """One member from its first join to its leave; the group is looked at in every state (ST-03 … ST-11, AD-02)."""
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
    """Each version of JoinGroup, alone in a group (JG-07, JG-08, JG-50)."""
    for v in range(10):
        group = f"{s.group}/{v}"
        on = "abcdefghij"[v]
        s.join(on, v=v, group=group)
        if v >= FIRST_ID_NEEDED:
            s.join(on, f"${on}", v=v, group=group)
        s.join(on, f"${on}", v=v, group=group)
        s.join(on, "nobody", v=v, group=group)


@scenario()
def join_refused(s: Script) -> None:
    """Joins that are refused before there is a group (JG-01 … JG-05)."""
    s.join("a", group="")
    s.join("a", group="", v=0)
    s.join("a", session=99)
    s.join("a", "x", session=99)
    s.join("a", session=1_800_001)
    s.join("a", "x", session=1_800_001, v=3)
    s.join("a", "x")
    s.join("a", "x", v=0)
    s.join("a", "x", instance="i")
    s.describe()
    s.join("a", kind="")
    s.join("a", protocols=[])
    s.join("a", kind="", v=0)
    s.join("a", kind="", instance="i")


@scenario()
def join_other_protocols(s: Script) -> None:
    """Nobody joins who has no protocol in common with everybody (JG-06)."""
    s.settled("a", "b")
    s.join("c", kind="connect")
    s.join("c", protocols=offers("sticky"))
    s.join("c", protocols=offers("sticky"), v=3)
    s.join("c", protocols=offers("sticky"), instance="c")
    s.join("c", protocols=[])
    s.join("b", "$b", protocols=offers("sticky"))
    s.join("b", "$b", kind="connect")
    s.join("a", "$a", protocols=offers("sticky"))
    s.join("d")
    s.join("d", "$d", protocols=offers("sticky"))
    s.join("e", "nobody", protocols=offers("sticky"))
    s.heartbeat("a", 2)
    s.heartbeat("b", 2)


@scenario()
def lone_member_switches_protocol(s: Script) -> None:
    """A lone stable member that offers something wholly different is refused; its own old list counts (JG-06)."""
    s.settled("a")
    s.join("a", "$a", protocols=offers("sticky"))
    s.heartbeat("a", 1)
    s.join("a", "$a", protocols=offers("sticky", "range"))
    s.sync("a", 2, {"a": "A"}, protocol="sticky")
    s.describe()


@scenario()
def rejoin_when_stable(s: Script) -> None:
    """A follower that says the same is answered at once, the leader starts a rebalance, so does a change (JG-17 …)."""
    s.settled("a", "b")
    s.join("b", "$b")
    s.join("b", "$b", v=3)
    s.heartbeat("a", 2)
    s.join("b", "$b", protocols=offers("range", topics=("t", "u")), parks=True)
    s.heartbeat("a", 2)
    s.describe()
    s.join("a", "$a")
    s.sync("b", 3, parks=True)
    s.sync("a", 3, {"a": "A2", "b": "B2"})
    s.describe()
    s.join("a", "$a", parks=True)
    s.heartbeat("b", 3)
    s.join("b", "$b", protocols=offers("range", topics=("t", "u")))


@scenario()
def rejoin_with_another_order(s: Script) -> None:
    """The order of the offered protocols counts as a change (JG-18)."""
    s.settled("a", "b", "c", protocols=offers("range", "sticky"))
    s.join("b", "$b", protocols=offers("range", "sticky"))
    s.join("b", "$b", protocols=offers("sticky", "range"), parks=True)
    s.heartbeat("a", 2)
    s.join("c", "$c", protocols=offers("range", "sticky"), parks=True)
    s.join("a", "$a", protocols=offers("range", "sticky"))


@scenario()
def rejoin_when_completing(s: Script) -> None:
    """While the assignment is awaited the same is answered at once, a change starts over (JG-20, JG-21, ST-10)."""
    s.settled("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.describe()
    s.join("a", "$a")
    s.join("b", "$b")
    s.join("b", "$b", v=4)
    s.sync("b", 3, parks=True)
    s.join("b'", "$b", protocols=offers("range", topics=("u",)), parks=True)
    s.describe()
    s.heartbeat("a", 3)
    s.sync("a", 3, {"a": "A"})
    s.join("a", "$a")
    s.sync("a", 4, {"a": "A", "b": "B"})
    s.sync("b", 4)


@scenario()
def newcomer_when_completing(s: Script) -> None:
    """A newcomer while the assignment is awaited starts over, and parked syncs hear of it (ST-10)."""
    s.settled("a", "b")
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
    """Three members come one after another, and go one after another."""
    s.enter("a")
    s.sync("a", 1, {"a": "all"})
    s.enter("b", parks=True)
    s.heartbeat("a", 1)
    s.join("a", "$a")
    s.sync("b", 2, parks=True)
    s.sync("a", 2, {"a": "half", "b": "other half"})
    s.enter("c", parks=True)
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
    wrong = ("nobody", None), ("nobody", "a"), ("nobody", "i"), ("$a", "b"), ("$a", "i"), ("", "a"), ("", None)
    for member, instance in wrong:
        s.heartbeat("x", generation, member=member, instance=instance)
        s.sync("x", generation, member=member, instance=instance)
        s.commit("x", {("t", 0): 1}, generation=generation, member=member, instance=instance)
        if member:
            s.join("x", member, instance=instance)
    for other in (generation - 1, generation + 1, -1):
        s.heartbeat("x", other, member="$a", instance="a")
        s.sync("x", other, member="$a", instance="a")
        s.commit("x", {("t", 0): 2}, generation=other, member="$a", instance="a")
    s.sync("x", generation, member="$b", instance="b", kind="connect")
    s.sync("x", generation, member="$b", instance="b", protocol="sticky")
    s.sync("x", generation, member="$b", instance="b", protocol=None)
    s.sync("x", generation, member="$b", instance="b", kind=None)
    s.sync("x", generation, member="nobody", protocol=None)
    s.sync("x", generation + 1, member="$b", protocol="sticky")
    s.commit("x", {("t", 0): 3}, generation=generation, member="$a", instance="a")
    s.heartbeat("x", generation, member="$a")


@scenario()
def wrong_ids_when_stable(s: Script) -> None:
    """Every wrong id, generation, instance and protocol, in a stable group (SG-03, HB-03, HB-04, OC-06)."""
    s.settled("a", "b", static=True)
    _wrong_ids(s, 2)


@scenario()
def wrong_ids_when_preparing(s: Script) -> None:
    """The same while members rejoin."""
    s.settled("a", "b", static=True)
    s.join("c", v=3, parks=True)
    _wrong_ids(s, 2)
    s.sync("a", 2, {"a": "A"}, instance="a")
    s.heartbeat("a", 2, instance="a")


@scenario()
def wrong_ids_when_completing(s: Script) -> None:
    """The same while the assignment is awaited."""
    s.settled("a", "b", static=True)
    s.join("a", "$a", instance="a", parks=True)
    s.join("b", "$b", instance="b")
    _wrong_ids(s, 3)
    s.heartbeat("a", 3, instance="a")


@scenario()
def wrong_ids_when_empty(s: Script) -> None:
    """The same after everybody has left (HB-01, SG-01, OC-03, OC-04)."""
    s.settled("a", "b", static=True)
    s.leave("admin", ("", "a"), ("", "b"))
    _wrong_ids(s, 3)


@scenario()
def wrong_ids_when_absent(s: Script) -> None:
    """The same in a group that never was (HB-01, SG-01, OC-02)."""
    for v in (0, 2, 3, 4):
        s.heartbeat("x", 1, v=v, member="x")
    s.heartbeat("x", -1, member="")
    for v in (0, 3, 5):
        s.sync("x", 1, v=v, member="x")
    s.sync("x", 1, member="x", kind=None)
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


# --- ids given out before joining -----------------------------------------------------------------------------------


@scenario()
def pending_id(s: Script) -> None:
    """An id given out is nobody yet (JG-08, JG-09, JG-14, HB-01, LG-07)."""
    s.settled("a")
    s.join("b")
    s.heartbeat("b", 1)
    s.sync("b", 1)
    s.commit("b", {("t", 0): 1}, generation=1, member="$b")
    s.join("b", "$b", instance="b")
    s.join("b", "$b", session=50)
    s.heartbeat("a", 1)
    s.join("b", "$b", parks=True)
    s.heartbeat("a", 1)
    s.join("a", "$a")


@scenario()
def pending_id_leaves(s: Script) -> None:
    """A pending id that leaves starts a rebalance in a stable group, and can be used no more (LG-07)."""
    s.settled("a", "c")
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
    """The join phase waits for an id given out, until it expires (JG-10, JG-11)."""
    s.settled("a")
    s.join("b", session=500)
    s.join("a", "$a", parks=True)
    s.describe()
    s.pause(250)
    s.describe()
    s.pause(300)
    s.join("b", "$b", session=500)
    s.heartbeat("a", 2)


@scenario()
def pending_id_outlives_the_last_member(s: Script) -> None:
    """The last member's leave empties the group though an id is out; the id can still join (ST-11)."""
    s.settled("a")
    s.join("b")
    s.leave("a")
    s.describe()
    s.join("b", "$b")
    s.describe()


@scenario()
def pending_id_and_deletion(s: Script) -> None:
    """A group with nothing but an id given out can be deleted (AD-04)."""
    s.join("a")
    s.list_groups()
    s.delete_groups()
    s.join("a", "$a")
    s.describe()


# --- old and new versions together ----------------------------------------------------------------------------------


@scenario()
def versions_mixed(s: Script) -> None:
    """A v0 member, a v3 member and a v9 member in one group (JG-07, JG-27)."""
    s.join("a", v=0)
    s.sync("a", 1, {"a": "A"}, v=0)
    s.heartbeat("a", 1, v=0)
    s.join("b", v=3, parks=True)
    s.enter("c", parks=True)
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
    s.settled("a")
    for v in range(6):
        s.sync("a", 1, v=v)
        s.sync("a", 9, v=v)
        s.sync("a", 1, v=v, member="nobody")
    for v in range(5):
        s.heartbeat("a", 1, v=v)
        s.heartbeat("a", 9, v=v)


# --- protocols ------------------------------------------------------------------------------------------------------


@scenario()
def protocol_vote(s: Script) -> None:
    """Among the protocols all support, the most first places win (JG-33)."""
    s.enter("a", protocols=offers("range", "sticky", "roundrobin"))
    s.enter("b", protocols=offers("roundrobin", "sticky", "cooperative"), parks=True)
    s.enter("c", protocols=offers("sticky", "roundrobin"), parks=True)
    s.enter("d", protocols=offers("roundrobin", "range", "sticky"), parks=True)
    s.enter("e", protocols=offers("roundrobin", "sticky"), parks=True)
    s.join("a", "$a", protocols=offers("range", "sticky", "roundrobin"))
    s.sync("a", 2, {"a": "A"}, protocol="sticky")
    s.sync("a", 2, {"a": "A"}, protocol="roundrobin")
    s.describe()
    s.sync("b", 2, protocol=None)
    s.sync("b", 2, protocol="roundrobin")


@scenario()
def protocol_type_survives(s: Script) -> None:
    """A group that was emptied keeps its type, and takes another one with the next member (ST-04)."""
    s.settled("a")
    s.leave("a")
    s.list_groups()
    s.enter("b", kind="connect", protocols=[{"name": "default", "metadata": "x"}])
    s.list_groups()
    s.sync("b", 3, {"b": "B"}, kind="connect", protocol="default")
    s.describe()
    s.join("c")
    s.delete_offsets(("t", 0))
    s.leave("b")
    s.describe()


# --- syncing --------------------------------------------------------------------------------------------------------


@scenario()
def sync_omits_members(s: Script) -> None:
    """Members that the leader omitted get nothing, members it made up are ignored (SG-06)."""
    s.settled("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.sync("b", 3, parks=True)
    s.ask(
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
    """A follower that never syncs is removed at the rebalance timeout, though the group is stable (SG-11)."""
    s.settled("a", "b", rebalance=600)
    s.join("a", "$a", parks=True, rebalance=600)
    s.join("b", "$b", rebalance=600)
    s.sync("a", 3, {"a": "A", "b": "B"})
    s.heartbeat("b", 3)
    s.pause(250)
    s.heartbeat("b", 3)
    s.heartbeat("a", 3)
    s.pause(300)
    s.heartbeat("b", 3)
    s.heartbeat("a", 3)
    s.describe()
    s.join("a", "$a", rebalance=600)


@scenario()
def sync_timeout_of_the_leader(s: Script) -> None:
    """A leader that never syncs is removed, and the parked followers hear of the rebalance (SG-11)."""
    s.settled("a", "b", "c", rebalance=600)
    s.join("a", "$a", parks=True, rebalance=600)
    s.join("b", "$b", parks=True, rebalance=600)
    s.join("c", "$c", rebalance=600)
    s.sync("b", 3, parks=True)
    s.pause(300)
    s.heartbeat("a", 3)
    s.pause(300)
    s.heartbeat("a", 3)
    s.heartbeat("c", 3)
    s.join("b", "$b", rebalance=600)
    s.describe()


@scenario()
def leader_leaves_while_the_assignment_is_awaited(s: Script) -> None:
    """Parked followers hear of the rebalance (SG-13)."""
    s.settled("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.sync("b", 3, parks=True)
    s.leave("a")
    s.describe()
    s.join("b", "$b")
    s.sync("b", 4, {"b": "B"})


# --- timers ---------------------------------------------------------------------------------------------------------


@scenario()
def session_expiry(s: Script) -> None:
    """A silent member is removed; one that beats, or commits, is not (SE-01, SE-02, OC-08)."""
    s.enter("a")
    for name in "bcd":
        s.enter(name, parks=True, session=600)
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
    """The last member is silent: the group is empty, and its generation has moved on (ST-11)."""
    s.settled("a", session=400)
    s.pause(650)
    s.describe()
    s.enter("b")


@scenario()
def session_is_not_over_while_parked(s: Script) -> None:
    """A parked join or sync outlives the member's session; it starts anew with the answer (SE-03, SG-10)."""
    s.settled("a")
    s.enter("b", session=400, parks=True)
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
    """Asking for the assignment of a stable group is no sign of life (SG-09)."""
    s.settled("a", "b", session=600)
    for _ in range(3):
        s.pause(150)
        s.heartbeat("a", 2)
        s.sync("b", 2)
    s.pause(250)
    s.heartbeat("a", 2)


@scenario()
def unchanged_rejoin_does_not_extend_the_session(s: Script) -> None:
    """The immediate answer to an unchanged follower is no sign of life, whatever timeout it names (JG-18)."""
    s.settled("a", "b", session=600)
    s.join("b", "$b", session=LONG_MS)
    s.pause(250)
    s.heartbeat("a", 2)
    s.join("b", "$b", session=LONG_MS)
    s.pause(450)
    s.heartbeat("a", 2)


@scenario()
def rebalance_timeout(s: Script) -> None:
    """Who only beats and does not rejoin is dropped at the rebalance timeout (JG-29, SE-05)."""
    s.settled("a", "b", "c", rebalance=600)
    s.enter("d", parks=True, rebalance=600)
    s.join("a", "$a", parks=True, rebalance=600)
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
    """The leader does not rejoin in time: the one who did leads (JG-31)."""
    s.settled("a", "b", rebalance=500)
    s.join("b", "$b", protocols=offers("range", topics=("u",)), rebalance=500, parks=True)
    s.heartbeat("a", 2)
    s.pause(600)
    s.heartbeat("a", 2)
    s.sync("b", 3, {"b": "B"})
    s.describe()


@scenario()
def rebalance_timeout_of_nobody(s: Script) -> None:
    """Nobody rejoins in time: dynamic members are dropped, and the group is empty."""
    s.settled("a", rebalance=500)
    s.enter("b", rebalance=500, parks=True)
    s.leave("b'", ("$b", None))
    s.describe()
    s.heartbeat("a", 1)
    s.pause(600)
    s.describe()
    s.heartbeat("a", 1)


@scenario()
def rebalance_timeout_is_the_longest(s: Script) -> None:
    """The group waits as long as its most patient member, v0 as long as its session (JG-26, JG-27)."""
    s.enter("a", rebalance=200)
    s.join("b", v=0, session=700, parks=True)
    s.join("a", "$a", rebalance=200)
    s.sync("a", 2, {"a": "A"})
    s.sync("b", 2, v=0)
    s.join("a", "$a", rebalance=200, parks=True)
    s.pause(400)
    s.heartbeat("b", 2)
    s.pause(350)
    s.heartbeat("b", 2)


@scenario()
def heartbeat_while_rebalancing_extends_the_session(s: Script) -> None:
    """In both phases of a rebalance a heartbeat counts (HB-05, HB-06), and silence ends a member (SE-02)."""
    s.settled("a", "b", "c", session=600)
    s.join("a", "$a", parks=True, session=600)
    for _ in range(3):
        s.pause(250)
        s.heartbeat("b", 2)
    s.describe()
    s.join("b", "$b", session=600)
    for _ in range(3):
        s.pause(250)
        s.heartbeat("a", 3)
    s.describe()
    s.pause(700)
    s.describe()


# --- the initial delay ----------------------------------------------------------------------------------------------


@scenario(DELAYED)
def initial_delay_alone(s: Script) -> None:
    """A lone member waits for the delay (JG-34)."""
    s.enter("a", parks=True)
    s.describe()
    s.pause(300)
    s.heartbeat("a'", 0, member="x")
    s.pause(300)
    s.sync("a", 1, {"a": "A"})
    s.leave("a")
    s.enter("a", parks=True)
    s.pause(350)
    s.describe()
    s.pause(300)


@scenario(DELAYED)
def initial_delay_extended(s: Script) -> None:
    """Somebody joined since: another delay (JG-35)."""
    s.enter("a", parks=True)
    s.enter("b", parks=True)
    s.pause(650)
    s.describe()
    s.pause(600)


@scenario(DELAYED)
def initial_delay_extended_within_bounds(s: Script) -> None:
    """Extensions end at the first joiner's rebalance timeout (JG-34, JG-35)."""
    s.join("a", v=3, rebalance=1000, parks=True)
    s.join("b", v=3, parks=True)
    s.pause(650)
    s.join("c", v=3, parks=True)
    s.describe()
    s.pause(300)
    s.describe()


@scenario(DELAYED)
def initial_delay_longer_than_the_rebalance_timeout(s: Script) -> None:
    """The first delay is the full one; nothing is left to extend it (JG-34)."""
    s.join("a", v=3, rebalance=200, parks=True)
    s.join("b", v=3, rebalance=200, parks=True)
    s.pause(300)
    s.describe()
    s.pause(250)
    s.describe()


@scenario(DELAYED)
def initial_delay_pending_id_expires(s: Script) -> None:
    """An id that expires ends the delay early (JG-37)."""
    s.join("b", session=300)
    s.enter("a", parks=True)
    s.pause(50)
    s.describe()
    s.pause(200)
    s.describe()


@scenario(DELAYED)
def initial_delay_pending_id_leaves(s: Script) -> None:
    """An id that leaves does not end the delay (JG-37)."""
    s.enter("a", parks=True)
    s.join("b")
    s.leave("b", ("$b", None))
    s.describe()
    s.pause(250)
    s.describe()
    s.pause(300)


@scenario(DELAYED)
def initial_delay_pending_id_holds_on(s: Script) -> None:
    """The delay is over though an id is out (JG-34)."""
    s.enter("a", parks=True)
    s.join("b")
    s.pause(650)
    s.describe()
    s.join("b", "$b", parks=True)
    s.describe()


@scenario(DELAYED)
def initial_delay_member_leaves(s: Script) -> None:
    """Members that leave during the delay do not end it; the last one's join is answered (LG-09, LG-10)."""
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
    """Nobody is left when the delay ends."""
    s.join("a", instance="a", parks=True)
    s.leave("admin", ("", "a"))
    s.describe()
    s.pause(700)
    s.describe()


# --- static members -------------------------------------------------------------------------------------------------


def _static_leader_returns(s: Script, v: int) -> None:
    s.settled("a", "b", static=True)
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
    """A static leader of v5 returns: its old id is told as the leader (JG-41, JG-43, JG-49)."""
    _static_leader_returns(s, 5)


@scenario()
def static_leader_returns_v8(s: Script) -> None:
    """The same in v8."""
    _static_leader_returns(s, 8)


@scenario()
def static_leader_returns_v9(s: Script) -> None:
    """A static leader of v9 returns, and is told to skip the assignment (JG-42)."""
    _static_leader_returns(s, 9)


@scenario()
def static_follower_returns(s: Script) -> None:
    """A static follower returns, with the same and with another subscription: no rebalance (JG-41)."""
    s.settled("a", "b", static=True)
    s.join("b", instance="b", v=5)
    s.sync("b", 2, instance="b")
    s.join("b", instance="b", protocols=offers("range", topics=("u",)))
    s.sync("b", 2, instance="b")
    s.describe()
    s.heartbeat("a", 2, instance="a")
    s.join("b", instance="b", protocols=offers("sticky"))
    s.join("b", "$b", instance="b", protocols=offers("range", topics=("u",)))
    s.join("b", "$b", instance="b", protocols=offers("range", topics=("t",)), parks=True)


@scenario()
def static_member_changes_the_vote(s: Script) -> None:
    """A static member returns, and with it another protocol wins: a rebalance (JG-45)."""
    s.settled("a", static=True, protocols=offers("range", "sticky"))
    s.join("a", instance="a", protocols=offers("sticky", "range"))
    s.sync("a", 2, {"a": "A"}, instance="a", protocol="sticky")
    s.describe()


@scenario()
def static_member_returns_when_preparing(s: Script) -> None:
    """A static member returns while members rejoin: the parked join of its old id is fenced (JG-47, JG-48)."""
    s.settled("a", "b", "c", static=True)
    s.join("c", "$c", instance="c", protocols=offers("range", topics=("u",)), parks=True)
    s.join("b", "$b", instance="b", parks=True)
    s.join("b'", instance="b", parks=True)
    s.describe()
    s.join("a", instance="a")
    s.sync("b", 3, instance="b", parks=True)
    s.sync("a", 3, {"a": "A", "b": "B", "c": "C"}, instance="a")
    s.heartbeat("x", 3, member="$b#1", instance="b")


@scenario()
def static_member_returns_when_completing(s: Script) -> None:
    """A static member returns while the assignment is awaited: always a rebalance, its parked sync fenced (JG-46)."""
    s.settled("a", "b", static=True)
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
    """An absent static member stays through a rebalance until its session is over (JG-29, SE-06)."""
    s.join("a", instance="a", rebalance=500)
    s.join("b", instance="b", rebalance=500, session=1500, parks=True)
    s.join("a", "$a", instance="a", rebalance=500)
    s.sync("a", 2, {"a": "A", "b": "B"}, instance="a")
    s.sync("b", 2, instance="b")
    s.join("a", "$a", instance="a", rebalance=500, parks=True)
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
    """Only absent static members are left at the timeout: it begins again, without a generation (JG-30)."""
    s.settled("a", "b", static=True, rebalance=500)
    s.enter("c", rebalance=500, parks=True)
    s.leave("c'", ("$c", None))
    s.pause(650)
    s.describe()
    s.join("a", "$a", instance="a", rebalance=500, parks=True)
    s.describe()
    s.pause(450)
    s.describe()
    s.heartbeat("b", 2, instance="b")
    s.heartbeat("b", 3, instance="b")


@scenario()
def static_instance_ids(s: Script) -> None:
    """Any text is an instance id (JG-13)."""
    s.join("a", instance="", parks=True)
    s.join("b", instance="with / and space", parks=True)
    s.join("c", instance="x" * 249, parks=True)
    s.describe(v=4)


@scenario()
def static_newcomers(s: Script) -> None:
    """Static and dynamic members in one group; an instance id with somebody's dynamic id."""
    s.settled("a")
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


# --- leaving --------------------------------------------------------------------------------------------------------


@scenario()
def leave_versions(s: Script) -> None:
    """Each version of LeaveGroup, with an unknown and with a known member (LG-01)."""
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
    """A batch of every kind of leaver: each its own error (LG-02 … LG-08)."""
    s.settled("a", "b", "c", static=True)
    s.enter("d", parks=True)
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
    s.ask("admin", "LeaveGroup", 5, group_id=s.group, members=[])
    s.heartbeat("a", 2, instance="a")
    s.join("a", "$a", instance="a")


@scenario()
def leave_when_stable(s: Script) -> None:
    """Whoever leaves a stable group starts a rebalance (LG-09)."""
    s.settled("a", "b", "c")
    s.leave("b")
    s.heartbeat("a", 2)
    s.describe()
    s.join("a", "$a", parks=True)
    s.leave("c")
    s.sync("a", 3, {"a": "A"})
    s.heartbeat("c", 3)


@scenario()
def leave_with_a_parked_join(s: Script) -> None:
    """A leaver's parked join is answered (LG-10)."""
    s.settled("a", "b", "c")
    s.join("a", "$a", parks=True)
    s.join("b", "$b", parks=True)
    s.leave("b'", ("$b", None))
    s.leave("a'", ("$a", None))
    s.join("c", "$c")


# --- group.max.size -------------------------------------------------------------------------------------------------


@scenario(SMALL)
def size_when_stable(s: Script) -> None:
    """A full stable group takes nobody (JG-38, JG-40)."""
    s.settled("a", "b")
    s.join("c")
    s.join("c", v=3)
    s.join("c", instance="c")
    s.join("c", "nobody")
    s.join("b", "$b")
    s.heartbeat("a", 2)
    s.describe()


@scenario(SMALL)
def size_of_a_static_return(s: Script) -> None:
    """A static member that returns to a full group counts as new (JG-40)."""
    s.settled("a", "b", static=True)
    s.join("b", instance="b")
    s.heartbeat("b", 2, instance="b")


@scenario(SMALL)
def size_and_pending_ids(s: Script) -> None:
    """Ids given out do not count (JG-12)."""
    s.settled("a")
    s.join("b")
    s.join("c")
    s.join("d")
    s.join("b", "$b", parks=True)
    s.join("c", "$c", parks=True)
    s.join("d", "$d")
    s.describe()


@scenario(SMALL)
def size_when_completing(s: Script) -> None:
    """A full group that awaits its assignment takes nobody, and is not disturbed (JG-38)."""
    s.settled("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    s.sync("b", 3, parks=True)
    s.join("c")
    s.join("c", v=2)
    s.sync("a", 3, {"a": "A", "b": "B"})


# --- offsets --------------------------------------------------------------------------------------------------------


@scenario()
def commit_versions(s: Script) -> None:
    """Each version of OffsetCommit, from outside and from a member, read back in a version that shows it (OC-01)."""
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
    """Who may commit when (OC-01 … OC-08)."""
    where = {("t", 0): 1, ("u", 0): 2}
    s.commit("x", where, generation=5, member="x")
    s.commit("x", where, generation=5, member="x", v=8)
    s.commit("x", where)
    s.commit("x", where, generation=0)
    s.commit("x", where, member="x")
    s.commit("x", where, instance="i")
    s.describe()
    s.enter("a")
    s.commit("a", where, generation=1, member="$a")
    s.commit("a", where)
    s.commit("a", where, generation=-1, member="$a")
    s.commit("a", where, generation=-1, instance="i")
    s.sync("a", 1, {"a": "A"})
    s.commit("a", where)
    s.commit("a", where, generation=1)
    s.commit("a", where, generation=-1, member="$a")
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
    """Metadata that is too long spoils its own partition only; the limit counts characters (OC-09)."""
    s.ask(
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
    """Nothing to commit, a topic named twice, a partition named twice, the empty group id (OC-14)."""
    s.commit("a", {})
    s.describe()
    s.commit("a", {}, generation=3, member="x")
    twice = {"partition_index": 0, "committed_metadata": ""}
    s.ask(
        "a",
        "OffsetCommit",
        8,
        group_id=s.group,
        topics=[
            {"name": "t", "partitions": [twice | {"committed_offset": 1}, twice | {"committed_offset": 2}]},
            {"name": "u", "partitions": [twice | {"committed_offset": 3}]},
            {"name": "t", "partitions": [twice | {"committed_offset": 4, "partition_index": 1}]},
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
    """A commit with a retention of its own (OC-13)."""
    for v in (2, 3, 4):
        s.commit("a", {("t", v - 2): v}, v=v, retention_time_ms=3_600_000)
    s.fetch("a", None)


@scenario()
def fetch_versions(s: Script) -> None:
    """Each version of OffsetFetch: known and unknown partitions, everything, an unknown group (OF-01, OF-04)."""
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
    """Many groups in one request, each with what it asks for; ids of a member are not looked at (OF-02, OF-04)."""
    s.commit("a", {("t", 0): 5})
    s.commit("a", {("u", 0): 6}, group=s.group + "/2")
    groups: list[Fields] = [
        {"group_id": s.group, "topics": [{"name": "t", "partition_indexes": [0, 1]}]},
        {"group_id": s.group + "/2", "topics": None},
        {"group_id": s.group + "/never", "topics": [{"name": "u", "partition_indexes": [0]}]},
    ]
    s.ask("a", "OffsetFetch", 8, groups=groups)
    s.ask("a", "OffsetFetch", 8, groups=[])
    s.ask("a", "OffsetFetch", 9, groups=[groups[0] | {"member_id": "x", "member_epoch": 3}])
    s.settled("b")
    s.ask("b", "OffsetFetch", 9, groups=[groups[0] | {"member_id": "x", "member_epoch": 9}])


@scenario()
def delete_offsets(s: Script) -> None:
    """Offsets are deleted where nobody reads the topic, in every state (AD-05)."""
    s.delete_offsets(("t", 0))
    s.commit("x", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    s.delete_offsets(("t", 0), ("t", 2))
    s.fetch("x", None)
    s.settled("a")
    s.delete_offsets(("t", 1), ("u", 0), ("t", 2))
    s.fetch("x", None)
    s.join("b", v=0, protocols=offers("range", topics=("u",)), parks=True)
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
    """A live group that is no consumer group keeps its offsets (AD-05); unreadable subscriptions too (EX-09)."""
    s.commit("x", {("t", 0): 5}, group=s.group + "/connect")
    s.join("a", v=0, kind="connect", protocols=[{"name": "default", "metadata": ""}], group=s.group + "/connect")
    s.delete_offsets(("t", 0), group=s.group + "/connect")
    s.commit("x", {("t", 0): 5, ("u", 0): 5})
    s.join("b", v=0, protocols=[{"name": "range", "metadata": "?"}])
    s.delete_offsets(("t", 0))
    s.sync("b", 1, {"b": "B"})
    s.delete_offsets(("t", 0), ("u", 0))
    s.describe()


# --- administration -------------------------------------------------------------------------------------------------


@scenario()
def delete_groups(s: Script) -> None:
    """Groups are deleted when nobody is in them (AD-04)."""
    s.delete_groups()
    s.commit("x", {("t", 0): 5})
    s.delete_groups(v=0)
    s.fetch("x", None)
    s.describe()
    s.settled("a")
    s.delete_groups(v=1)
    s.join("b", v=0, parks=True)
    s.delete_groups()
    s.join("a", "$a")
    s.delete_groups()
    s.leave("a", ("$a", None), ("$b", None))
    s.commit("x", {("t", 0): 5}, group=s.group + "/2")
    s.delete_groups(s.group, s.group + "/never", s.group + "/2", s.group)
    s.list_groups()
    s.enter("a")


@scenario()
def describe_versions(s: Script) -> None:
    """Each version of DescribeGroups: a stable group, a simple one, one that never was, one named twice (AD-01)."""
    s.settled("a", "b", static=True)
    s.commit("x", {("t", 0): 5}, group=s.group + "/simple")
    for v in range(7):
        s.describe(s.group, s.group + "/never", s.group + "/simple", v=v)
    s.describe(s.group, s.group)
    s.ask("admin", "DescribeGroups", 5, groups=[])


@scenario()
def list_versions(s: Script) -> None:
    """Each version of ListGroups, and its filters (AD-03)."""
    s.settled("a")
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
    """A deleted group comes back as new (ST-03)."""
    s.settled("a")
    s.leave("a")
    s.delete_groups()
    s.heartbeat("a", 1)
    s.join("a", "$a")
    s.settled("a")


@scenario()
def fetch_odd_shapes(s: Script) -> None:
    """A topic named in two places, a partition named twice, a group named twice."""
    s.commit("a", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    t0: Fields = {"name": "t", "partition_indexes": [0, 0]}
    t1: Fields = {"name": "t", "partition_indexes": [1, 0]}
    u: Fields = {"name": "u", "partition_indexes": [0]}
    for v in (1, 5, 7):
        s.ask("a", "OffsetFetch", v, group_id=s.group, topics=[t0, u, t1])
        s.ask("a", "OffsetFetch", v, group_id=s.group + "/never", topics=[t0, u, t1])
    s.ask("a", "OffsetFetch", 9, groups=[{"group_id": s.group, "topics": [t0, u, t1]}])
    one: Fields = {"group_id": s.group, "topics": [t0]}
    s.ask("a", "OffsetFetch", 9, groups=[one, {"group_id": s.group + "/never", "topics": [u]}, one])


@scenario()
def commit_topics_repeated(s: Script) -> None:
    """What the answer looks like when a topic is named in two places, or has no partitions."""
    zero: Fields = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    one = zero | {"partition_index": 1}
    t0: Fields = {"name": "t", "partitions": [zero]}
    t1: Fields = {"name": "t", "partitions": [one]}
    u: Fields = {"name": "u", "partitions": [zero]}
    nothing: Fields = {"name": "t", "partitions": []}
    for v in (2, 8, 9):
        for topics in ([t0, u, t1], [nothing, u], [nothing]):
            s.ask("a", "OffsetCommit", v, group_id=s.group, topics=topics)
            s.ask("a", "OffsetCommit", v, group_id=s.group + "/x", topics=topics, generation_id_or_member_epoch=3)
    s.ask(
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
    """Topics and partitions that do not exist are refused, and come first; the others proceed (OC-10)."""
    zero: Fields = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    one, far, below = (zero | {"partition_index": index} for index in (1, 9, -1))
    t: Fields = {"name": "t", "partitions": [zero, far, one, below]}
    u: Fields = {"name": "u", "partitions": [zero]}
    z: Fields = {"name": "z", "partitions": [one, zero]}
    nothing: Fields = {"name": "z", "partitions": []}
    again: Fields = {"name": "t", "partitions": [zero | {"partition_index": 2}]}
    for v in (2, 8, 9):
        for topics in ([u, t, z], [u, u, z], [again, t, u, again, z, z], [z], [nothing], [nothing, u]):
            s.ask("a", "OffsetCommit", v, group_id=s.group, topics=topics)
        s.ask("a", "OffsetCommit", v, group_id=s.group + "/x", topics=[u, t], generation_id_or_member_epoch=3)
        s.ask("a", "OffsetCommit", v, group_id=s.group + "/x", topics=[z], generation_id_or_member_epoch=3)
    s.fetch("a", None)


@scenario()
def topics_by_id(s: Script) -> None:
    """OffsetCommit and OffsetFetch v10 name topics by id, in the answer too (OC-10)."""
    zero: Fields = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    t: Fields = {"topic_id": "@t", "partitions": [zero, zero | {"partition_index": 9}]}
    u: Fields = {"topic_id": "@u", "partitions": [zero]}
    gone: Fields = {"topic_id": "@gone", "partitions": [zero, zero]}
    for topics in ([u], [u, gone, t], [u, u, gone, t, gone], [gone], []):
        s.ask("a", "OffsetCommit", 10, group_id=s.group, topics=topics)
    s.ask("a", "OffsetCommit", 10, group_id=s.group + "/x", topics=[gone, u], generation_id_or_member_epoch=3)
    t = {"topic_id": "@t", "partition_indexes": [0, 9]}
    u = {"topic_id": "@u", "partition_indexes": [0]}
    gone = {"topic_id": "@gone", "partition_indexes": [1, 0]}
    for wanted in ([t], [gone, t, u, t], [gone, gone], [], None):
        groups: list[Fields] = [{"group_id": s.group, "topics": wanted}, {"group_id": s.group + "/x", "topics": wanted}]
        s.ask("a", "OffsetFetch", 10, groups=groups)


@scenario()
def fetch_without_partitions(s: Script) -> None:
    """A topic without partitions, one named twice in a row, one that does not exist."""
    s.commit("a", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    empty: Fields = {"name": "t", "partition_indexes": []}
    t0: Fields = {"name": "t", "partition_indexes": [0]}
    t1: Fields = {"name": "t", "partition_indexes": [1]}
    z: Fields = {"name": "z", "partition_indexes": [0]}
    for topics in ([empty], [empty, empty], [t0, t1], [t0, t0, empty, z], []):
        for v in (1, 2, 7):
            s.ask("a", "OffsetFetch", v, group_id=s.group, topics=topics)
        s.ask("a", "OffsetFetch", 9, groups=[{"group_id": s.group, "topics": topics}])


@scenario()
def delete_offsets_that_are_not_there(s: Script) -> None:
    """Topics and partitions that do not exist are refused, and come first; the others proceed (AD-05)."""
    s.commit("a", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    zero, one, far = ({"partition_index": index} for index in (0, 1, 9))
    t: Fields = {"name": "t", "partitions": [zero, far, one]}
    u: Fields = {"name": "u", "partitions": [zero]}
    z: Fields = {"name": "z", "partitions": [one, zero]}
    nothing: Fields = {"name": "u", "partitions": []}
    none: Fields = {"name": "z", "partitions": []}
    for topics in ([u, t, z], [nothing], [nothing, t], [none], [z, u, z, u], [z], []):
        s.ask("admin", "OffsetDelete", 0, group_id=s.group, topics=topics)
        s.ask("admin", "OffsetDelete", 0, group_id=s.group + "/never", topics=topics)
    s.fetch("a", None)


@scenario()
def authorized_operations(s: Script) -> None:
    """Without rights to check, everybody may do everything with a group (AD-02)."""
    s.commit("a", {("t", 0): 5})
    for v in range(3, 7):
        groups = [s.group, s.group + "/never"]
        s.ask("admin", "DescribeGroups", v, groups=groups, include_authorized_operations=True)


# --- where we differ on purpose -------------------------------------------------------------------------------------

_NEVER: Final = "Kafka never answers"
_NOT_ASKED: Final = -(2**31)  # authorized operations


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


def _listed(member: str, instance: str | None) -> Fields:
    return {"member_id": member, "group_instance_id": instance, "metadata": subscription("t")}


def _described(group: str, state: str, kind: str, members: list[Fields]) -> Fields:
    fields = {
        "error_code": 0,
        "error_message": None,
        "group_id": group,
        "group_state": state,
        "protocol_type": kind,
        "protocol_data": "",
        "members": members,
        "authorized_operations": _NOT_ASKED,
    }
    return {"groups": [fields]}


def _seen(member: str, instance: str | None, client_id: str, assignment: str) -> Fields:
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
    s.settled("a", "b")
    older = s.join("b", "$b", protocols=offers("range", topics=("u",)), parks=True)
    newer = s.join("b'", "$b", parks=True)
    s.join("a", "$a")
    s.heartbeat("b''", 3)
    s.differs(older, f"{_NEVER} the older join: REBALANCE_IN_PROGRESS", _join_error(27, "b-<2>"), newer)


@scenario()
def differs_superseded_sync(s: Script) -> None:
    """A member syncs again while its older sync is parked."""
    s.settled("a", "b")
    s.join("a", "$a", parks=True)
    s.join("b", "$b")
    older = s.sync("b", 3, parks=True)
    newer = s.sync("b'", 3, parks=True)
    s.sync("a", 3, {"a": "A", "b": "B"})
    s.differs(older, f"{_NEVER} the older sync: REBALANCE_IN_PROGRESS", _sync_error(27), newer)


@scenario()
def differs_leaver_with_a_parked_sync(s: Script) -> None:
    """A member leaves while its own sync is parked."""
    s.settled("a", "b", "c")
    s.join("a", "$a", parks=True)
    s.join("b", "$b", parks=True)
    s.join("c", "$c")
    waiting = s.sync("b", 3, parks=True)
    s.sync("c", 3, parks=True)
    leaving = s.leave("b'", ("$b", None))
    s.join("a", "$a", parks=True)
    s.join("c", "$c")
    s.differs(waiting, f"{_NEVER} the leaver's sync: UNKNOWN_MEMBER_ID", _sync_error(25), leaving)


@scenario(SMALL)
def differs_refused_for_size_while_preparing(s: Script) -> None:
    """A newcomer takes the last place before a member is back: that one is refused, and gone."""
    s.settled("a", "d", rebalance=600)
    first = s.join("a", "$a", rebalance=600, parks=True)
    second = s.join("b", instance="b", rebalance=2000, parks=True)
    refused = s.join("d", "$d", rebalance=600)
    looked = s.describe()
    s.heartbeat("d", 2)
    s.pause(550)
    s.describe()
    why = "in Kafka the join phase runs to its timer; it waits for nobody any more"
    joined = {"generation_id": 3, "protocol_type": "consumer", "protocol_name": "range", "leader": "a-<1>"}
    members = [_listed("a-<1>", None), _listed("b-<3>", "b")]
    s.differs(first, why, _join_error(0, "a-<1>") | joined | {"members": members}, refused)
    s.differs(second, why, _join_error(0, "b-<3>") | joined, refused)
    described = [_seen("a-<1>", None, "a", "A"), _seen("b-<3>", "b", "b", "")]
    s.differs(looked, why, _described(s.group, "CompletingRebalance", "consumer", described))


@scenario()
def differs_refused_first_join(s: Script) -> None:
    """A first join that is refused leaves an empty group behind."""
    s.join("a", kind="")
    looked = s.describe()
    listed = s.list_groups()
    why = "Kafka keeps an empty group"
    s.differs(looked, why, _not_found(s.group))
    s.differs(listed, why, {"error_code": 0, "groups": []})


@scenario()
def differs_protocol_named_twice(s: Script) -> None:
    """A member names one protocol twice."""
    joined = s.join("a", protocols=offers("range", "range"), instance="a", parks=True)
    looked = s.describe()
    why = "in Kafka the join phase throws, and the group hangs: INCONSISTENT_GROUP_PROTOCOL"
    s.differs(joined, why, _join_error(23, ""))
    s.differs(looked, why, _not_found(s.group))


@scenario()
def differs_overlong_subscription(s: Script) -> None:
    """A subscription announces more topics than there are bytes."""
    protocols = [{"name": "range", "metadata": "\0\0\0\x0f\x42\x40\0\x01t"}]
    joined = s.join("a", protocols=protocols, instance="a", parks=True)
    looked = s.describe()
    why = "in Kafka the join phase throws, and the group hangs: INVALID_REQUEST"
    s.differs(joined, why, _join_error(42, ""))
    s.differs(looked, why, _not_found(s.group))


@scenario()
def differs_refused_first_commit(s: Script) -> None:
    """A first commit of which nothing can be stored leaves an empty group behind."""
    s.commit("a", {("t", 0): 1}, metadata="123456789", v=8)
    in_it = s.commit("a", {("t", 0): 1}, generation=0, v=8)
    deleted = s.delete_groups()
    why = "Kafka keeps an empty group, which the next writes see"
    s.differs(in_it, f"{why}: ILLEGAL_GENERATION, as in any absent group", _committed("t", 0, 22))
    s.differs(deleted, why, {"results": [{"group_id": s.group, "error_code": 69}]})


@scenario(DELAYED)
def sync_during_the_initial_delay(s: Script) -> None:
    """Nothing is chosen yet, so no protocol is wrong (SG-03, SG-04)."""
    s.join("a", instance="a", parks=True)
    s.pause(700)
    s.sync("a", 1, {"a": "A"}, instance="a")
    s.leave("a", ("$a", "a"))
    s.enter("b", parks=True)
    s.sync("b'", 2)
    s.sync("b'", 2, protocol="other")
    s.sync("b'", 2, kind="connect")
    s.sync("b'", 2, v=4)
    s.sync("b'", 1)
    s.pause(450)


@scenario()
def client_id_of_a_member(s: Script) -> None:
    """A member is shown with the client id it first joined under, whoever joins in its name (AD-02)."""
    s.settled("a", "b", static=True)
    s.join("x", instance="b")
    s.join("y", "$a", instance="a", parks=True)
    s.describe()
