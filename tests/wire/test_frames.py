"""Frames: sizes, pieces, and the bound."""

from random import Random

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader, frame


def test_one_piece_may_hold_many_frames_and_a_rest() -> None:
    reader = FrameReader()
    assert reader.feed(frame(b"one") + frame(b"") + frame(b"two") + b"\x00\x00") == [b"one", b"", b"two"]
    assert reader.pending_bytes == 2
    assert reader.feed(b"\x00\x02ab") == [b"ab"]
    assert reader.pending_bytes == 0


def test_a_frame_may_come_byte_by_byte() -> None:
    reader = FrameReader()
    found = [got for byte in frame(b"hello") for got in reader.feed(bytes([byte]))]
    assert found == [b"hello"]


def test_bytes_that_are_one_frame_are_found_to_be_so() -> None:
    reader = FrameReader(max_bytes=10)
    assert (reader.whole(frame(b"one")), reader.whole(frame(b""))) == (b"one", b"")
    for other in (b"", b"\x00\x00\x00", frame(b"one") + b"\x00", frame(b"one")[:-1], frame(bytes(11))):
        assert reader.whole(other) is None
    reader.feed(frame(b"one")[:-1])
    assert reader.whole(frame(b"two")) is None  # it belongs to what has begun
    assert reader.feed(b"e") == [b"one"]
    assert reader.whole(frame(b"two")) == b"two"
    reader.feed(frame(b"ok") + b"\xff\xff\xff\xff")
    assert reader.whole(frame(b"two")) is None


def test_a_frame_above_the_bound_is_refused_before_its_bytes_come() -> None:
    reader = FrameReader(max_bytes=10)
    assert reader.feed(frame(bytes(10))) == [bytes(10)]
    with pytest.raises(WireError, match="announces 11 bytes; 0 to 10 are allowed"):
        reader.feed(b"\x00\x00\x00\x0b")


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(WireError, match="announces -1 bytes"):
        FrameReader().feed(b"\xff\xff\xff\xff")


def test_frames_before_a_refused_one_are_given_out_and_nothing_follows() -> None:
    reader = FrameReader(max_bytes=10)
    assert reader.feed(frame(b"ok") + b"\x00\x00\x00\x0b" + frame(b"lost")) == [b"ok"]
    assert "announces 11 bytes" in reader.refused
    for data in (b"", frame(b"ok")):
        with pytest.raises(WireError, match="announces 11 bytes"):
            reader.feed(data)


def test_a_large_frame_in_many_pieces_is_joined_once() -> None:
    reader = FrameReader()
    stream = frame(bytes(1_000_000)) + frame(b"next")
    found = [got for at in range(0, len(stream), 64_000) for got in reader.feed(stream[at : at + 64_000])]
    assert found == [bytes(1_000_000), b"next"]


@pytest.mark.parametrize("seed", range(50))
def test_frames_come_out_whole_however_the_bytes_are_cut(seed: int) -> None:
    random = Random(seed)
    bodies = [random.randbytes(random.choice((0, 1, 3, 50, 3_000))) for _ in range(20)]
    stream = b"".join(map(frame, bodies))
    reader, found, at = FrameReader(), [], 0
    while at < len(stream):
        end = at + random.choice((1, 2, 5, 60, 2_000))
        found += reader.feed(stream[at:end])
        at = end
        given_out = sum(len(frame(body)) for body in found)
        assert reader.pending_bytes == min(at, len(stream)) - given_out
    assert found == bodies
