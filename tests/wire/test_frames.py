"""Frames: sizes, partial reads and limits."""

import tracemalloc
from random import Random

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader, frame


def test_piece_with_several_frames_and_a_rest() -> None:
    reader = FrameReader()
    assert reader.feed(frame(b"one") + frame(b"") + frame(b"two") + b"\x00\x00") == [b"one", b"", b"two"]
    assert reader.pending_bytes == 2
    assert reader.feed(b"\x00\x02ab") == [b"ab"]
    assert reader.pending_bytes == 0


def test_frame_arrives_byte_by_byte() -> None:
    reader = FrameReader()
    frames = [body for byte in frame(b"hello") for body in reader.feed(bytes([byte]))]
    assert frames == [b"hello"]


def test_size_above_the_limit_is_refused_at_once() -> None:
    reader = FrameReader(max_bytes=10)
    assert reader.feed(frame(bytes(10))) == [bytes(10)]
    with pytest.raises(WireError, match="announces 11 bytes; 0 to 10 are allowed"):
        reader.feed(b"\x00\x00\x00\x0b")


def test_negative_size_is_refused() -> None:
    with pytest.raises(WireError, match="announces -1 bytes"):
        FrameReader().feed(b"\xff\xff\xff\xff")


def test_frames_before_a_refused_size_are_returned() -> None:
    reader = FrameReader(max_bytes=10)
    assert reader.feed(frame(b"ok") + b"\x00\x00\x00\x0b" + frame(b"lost")) == [b"ok"]
    assert "announces 11 bytes" in reader.size_error
    for data in (b"", frame(b"ok")):
        with pytest.raises(WireError, match="announces 11 bytes"):
            reader.feed(data)


def test_large_frame_in_many_pieces() -> None:
    reader = FrameReader()
    stream = frame(bytes(1_000_000)) + frame(b"next")
    frames = [body for at in range(0, len(stream), 64_000) for body in reader.feed(stream[at : at + 64_000])]
    assert frames == [bytes(1_000_000), b"next"]


def test_many_small_pieces_take_little_memory() -> None:
    reader = FrameReader()
    stream = frame(random_bytes := Random(1).randbytes(500_000))
    tracemalloc.start()
    try:
        frames = [body for at in range(len(stream) - 1) for body in reader.feed(stream[at : at + 1])]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert frames == []
    assert peak < 2_000_000
    assert reader.feed(stream[-1:]) == [random_bytes]


@pytest.mark.parametrize("seed", range(50))
def test_frames_are_complete_for_any_split_of_the_bytes(seed: int) -> None:
    random = Random(seed)
    bodies = [random.randbytes(random.choice((0, 1, 3, 50, 3_000))) for _ in range(20)]
    stream = b"".join(map(frame, bodies))
    reader, frames, at = FrameReader(), [], 0
    while at < len(stream):
        end = at + random.choice((1, 2, 5, 60, 2_000))
        frames += reader.feed(stream[at:end])
        at = end
        returned_bytes = sum(len(frame(body)) for body in frames)
        assert reader.pending_bytes == min(at, len(stream)) - returned_bytes
    assert frames == bodies
