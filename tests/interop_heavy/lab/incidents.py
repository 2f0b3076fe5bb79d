"""The incidents: each plays one on a stage, and labels what it did.

Rules kept here
- A group is stable before anything is done to it, and a storm lasts until the broker's log has told of it several
  times.
- What is injected is what happens to real services: slow handlers, frozen and killed processes, deploys, scaling,
  changed topics, wrong settings, restarted brokers. Numbers are drawn from the stage's own random numbers.
- Every incident may have a healthy group beside it.
"""

import time
from collections.abc import Callable
from typing import Any

from tests.interop_heavy.lab.environment import Member, Service, Stage

Play = Callable[..., None]
TIMES = 3
"""How often a storm's fault comes back before it is enough."""


def service(stage: Stage, library: str, partitions: int = 6, **settings: Any) -> Service:
    """A service with a topic of its own."""
    stage.library = library
    topics = settings.pop("topics", None) or [stage.topic(partitions)]
    one = Service(library, f"{stage.word()}.{stage.word()}", topics, **settings)
    stage.parameters = {"library": library, "partitions": partitions, **settings}
    return one


def crew(
    stage: Stage, one: Service, members: int, static: bool = False, stagger: float = 0.0, settle: bool = True
) -> list[Member]:
    """The members of a service, stable."""
    found = [stage.member(one, f"{stage.word()}-{number}" if static else None) for number in range(members)]
    stage.note("started", *(member.name for member in found))
    for member in found:
        member.start()
        time.sleep(stagger)
    stage.wait_stable(one.group, members)
    if settle:
        time.sleep(stage.rng.uniform(4, 6))
        stage.wait_stable(one.group, members)
    stage.parameters["members"] = members
    return found


def beside(stage: Stage, members: int = 2) -> None:
    """A healthy group."""
    one = Service("confluent-kafka", stage.word(), [stage.topic(4)])
    for _ in range(members):
        stage.member(one).start()
    stage.label(one.group, "healthy")


def name_of(member: Member) -> str:
    """What a culprit is called."""
    return member.instance or member.name


def removals(stage: Stage, one: Service) -> int:
    """How many members the broker has seen leave or expire."""
    return stage.count(
        rf"[Mm]ember \S+ .*has left group|in group {one.group} has left|Member \S+ in group {one.group} has failed"
        rf"|\[GroupId {one.group}\] Member \S+ (?:left the consumer group|fenced from the group)"
    )


def healthy(stage: Stage, library: str, members: int = 3, **settings: Any) -> None:
    """Nothing happens."""
    one = service(stage, library, **settings)
    crew(stage, one, members)
    stage.label(one.group, "healthy")
    time.sleep(stage.rng.uniform(8, 14))


def poll_delay(
    stage: Stage,
    library: str,
    members: int = 3,
    slow: int = 1,
    times: int = TIMES,
    static: bool = False,
    **settings: Any,
) -> None:
    """Some members take longer than they may, from now on or once."""
    interval = settings.setdefault("interval", stage.rng.choice((4000, 6000, 7000)))
    assert isinstance(interval, int)
    settings.setdefault("session", min(interval, 6000))
    kip848 = settings.get("protocol") == "consumer"
    one = service(stage, library, **settings)
    found = crew(stage, one, members, static)
    culprits = stage.rng.sample(found, slow)
    seconds = interval / 1000 * stage.rng.uniform(1.3, 1.8)
    before = stage.generations(one.group)
    for member in culprits:
        member.tell(f"{'once' if times == 1 else 'delay'} {seconds:.2f}")
    stage.note(f"a batch takes {seconds:.2f} s", *(member.name for member in culprits))
    cause = "kip848_poll_delay" if kip848 else "poll_delay"
    stage.label(one.group, cause, [name_of(member) for member in culprits], storm=times > 1)
    wanted = before + (2 * times - 1 if slow == 1 else times)
    if static:
        time.sleep(2 * times * seconds)  # it may be back in its place before anybody notices
    else:
        stage.wait("its kicks", lambda: stage.generations(one.group) >= wanted)
        time.sleep(stage.rng.uniform(seconds, seconds + 3))
    if times == 1:
        stage.wait_stable(one.group, members)


def cascade(stage: Stage, library: str, members: int = 3, **settings: Any) -> None:
    """One member is slow; what it leaves makes the others slow a while later."""
    interval = settings.setdefault("interval", 5000)
    assert isinstance(interval, int)
    settings.setdefault("session", min(interval, 6000))
    one = service(stage, library, **settings)
    first, *others = crew(stage, one, members)
    time.sleep(interval / 1000 + 2)
    before = stage.generations(one.group)
    first.tell(f"delay {interval / 1000 * 1.6:.2f}")
    stage.note("slow", first.name)
    stage.wait("the first kick", lambda: stage.generations(one.group) > before)
    time.sleep(1)
    for member in others[:1]:
        member.tell(f"delay {interval / 1000 * 1.4:.2f}")
        stage.note("overloaded", member.name)
    stage.label(one.group, "poll_delay", [first.name], storm=True, secondary=[m.name for m in others[:1]])
    time.sleep(interval / 1000 * 6)


def session_expiry(
    stage: Stage, library: str, members: int = 3, frozen: int = 1, times: int = TIMES, **settings: Any
) -> None:
    """Processes are held still for longer than their session."""
    one = service(stage, library, **settings)
    found = crew(stage, one, members)
    culprits = stage.rng.sample(found, frozen)
    for _ in range(times):
        for member in culprits:
            stage.note("frozen", member.name)
            member.freeze(one.session / 1000 * stage.rng.uniform(1.3, 1.7))
        stage.wait_stable(one.group, members)
        time.sleep(stage.rng.uniform(1, 4))
    cause = "kip848_session_expiry" if one.protocol == "consumer" else "session_expiry"
    stage.label(one.group, cause, [name_of(member) for member in culprits], storm=times > 1)


def crash(stage: Stage, library: str, members: int = 3, back_after: float | None = None, **settings: Any) -> None:
    """A process is killed, and stays away (or comes back once)."""
    one = service(stage, library, **settings)
    found = crew(stage, one, members)
    victim = stage.rng.choice(found)
    stage.note("killed", victim.name)
    victim.kill()
    if back_after is not None:
        time.sleep(back_after)
        victim.start()
        time.sleep(one.session / 1000 + 2)
        stage.wait_stable(one.group, members)
    else:
        stage.wait_stable(one.group, members - 1)
    time.sleep(3)
    stage.label(one.group, "crash", [name_of(victim)])


def crash_loop(
    stage: Stage,
    library: str,
    members: int = 3,
    how: str = "exit",
    times: int = 4,
    static: bool = False,
    **settings: Any,
) -> None:
    """A process dies soon after each start, and is started again."""
    one = service(stage, library, **settings)
    found = crew(stage, one, members, static)
    victim = stage.rng.choice(found)
    backoff = stage.rng.uniform(1.0, 4.0)
    for _ in range(times):
        time.sleep(stage.rng.uniform(1, 3))
        stage.note(how, victim.name)
        victim.tell(how)
        stage.wait("its death", victim.ended)
        victim.reap()
        time.sleep(backoff)
        before = stage.generations(one.group)
        victim.start()
        if static:
            time.sleep(stage.rng.uniform(5, 8))
        else:
            stage.wait("its return", lambda: stage.generations(one.group) > before)  # noqa: B023
    time.sleep(3)
    stage.label(one.group, "crash_loop", [name_of(victim)], storm=True)


def rolling(
    stage: Stage,
    library: str,
    members: int = 3,
    static: bool = False,
    down: float = 1.0,
    gap: float = 4.0,
    **settings: Any,
) -> None:
    """Every member is closed and started again, one after another."""
    one = service(stage, library, **settings)
    found = crew(stage, one, members, static)
    for member in found:
        member.stop()
        stage.note("stopped", member.name)
        time.sleep(down)
        member.start()
        stage.note("started again", member.name)
        time.sleep(gap)
    late = static and down * 1000 > one.session
    cause = "static_restart_too_late" if late else "static_restart_in_time" if static else "rolling_restart"
    if one.protocol == "consumer" and not static:
        cause = "kip848_rolling_restart"
    stage.wait_stable(one.group, members)
    time.sleep(2)
    stage.label(one.group, cause, [name_of(member) for member in found])


def turnover(stage: Stage, library: str, members: int = 3, **settings: Any) -> None:
    """Every member is closed, and another one takes its place under a name of its own."""
    one = service(stage, library, **settings)
    found = crew(stage, one, members)
    for member in found:
        member.stop()
        stage.note("stopped", member.name)
        time.sleep(1)
        stage.note("started", stage.member(one).start().name)
        time.sleep(stage.rng.uniform(3, 5))
    stage.wait_stable(one.group, members)
    time.sleep(3)
    stage.label(one.group, "rolling_restart", [member.name for member in found])


def scaling(stage: Stage, library: str, members: int = 3, out: int = 0, down: int = 0, **settings: Any) -> None:
    """Members are added, or taken away."""
    one = service(stage, library, **settings)
    found = crew(stage, one, members)
    if out:
        new = [stage.member(one) for _ in range(out)]
        for member in new:
            member.start()
            stage.note("added", member.name)
            time.sleep(stage.rng.uniform(0.5, 4))
        stage.wait_stable(one.group, members + out)
        stage.label(one.group, "scale_out", [member.name for member in new])
    if down:
        gone = stage.rng.sample(found, down)
        for member in gone:
            member.stop()
            stage.note("taken away", member.name)
            time.sleep(stage.rng.uniform(0.5, 3))
        stage.wait_stable(one.group, members - down)
        stage.label(one.group, "scale_in", [member.name for member in gone])
    time.sleep(4)


def flapping(stage: Stage, library: str, members: int = 3, delta: int = 2, times: int = 3, **settings: Any) -> None:
    """Members are added and taken away again, and again; with `fresh` under other names each time."""
    fresh = bool(settings.pop("fresh", False))
    one = service(stage, library, **settings)
    crew(stage, one, members)
    names: list[str] = []
    new = [stage.member(one) for _ in range(delta)]
    for _ in range(times):
        if fresh:
            new = [stage.member(one) for _ in range(delta)]
        for member in new:
            member.start()
        names += [member.name for member in new if member.name not in names]
        stage.note("added", *(member.name for member in new))
        stage.wait_stable(one.group, members + delta)
        time.sleep(stage.rng.uniform(2, 5))
        for member in new:
            member.stop()
        stage.note("taken away", *(member.name for member in new))
        stage.wait_stable(one.group, members)
        time.sleep(stage.rng.uniform(2, 5))
    stage.label(one.group, "autoscaler_flapping", names, storm=True)


def subscription(stage: Stage, library: str, members: int = 3, **settings: Any) -> None:
    """A member subscribes to another topic beside its own."""
    one = service(stage, library, **settings)
    other = stage.topic(3)
    found = crew(stage, one, members)
    changed = stage.rng.choice(found)
    before = stage.generations(one.group)
    changed.tell(f"subscribe {one.topics[0]},{other}")
    stage.note("subscribes to another topic", changed.name)
    stage.wait("its rejoin", lambda: stage.generations(one.group) > before)
    time.sleep(5)
    stage.label(one.group, "subscription_change", [changed.name])


def metadata(stage: Stage, library: str, change: str, members: int = 3, **settings: Any) -> None:
    """What a group reads changes."""
    prefix = stage.word()
    regex = f"^{prefix}_.*"
    topics = [stage.topic(4, f"{prefix}_{stage.word()}"), stage.topic(3, f"{prefix}_{stage.word()}")]
    one = service(stage, library, topics=topics, pattern=None if change == "grew" else regex, **settings)
    crew(stage, one, members)
    before = stage.generations(one.group)
    match change:
        case "grew":
            stage.grow(topics[0], 9)
            cause, culprit = "partitions_added", topics[0]
        case "created":
            culprit = stage.topic(2, f"{prefix}_{stage.word()}")
            cause = "new_topic_matched"
        case _:
            stage.delete(topics[1])
            cause, culprit = "topic_deleted", topics[1]
    stage.note(change, culprit)
    if change == "deleted":
        time.sleep(12)  # some clients try to commit what they read of it for as long as they may, before they rejoin
    else:
        stage.wait("the leader's rejoin", lambda: stage.generations(one.group) > before)
        time.sleep(6)
    stage.label(one.group, cause, [culprit])


def conflict(stage: Stage, library: str, members: int = 3, **settings: Any) -> None:
    """Two processes with one instance id; each that dies of it is started again."""
    one = service(stage, library, **settings)
    found = crew(stage, one, members, static=True)
    first = stage.rng.choice(found)
    second = stage.member(one, first.instance).start()
    stage.note("a second process with the same instance id", second.name)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for member in (first, second):
            if member.ended():
                member.reap()
                time.sleep(2)
                member.start()
                stage.note("started again", member.name)
        time.sleep(0.5)
    assert first.instance is not None
    stage.label(one.group, "instance_id_conflict", [first.instance, first.name, second.name], storm=True)


def inconsistent(
    stage: Stage, library: str, members: int = 3, theirs: str = "roundrobin", newcomer: str = "", **settings: Any
) -> None:
    """A newcomer that shares no assignor with the group; it is started again a few times."""
    settings.setdefault("assignor", "range")
    one = service(stage, library, **settings)
    crew(stage, one, members)
    other = Service(newcomer or library, one.group, one.topics, session=one.session, assignor=theirs, debug=one.debug)
    refused = stage.member(other).start()
    stage.note("joins with another assignor", refused.name)
    for _ in range(3):
        time.sleep(4)
        if refused.ended():
            refused.reap()
            refused.start()
    stage.label(one.group, "inconsistent_protocol", [refused.name])


def migration(stage: Stage, library: str, members: int = 3, **settings: Any) -> None:
    """Two deploys from an eager assignor to the cooperative one."""
    one = service(stage, library, assignor="range", **settings)
    found = crew(stage, one, members)
    for assignor in ("cooperative-sticky,range", "cooperative-sticky"):
        one.assignor = assignor
        for member in found:
            member.stop()
            time.sleep(1)
            member.start()
            stage.note(f"started again with {assignor}", member.name)
            time.sleep(4)
        stage.wait_stable(one.group, members)
        time.sleep(2)
    stage.label(one.group, "assignor_migration", [member.name for member in found])


def coordinator(
    stage: Stage,
    library: str,
    members: int = 3,
    clean: bool = True,
    down: float = 2.0,
    times: int = 1,
    **settings: Any,
) -> None:
    """The broker goes away and comes back."""
    one = service(stage, library, **settings)
    crew(stage, one, members)
    for _ in range(times):
        if clean:
            stage.broker.stop()
        else:
            stage.broker.node.kill()
        stage.note("broker stopped")
        time.sleep(down)
        stage.broker.start()
        stage.note("broker is up")
        time.sleep(2.5 * one.session / 1000 + 8)
    for group in (one.group, *stage.groups):
        stage.label(group, "coordinator_restart", ["broker 1"])


def herd(stage: Stage, library: str, members: int = 8, stagger: float = 0.6, **settings: Any) -> None:
    """Many members that start one after another."""
    settings.setdefault("partitions", 2 * members)
    one = service(stage, library, **settings)
    found = crew(stage, one, members, stagger=stagger)
    stage.label(one.group, "startup_herd", [member.name for member in found])
    time.sleep(5)


def shared(
    stage: Stage, library: str, members: int = 2, mode: str = "slow", theirs_in: str = "", **settings: Any
) -> None:
    """Two services with one group id: one of them is slow, or is deployed."""
    settings.setdefault("interval", 6000)
    settings.setdefault("session", 6000)
    one = service(stage, library, **settings)
    other = Service(
        theirs_in or library,
        one.group,
        [stage.topic(4)],
        session=one.session,
        interval=one.interval,
        assignor=one.assignor,
    )
    mine = [stage.member(one) for _ in range(members)]
    theirs = [stage.member(other) for _ in range(members)]
    for member in (*mine, *theirs):
        member.start()
    stage.wait_stable(one.group, 2 * members)
    time.sleep(5)
    if mode == "slow":
        theirs[0].tell(f"delay {one.interval / 1000 * 1.5}")
        before = stage.generations(one.group)
        stage.wait("its kicks", lambda: stage.generations(one.group) >= before + 5)
        culprits = [theirs[0].name]
    else:
        for member in (*theirs, *theirs):
            member.stop()
            time.sleep(1)
            member.start()
            time.sleep(3)
        culprits = [member.name for member in theirs]
    stage.wait_stable(one.group, 2 * members) if mode != "slow" else None
    stage.label(one.group, "shared_group_id", culprits, storm=mode == "slow")


def stuck(stage: Stage, library: str, members: int = 3, **settings: Any) -> None:
    """A member is so slow that a round waits for it for as long as it may, while another one comes."""
    one = service(stage, library, interval=150_000, session=6000, **settings)
    found = crew(stage, one, members)
    slow = stage.rng.choice(found)
    slow.tell("once 140")
    time.sleep(2)
    stage.member(one).start()
    stage.note("one comes while another one does not poll", slow.name)
    time.sleep(75)
    stage.label(one.group, "stuck_rebalance", [slow.name])


KINDS: dict[str, Play] = {
    "healthy": healthy,
    "poll_delay": poll_delay,
    "cascade": cascade,
    "session_expiry": session_expiry,
    "crash": crash,
    "crash_loop": crash_loop,
    "rolling": rolling,
    "scaling": scaling,
    "turnover": turnover,
    "flapping": flapping,
    "subscription": subscription,
    "metadata": metadata,
    "conflict": conflict,
    "inconsistent": inconsistent,
    "migration": migration,
    "coordinator": coordinator,
    "herd": herd,
    "shared": shared,
    "stuck": stuck,
}
