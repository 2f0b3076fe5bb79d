"""FrameReceiver returns the same frames however the bytes are split."""

import struct
from random import Random

import pytest

from slackwater.client.network.frames import FrameReceiver
from slackwater.wire.errors import WireError

MAX_BYTES = 1 << 26


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def feed(receiver: FrameReceiver, data: bytes, random: Random | None = None) -> list[bytes]:
    """Write as a socket does: up to the free space of the buffer."""
    frames: list[bytes] = []
    while data:
        buffer = receiver.next_buffer()
        assert len(buffer) > 0
        count = min(len(buffer), len(data))
        if random is not None:
            count = min(count, random.choice((1, 3, 100, 70_000, 3_000_000)))
        buffer[:count] = data[:count]
        del buffer
        data = data[count:]
        frames += map(bytes, receiver.on_written(count))
    return frames


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_received_unchanged(seed: int) -> None:
    random = Random(seed)
    sizes = (0, 1, 5, 1_000, 65_531, 65_532, 65_533, 65_536, 200_000, 1_000_000)
    bodies = [random.randbytes(random.choice(sizes)) for _ in range(30)]
    receiver = FrameReceiver(lambda _: MAX_BYTES)
    assert feed(receiver, b"".join(map(framed, bodies)), random) == bodies


def test_huge_frame_grows_with_received_bytes() -> None:
    body = Random(1).randbytes(40_000_001)
    receiver = FrameReceiver(lambda _: MAX_BYTES)
    assert feed(receiver, framed(b"before") + framed(body) + framed(b"after")) == [b"before", body, b"after"]


def test_announced_bytes_allocate_no_memory() -> None:
    receiver = FrameReceiver(lambda _: 2**31 - 1)
    assert feed(receiver, b"HTTP/1.1 400 Bad Request\r\n\r\n") == []  # reads as a frame of 1.2 GB
    assert len(receiver.next_buffer()) < 20_000_000


def test_referenced_frame_is_not_reused() -> None:
    receiver = FrameReceiver(lambda _: MAX_BYTES)
    views: list[memoryview] = []
    bodies = [bytes([number]) * (100_000 + number) for number in range(10)]
    for number, body in enumerate(bodies):
        buffer_before = receiver.next_buffer()
        assert len(buffer_before) > 0
        del buffer_before
        data = framed(body)
        while data:
            buffer = receiver.next_buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            data = data[count:]
            for frame in receiver.on_written(count):
                if number % 3:
                    views.append(memoryview(frame))
    assert [bytes(view) for view in views] == [body for number, body in enumerate(bodies) if number % 3]


def test_unreferenced_frame_is_reused() -> None:
    receiver = FrameReceiver(lambda _: MAX_BYTES)
    frame_ids = set()
    for number in range(10):
        data = framed(bytes(500_000 + 100 * (number % 3)))
        while data:
            buffer = receiver.next_buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            data = data[count:]
            frame_ids |= {id(frame) for frame in receiver.on_written(count)}
    assert len(frame_ids) == 1


@pytest.mark.parametrize("size", [-1, MAX_BYTES + 1])
def test_invalid_frame_size_raises_after_valid_frames(size: int) -> None:
    receiver = FrameReceiver(lambda _: MAX_BYTES)
    assert feed(receiver, framed(b"a") + framed(b"b") + struct.pack(">i", size)) == [b"a", b"b"]
    with pytest.raises(WireError, match=f"frame size is {size}"):
        feed(receiver, b"x")
