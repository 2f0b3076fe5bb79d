"""Draws docs/timeouts.svg: the two liveness checks and the rebalance timeout on one time axis.

Invariants:
- Every position in the drawing comes from a run of the simulator: requests, processed records and group events. Only
  the incidents are scripted.
- The run has its own seed, so the drawing is the same on every machine.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from slackwater.group.assignors import get_assignor
from slackwater.group.coordinator import CoordinatorConfig
from slackwater.group.events import EventKind, GroupEvent, Trigger
from slackwater.group.member import MemberConfig
from slackwater.group.messages import Heartbeat, Request
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.broker import SimBroker
from slackwater.sim.checkers import Checker
from slackwater.sim.consumer import ApplicationBehavior, SimConsumer
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom

GROUP: Final = "billing"
TOPIC: Final = "orders"
PARTITIONS: Final = 3
SESSION_TIMEOUT_MS: Final = 10_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
MAX_POLL_INTERVAL_MS: Final = 30_000
REBALANCE_TIMEOUT_MS: Final = 15_000
POLL_EVERY_MS: Final = 1_500
END_MS: Final = 127_000
MEMBERS: Final = ("A", "B", "C")
LONG_BATCH_MS: Final = {"B": 40_000, "A": 25_000}


@dataclass(slots=True)
class Recording:
    """What happened in the run: the times of heartbeats and batches by member name, and the group events."""

    heartbeats: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in MEMBERS})
    batches: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in MEMBERS})
    events: list[GroupEvent] = field(default_factory=list)
    long_batches: dict[str, tuple[int, int]] = field(default_factory=dict)  # start and end
    died_ms: int = 0
    restarted_ms: int = 0

    def of_kind(self, *kinds: EventKind) -> list[GroupEvent]:
        """Return the events of these kinds, in order."""
        return [event for event in self.events if event.kind in kinds]


class ExpiredTimer(NamedTuple):
    """A timer that expired."""

    start_ms: int
    end_ms: int


class _Recorder(Checker):
    """Records instead of checking."""

    def __init__(self, recording: Recording, queue: EventQueue) -> None:
        self.recording = recording
        self.queue = queue

    def on_request(self, reply_to: object, request: Request) -> None:
        if isinstance(request, Heartbeat):
            self.recording.heartbeats[request.member_id[0]].append(self.queue.now_ms)

    def on_event(self, event: GroupEvent) -> None:
        self.recording.events.append(event)

    def on_processed(self, process: str, partition: TopicPartition, offset: int) -> None:
        times = self.recording.batches[process]
        if not times or times[-1] != self.queue.now_ms:
            times.append(self.queue.now_ms)


def record() -> Recording:
    """Run the three incidents in the simulator."""
    queue, random = EventQueue(), SeededRandom("timeouts")
    recording = Recording()
    broker = SimBroker(
        queue,
        random,
        CoordinatorConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3_000),
        GROUP,
    )
    recorder = _Recorder(recording, queue)
    broker.checkers = [recorder]
    broker.load()
    for number in range(PARTITIONS):
        broker.ends[TopicPartition(TOPIC, number)] = 10_000  # more than the run reads

    def start(name: str) -> SimConsumer:
        config = MemberConfig(
            group_id=GROUP,
            client_id=name,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            enable_auto_commit=False,
            assignors=(get_assignor("range"),),
        )
        # Without commits, because a commit counts as a heartbeat.
        behavior = ApplicationBehavior(poll_every_ms=POLL_EVERY_MS, commit_after_batch=False, commit_on_revoke=False)
        return SimConsumer(name, config, behavior, [TOPIC], queue, random, broker, [recorder])

    members = {name: start(name) for name in MEMBERS}

    def crash() -> None:
        recording.died_ms = queue.now_ms
        members["C"].crash()

    def restart() -> None:
        recording.restarted_ms = queue.now_ms
        members["C"] = start("C")

    incidents: Mapping[int, Callable[[], None]] = {
        14_000: crash,
        34_000: lambda: members["B"].overrun(LONG_BATCH_MS["B"]),
        88_000: lambda: members["A"].overrun(LONG_BATCH_MS["A"]),
        92_000: restart,
    }
    for time_ms, action in incidents.items():
        queue.at(time_ms, action)
    queue.run_until(END_MS)
    for name, duration_ms in LONG_BATCH_MS.items():
        start_ms, _ = max(pairwise(recording.batches[name]), key=lambda times: times[1] - times[0])
        recording.long_batches[name] = (start_ms, start_ms + duration_ms)
    return recording


def expired_timers(recording: Recording) -> tuple[ExpiredTimer, ExpiredTimer, ExpiredTimer]:
    """Return the session of C, the poll interval of B, and the rebalance that waits for A."""
    (expired,) = recording.of_kind(EventKind.MEMBER_EXPIRED)
    (left,) = [event for event in recording.of_kind(EventKind.MEMBER_LEFT) if event.trigger is Trigger.POLL_TIMEOUT]
    (dropped,) = recording.of_kind(EventKind.MEMBER_DROPPED)
    started = [event.time_ms for event in recording.of_kind(EventKind.REBALANCE_STARTED)]
    return (
        ExpiredTimer(_last(recording.heartbeats["C"], recording.died_ms), expired.time_ms),
        ExpiredTimer(_last(recording.batches["B"], left.time_ms), left.time_ms),
        ExpiredTimer(_last(started, dropped.time_ms), dropped.time_ms),
    )


def _last(times_ms: list[int], before_ms: int) -> int:
    return max(time_ms for time_ms in times_ms if time_ms < before_ms)


# --- drawing ----------------------------------------------------------------------------------------------------------

START_MS: Final = 7_000  # the group is stable
WIDTH: Final = 1060
LEFT: Final = 112
RIGHT: Final = 18
COORDINATOR_Y: Final = 84
TOP: Final = 54  # of the shaded timers
MEMBER_Y: Final = {"A": 178, "B": 282, "C": 386}
AXIS_Y: Final = 470
HEIGHT: Final = 552
COLORS: Final = {
    "text": "#1f2328",
    "muted": "#59636e",
    "stable": "#c7e6cf",
    "rebalance": "#f2b56b",
    "heartbeat": "#1a7f37",
    "batch": "#9cc3f0",
    "long": "#3b7dd8",
    "timer": "#c62828",
    "shade": "#fcefee",
    "down": "#e4e7eb",
    "white": "#ffffff",
}


def _x(time_ms: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (time_ms - START_MS) / (END_MS - START_MS), 1)


def _text(x: float, y: float, text: str, *, size: int = 13, color: str = "text", anchor: str = "start") -> str:
    attributes = f'font-size="{size}" fill="{COLORS[color]}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {attributes}>{escape(text)}</text>'


def _rect(from_ms: int, to_ms: int, y: float, height: float, color: str) -> str:
    left, right = _x(max(from_ms, START_MS)), _x(min(to_ms, END_MS))
    return f'<rect x="{left:g}" y="{y:g}" width="{right - left:.1f}" height="{height:g}" fill="{COLORS[color]}"/>'


def _timer(timer: ExpiredTimer, y: float, label: str) -> list[str]:
    """Draw a timer: a line from its start to its expiration, with a label after it."""
    left, right, color = _x(timer.start_ms), _x(timer.end_ms), COLORS["timer"]
    text = f"{_seconds(timer.end_ms - timer.start_ms)} {label}"
    return [
        f'<path d="M{left:g} {y - 5:g}v10M{left:g} {y:g}H{right:g}" stroke="{color}" stroke-width="2" fill="none"/>',
        f'<circle cx="{right:g}" cy="{y:g}" r="5" fill="{color}"/>',
        _text(right + 10, y + 5, text, color="timer"),
    ]


def _seconds(duration_ms: int) -> str:
    return f"{round(duration_ms / 1000, 1):g} s"


def draw(recording: Recording) -> str:
    """Return the drawing."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"',
        '     font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img"',
        '     aria-label="Three incidents on one time axis">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *(_shade(timer) for timer in expired_timers(recording)),
        *_coordinator(recording),
        *(part for name in MEMBERS for part in _member(recording, name)),
        *_timers(recording),
        *_axis(),
        *_legend(),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _coordinator(recording: Recording) -> list[str]:
    """Draw the states of the group, and the generations."""
    parts = [_text(8, COORDINATOR_Y + 15, "coordinator"), _rect(START_MS, END_MS, COORDINATOR_Y, 22, "stable")]
    started = recording.of_kind(EventKind.REBALANCE_STARTED)
    completed = recording.of_kind(EventKind.REBALANCE_COMPLETED)
    for start in started:
        end = next(event for event in completed if event.time_ms >= start.time_ms)
        if end.time_ms < START_MS:
            continue
        wide_ms = max(end.time_ms, start.time_ms + 400)  # visible, although it takes milliseconds
        parts.append(_rect(start.time_ms, wide_ms, COORDINATOR_Y, 22, "rebalance"))
    for event, following in zip(completed, [*completed[1:], None], strict=True):
        until = following.time_ms if following is not None else END_MS
        if until - event.time_ms > 6_000:
            x = _x(max(event.time_ms, START_MS)) + 6
            label = f"generation {event.generation}" if until - event.time_ms > 12_000 else f"gen. {event.generation}"
            parts.append(_text(x, COORDINATOR_Y + 15, label, size=11, color="muted"))
    return parts


def _member(recording: Recording, name: str) -> list[str]:
    """Draw the heartbeats and the batches of a member."""
    y = MEMBER_Y[name]
    parts = [
        _text(8, y + 4, f"member {name}"),
        _text(LEFT - 8, y + 4, "♥", size=12, color="heartbeat", anchor="end"),
        _text(LEFT - 8, y + 27, "poll", size=11, color="muted", anchor="end"),
    ]
    if name == "C":
        parts.append(_rect(recording.died_ms, recording.restarted_ms, y - 9, 42, "down"))
        middle = (_x(recording.died_ms) + _x(recording.restarted_ms)) / 2
        parts.append(_text(middle, y + 15, "the process is down", color="muted", anchor="middle"))
    for time_ms in recording.heartbeats[name]:
        if time_ms >= START_MS:
            parts.append(f'<circle cx="{_x(time_ms):g}" cy="{y}" r="3" fill="{COLORS["heartbeat"]}"/>')
    long_start, long_end = recording.long_batches.get(name, (-1, -1))
    for time_ms in recording.batches[name]:
        if time_ms >= START_MS and time_ms != long_start:
            until = time_ms + POLL_EVERY_MS
            if time_ms < recording.died_ms < until and name == "C":
                until = recording.died_ms
            parts.append(_rect(time_ms, until - 250, y + 15, 15, "batch"))
    if long_start >= 0:
        parts.append(_rect(long_start, long_end, y + 15, 15, "long"))
        label = f"one batch, {_seconds(long_end - long_start)}"
        parts.append(_text((_x(long_start) + _x(long_end)) / 2, y + 27, label, size=11, color="white", anchor="middle"))
    return parts


def _timers(recording: Recording) -> list[str]:
    """Draw the three timers that expire, and their captions."""
    timers = expired_timers(recording)
    session, poll, rebalance = timers
    noticed = _seconds(session.end_ms - recording.died_ms)
    captions = (
        ("1  session.timeout.ms", f"C dies; removed {noticed} later"),
        ("2  max.poll.interval.ms", "B sends heartbeats but does not poll: it leaves"),
        ("3  rebalance timeout", "C returns; all wait for A, then A is removed"),
    )
    parts = []
    for timer, (title, text) in zip(timers, captions, strict=True):
        left, right = _x(timer.start_ms), _x(timer.end_ms)
        parts += [
            f'<path d="M{right:g} {TOP}V{AXIS_Y}" stroke="{COLORS["timer"]}" stroke-dasharray="3 3"/>',
            _text(left, COORDINATOR_Y - 54, title, size=14),
            _text(left, COORDINATOR_Y - 37, text, size=12, color="muted"),
        ]
    parts += _timer(session, MEMBER_Y["C"] + 44, "without a heartbeat")
    parts += _timer(poll, MEMBER_Y["B"] + 44, "without a poll")
    parts += _timer(rebalance, COORDINATOR_Y + 38, "without A")
    for name, start_ms in (("B", _last(recording.batches["B"], rebalance.end_ms)), ("C", rebalance.start_ms)):
        middle = (_x(start_ms + POLL_EVERY_MS) + _x(rebalance.end_ms)) / 2
        parts.append(_text(middle, MEMBER_Y[name] + 27, "waits to join", size=11, color="muted", anchor="middle"))
    return parts


def _shade(timer: ExpiredTimer) -> str:
    left, width = _x(timer.start_ms), _x(timer.end_ms) - _x(timer.start_ms)
    return f'<rect x="{left:g}" y="{TOP}" width="{width:.1f}" height="{AXIS_Y - TOP}" fill="{COLORS["shade"]}"/>'


def _axis() -> list[str]:
    parts = [f'<path d="M{LEFT} {AXIS_Y}H{WIDTH - RIGHT}" stroke="{COLORS["muted"]}"/>']
    for time_ms in range(START_MS, END_MS + 1, 10_000):
        x = _x(time_ms)
        parts.append(f'<path d="M{x:g} {AXIS_Y}v5" stroke="{COLORS["muted"]}"/>')
        label = f"{(time_ms - START_MS) // 1000} s"
        parts.append(_text(x, AXIS_Y + 19, label, size=11, color="muted", anchor="middle"))
    return parts


def _legend() -> list[str]:
    y = HEIGHT - 34
    items = (("stable", "Stable"), ("rebalance", "rebalance"), ("batch", "poll and process"), ("down", "down"))
    parts, x = [], float(LEFT)
    for color, label in items:
        parts.append(f'<rect x="{x:g}" y="{y}" width="14" height="12" fill="{COLORS[color]}"/>')
        parts.append(_text(x + 19, y + 11, label, size=12))
        x += 36 + 7 * len(label)
    parts.append(f'<circle cx="{x + 6:g}" cy="{y + 6}" r="3" fill="{COLORS["heartbeat"]}"/>')
    parts.append(_text(x + 15, y + 11, "heartbeat", size=12))
    parts.append(f'<circle cx="{x + 100:g}" cy="{y + 6}" r="5" fill="{COLORS["timer"]}"/>')
    parts.append(_text(x + 110, y + 11, "a timer expires", size=12))
    values = {
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
        "rebalance.timeout.ms": REBALANCE_TIMEOUT_MS,
    }
    settings = ", ".join(f"{name} {_seconds(value)}" for name, value in values.items()) + "; range assignor"
    parts.append(_text(LEFT, y + 30, settings, size=11, color="muted"))
    return parts
