"""The incidents: each function injects service fault into a run and labels the group.

Invariants:
- A group is stable before a fault is injected. A storm lasts until the broker's log contains it several times.
- The faults are those of real services: slow handlers, frozen and killed processes, deploys, scaling, changed topics,
  wrong settings, restarted brokers. Numbers come from the run's own random generator.
- A healthy group may run next to every incident.
"""

import time
from collections.abc import Callable
from typing import Any

from tests.interop_heavy.lab.environment import IncidentRun, Member, Service

Inject = Callable[..., None]
TIMES = 3
"""How often a fault is repeated to make a storm."""


def make_service(run: IncidentRun, library: str, partitions: int = 6, **settings: Any) -> Service:
    """A service with its own topic."""
    run.library = library
    topics = settings.pop("topics", None) or [run.topic(partitions)]
    service = Service(library, f"{run.random_name()}.{run.random_name()}", topics, **settings)
    run.parameters = {"library": library, "partitions": partitions, **settings}
    return service


def start_members(
    run: IncidentRun, service: Service, members: int, static: bool = False, stagger: float = 0.0, settle: bool = True
) -> list[Member]:
    """Start the members of a service and wait until the group is stable."""
    started = [run.member(service, f"{run.random_name()}-{number}" if static else None) for number in range(members)]
    run.note("started", *(member.name for member in started))
    for member in started:
        member.start()
        time.sleep(stagger)
    run.wait_stable(service.group, members)
    if settle:
        time.sleep(run.rng.uniform(4, 6))
        run.wait_stable(service.group, members)
    run.parameters["members"] = members
    return started


def add_healthy_group(run: IncidentRun, members: int = 2) -> None:
    """Start a healthy group."""
    service = Service("confluent-kafka", run.random_name(), [run.topic(4)])
    for _ in range(members):
        run.member(service).start()
    run.label(service.group, "healthy")


def label_name(member: Member) -> str:
    """The name of a member in a label."""
    return member.instance or member.name


def healthy(run: IncidentRun, library: str, members: int = 3, **settings: Any) -> None:
    """No fault."""
    service = make_service(run, library, **settings)
    start_members(run, service, members)
    run.label(service.group, "healthy")
    time.sleep(run.rng.uniform(8, 14))


def poll_delay(
    run: IncidentRun,
    library: str,
    members: int = 3,
    slow: int = 1,
    times: int = TIMES,
    static: bool = False,
    **settings: Any,
) -> None:
    """Some members exceed max.poll.interval.ms, from now on or once."""
    interval = settings.setdefault("interval", run.rng.choice((4000, 6000, 7000)))
    assert isinstance(interval, int)
    settings.setdefault("session", min(interval, 6000))
    kip848 = settings.get("protocol") == "consumer"
    service = make_service(run, library, **settings)
    started = start_members(run, service, members, static)
    culprits = run.rng.sample(started, slow)
    seconds = interval / 1000 * run.rng.uniform(1.3, 1.8)
    before = run.generations(service.group)
    for member in culprits:
        member.send(f"{'once' if times == 1 else 'delay'} {seconds:.2f}")
    run.note(f"a batch takes {seconds:.2f} s", *(member.name for member in culprits))
    cause = "kip848_poll_delay" if kip848 else "poll_delay"
    run.label(service.group, cause, [label_name(member) for member in culprits], storm=times > 1)
    expected = before + (2 * times - 1 if slow == 1 else times)
    if static:
        time.sleep(2 * times * seconds)  # a static member may return before the broker notices its absence
    else:
        run.wait("removals of the slow member", lambda: run.generations(service.group) >= expected)
        time.sleep(run.rng.uniform(seconds, seconds + 3))
    if times == 1:
        run.wait_stable(service.group, members)


def cascade(run: IncidentRun, library: str, members: int = 3, **settings: Any) -> None:
    """One member is slow; its partitions make the other members slow later."""
    interval = settings.setdefault("interval", 5000)
    assert isinstance(interval, int)
    settings.setdefault("session", min(interval, 6000))
    service = make_service(run, library, **settings)
    first, *others = start_members(run, service, members)
    time.sleep(interval / 1000 + 2)
    before = run.generations(service.group)
    first.send(f"delay {interval / 1000 * 1.6:.2f}")
    run.note("slow", first.name)
    run.wait("the first removal", lambda: run.generations(service.group) > before)
    time.sleep(1)
    for member in others[:1]:
        member.send(f"delay {interval / 1000 * 1.4:.2f}")
        run.note("overloaded", member.name)
    run.label(service.group, "poll_delay", [first.name], storm=True, secondary=[member.name for member in others[:1]])
    time.sleep(interval / 1000 * 6)


def session_expiry(
    run: IncidentRun, library: str, members: int = 3, frozen: int = 1, times: int = TIMES, **settings: Any
) -> None:
    """Processes are frozen for longer than their session timeout."""
    service = make_service(run, library, **settings)
    started = start_members(run, service, members)
    culprits = run.rng.sample(started, frozen)
    for _ in range(times):
        for member in culprits:
            run.note("frozen", member.name)
            member.freeze(service.session / 1000 * run.rng.uniform(1.3, 1.7))
        run.wait_stable(service.group, members)
        time.sleep(run.rng.uniform(1, 4))
    cause = "kip848_session_expiry" if service.protocol == "consumer" else "session_expiry"
    run.label(service.group, cause, [label_name(member) for member in culprits], storm=times > 1)


def crash(run: IncidentRun, library: str, members: int = 3, back_after: float | None = None, **settings: Any) -> None:
    """A process is killed and does not return, or returns once."""
    service = make_service(run, library, **settings)
    started = start_members(run, service, members)
    victim = run.rng.choice(started)
    run.note("killed", victim.name)
    victim.kill()
    if back_after is not None:
        time.sleep(back_after)
        victim.start()
        time.sleep(service.session / 1000 + 2)
        run.wait_stable(service.group, members)
    else:
        run.wait_stable(service.group, members - 1)
    time.sleep(3)
    run.label(service.group, "crash", [label_name(victim)])


def crash_loop(
    run: IncidentRun,
    library: str,
    members: int = 3,
    how: str = "exit",
    times: int = 4,
    static: bool = False,
    **settings: Any,
) -> None:
    """A process dies soon after each start and is started again."""
    service = make_service(run, library, **settings)
    started = start_members(run, service, members, static)
    victim = run.rng.choice(started)
    backoff = run.rng.uniform(1.0, 4.0)
    for _ in range(times):
        time.sleep(run.rng.uniform(1, 3))
        run.note(how, victim.name)
        victim.send(how)
        run.wait("the process's end", victim.has_ended)
        victim.reap()
        time.sleep(backoff)
        before = run.generations(service.group)
        victim.start()
        if static:
            time.sleep(run.rng.uniform(5, 8))
        else:
            # On a slow machine the old member may expire, and form a generation, before the new one joins.
            run.wait(
                "the restarted member",
                lambda: run.generations(service.group) > before and run.is_stable(service.group, members),  # noqa: B023
            )
    time.sleep(3)
    run.label(service.group, "crash_loop", [label_name(victim)], storm=True)


def rolling(
    run: IncidentRun,
    library: str,
    members: int = 3,
    static: bool = False,
    down: float = 1.0,
    gap: float = 4.0,
    **settings: Any,
) -> None:
    """Every member is stopped and started again, one after another."""
    service = make_service(run, library, **settings)
    started = start_members(run, service, members, static)
    for member in started:
        member.stop()
        run.note("stopped", member.name)
        time.sleep(down)
        member.start()
        run.note("started again", member.name)
        time.sleep(gap)
    late = static and down * 1000 > service.session
    cause = "static_restart_too_late" if late else "static_restart_in_time" if static else "rolling_restart"
    if service.protocol == "consumer" and not static:
        cause = "kip848_rolling_restart"
    run.wait_stable(service.group, members)
    time.sleep(2)
    run.label(service.group, cause, [label_name(member) for member in started])


def turnover(run: IncidentRun, library: str, members: int = 3, **settings: Any) -> None:
    """Every member is stopped, and a member with another name replaces it."""
    service = make_service(run, library, **settings)
    started = start_members(run, service, members)
    for member in started:
        member.stop()
        run.note("stopped", member.name)
        time.sleep(1)
        run.note("started", run.member(service).start().name)
        time.sleep(run.rng.uniform(3, 5))
    run.wait_stable(service.group, members)
    time.sleep(3)
    run.label(service.group, "rolling_restart", [member.name for member in started])


def scaling(run: IncidentRun, library: str, members: int = 3, out: int = 0, down: int = 0, **settings: Any) -> None:
    """Members are added or removed."""
    service = make_service(run, library, **settings)
    started = start_members(run, service, members)
    if out:
        new = [run.member(service) for _ in range(out)]
        for member in new:
            member.start()
            run.note("added", member.name)
            time.sleep(run.rng.uniform(0.5, 4))
        run.wait_stable(service.group, members + out)
        run.label(service.group, "scale_out", [member.name for member in new])
    if down:
        removed = run.rng.sample(started, down)
        for member in removed:
            member.stop()
            run.note("removed", member.name)
            time.sleep(run.rng.uniform(0.5, 3))
        run.wait_stable(service.group, members - down)
        run.label(service.group, "scale_in", [member.name for member in removed])
    time.sleep(4)


def flapping(run: IncidentRun, library: str, members: int = 3, delta: int = 2, times: int = 3, **settings: Any) -> None:
    """Members are added and removed repeatedly; with `fresh` under other names each time."""
    fresh = bool(settings.pop("fresh", False))
    service = make_service(run, library, **settings)
    start_members(run, service, members)
    names: list[str] = []
    new = [run.member(service) for _ in range(delta)]
    for _ in range(times):
        if fresh:
            new = [run.member(service) for _ in range(delta)]
        for member in new:
            member.start()
        names += [member.name for member in new if member.name not in names]
        run.note("added", *(member.name for member in new))
        run.wait_stable(service.group, members + delta)
        time.sleep(run.rng.uniform(2, 5))
        for member in new:
            member.stop()
        run.note("removed", *(member.name for member in new))
        run.wait_stable(service.group, members)
        time.sleep(run.rng.uniform(2, 5))
    run.label(service.group, "autoscaler_flapping", names, storm=True)


def subscription(run: IncidentRun, library: str, members: int = 3, **settings: Any) -> None:
    """A member subscribes to an additional topic."""
    service = make_service(run, library, **settings)
    other = run.topic(3)
    started = start_members(run, service, members)
    changed = run.rng.choice(started)
    before = run.generations(service.group)
    changed.send(f"subscribe {service.topics[0]},{other}")
    run.note("subscribes to another topic", changed.name)
    run.wait("its rejoin", lambda: run.generations(service.group) > before)
    time.sleep(5)
    run.label(service.group, "subscription_change", [changed.name])


def metadata(run: IncidentRun, library: str, change: str, members: int = 3, **settings: Any) -> None:
    """The group's topics change."""
    prefix = run.random_name()
    regex = f"^{prefix}_.*"
    topics = [run.topic(4, f"{prefix}_{run.random_name()}"), run.topic(3, f"{prefix}_{run.random_name()}")]
    pattern = None if change == "grew" else regex
    service = make_service(run, library, topics=topics, pattern=pattern, **settings)
    start_members(run, service, members)
    before = run.generations(service.group)
    match change:
        case "grew":
            run.grow(topics[0], 9)
            cause, culprit = "partitions_added", topics[0]
        case "created":
            culprit = run.topic(2, f"{prefix}_{run.random_name()}")
            cause = "new_topic_matched"
        case _:
            run.delete(topics[1])
            cause, culprit = "topic_deleted", topics[1]
    run.note(change, culprit)
    if change == "deleted":
        time.sleep(12)  # some clients retry commits for the deleted topic until their timeout before they rejoin
    else:
        run.wait("the leader's rejoin", lambda: run.generations(service.group) > before)
        time.sleep(6)
    run.label(service.group, cause, [culprit])


def conflict(run: IncidentRun, library: str, members: int = 3, **settings: Any) -> None:
    """Two processes have the same instance id; each one that dies is started again."""
    service = make_service(run, library, **settings)
    started = start_members(run, service, members, static=True)
    first = run.rng.choice(started)
    second = run.member(service, first.instance).start()
    run.note("a second process with the same instance id", second.name)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for member in (first, second):
            if member.has_ended():
                member.reap()
                time.sleep(2)
                member.start()
                run.note("started again", member.name)
        time.sleep(0.5)
    assert first.instance is not None
    run.label(service.group, "instance_id_conflict", [first.instance, first.name, second.name], storm=True)


def inconsistent(
    run: IncidentRun, library: str, members: int = 3, theirs: str = "roundrobin", newcomer: str = "", **settings: Any
) -> None:
    """A new member shares no assignor with the group; it is started again a few times."""
    settings.setdefault("assignor", "range")
    service = make_service(run, library, **settings)
    start_members(run, service, members)
    other = Service(
        newcomer or library,
        service.group,
        service.topics,
        session=service.session,
        assignor=theirs,
        debug=service.debug,
    )
    rejected = run.member(other).start()
    run.note("joins with another assignor", rejected.name)
    for _ in range(3):
        time.sleep(4)
        if rejected.has_ended():
            rejected.reap()
            rejected.start()
    run.label(service.group, "inconsistent_protocol", [rejected.name])


def migration(run: IncidentRun, library: str, members: int = 3, **settings: Any) -> None:
    """Two deploys migrate from an eager assignor to the cooperative one."""
    service = make_service(run, library, assignor="range", **settings)
    started = start_members(run, service, members)
    for assignor in ("cooperative-sticky,range", "cooperative-sticky"):
        service.assignor = assignor
        for member in started:
            member.stop()
            time.sleep(1)
            member.start()
            run.note(f"started again with {assignor}", member.name)
            time.sleep(4)
        run.wait_stable(service.group, members)
        time.sleep(2)
    run.label(service.group, "assignor_migration", [member.name for member in started])


def coordinator(
    run: IncidentRun,
    library: str,
    members: int = 3,
    clean: bool = True,
    down: float = 2.0,
    times: int = 1,
    **settings: Any,
) -> None:
    """The broker stops and starts again."""
    service = make_service(run, library, **settings)
    start_members(run, service, members)
    for _ in range(times):
        if clean:
            run.broker.stop()
        else:
            run.broker.node.kill()
        run.note("broker stopped")
        time.sleep(down)
        run.broker.start()
        run.note("broker is up")
        time.sleep(2.5 * service.session / 1000 + 8)
    for group in (service.group, *run.groups):
        run.label(group, "coordinator_restart", ["broker 1"])


def herd(run: IncidentRun, library: str, members: int = 8, stagger: float = 0.6, **settings: Any) -> None:
    """Many members start one after another."""
    settings.setdefault("partitions", 2 * members)
    service = make_service(run, library, **settings)
    started = start_members(run, service, members, stagger=stagger)
    run.label(service.group, "startup_herd", [member.name for member in started])
    time.sleep(5)


def shared(
    run: IncidentRun, library: str, members: int = 2, mode: str = "slow", theirs_in: str = "", **settings: Any
) -> None:
    """Two services have the same group id; one of them is slow or is deployed."""
    settings.setdefault("interval", 6000)
    settings.setdefault("session", 6000)
    service = make_service(run, library, **settings)
    other = Service(
        theirs_in or library,
        service.group,
        [run.topic(4)],
        session=service.session,
        interval=service.interval,
        assignor=service.assignor,
    )
    mine = [run.member(service) for _ in range(members)]
    theirs = [run.member(other) for _ in range(members)]
    for member in (*mine, *theirs):
        member.start()
    run.wait_stable(service.group, 2 * members)
    time.sleep(5)
    if mode == "slow":
        theirs[0].send(f"delay {service.interval / 1000 * 1.5}")
        before = run.generations(service.group)
        run.wait("removals of the slow member", lambda: run.generations(service.group) >= before + 5)
        culprits = [theirs[0].name]
    else:
        for member in (*theirs, *theirs):
            member.stop()
            time.sleep(1)
            member.start()
            time.sleep(3)
        culprits = [member.name for member in theirs]
    if mode != "slow":
        run.wait_stable(service.group, 2 * members)
    run.label(service.group, "shared_group_id", culprits, storm=mode == "slow")


def stuck(run: IncidentRun, library: str, members: int = 3, **settings: Any) -> None:
    """A rebalance waits for a slow member until its timeout, after a new member has joined."""
    service = make_service(run, library, interval=150_000, session=6000, **settings)
    started = start_members(run, service, members)
    slow = run.rng.choice(started)
    slow.send("once 140")
    time.sleep(2)
    run.member(service).start()
    run.note("a member joins while another one does not poll", slow.name)
    time.sleep(75)
    run.label(service.group, "stuck_rebalance", [slow.name])


KINDS: dict[str, Inject] = {
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
