"""Requests of one connection that say what the last of their kind said: found by comparing bytes, not by reading them.

Rules kept here
- Frames are taken from the beginning of what came, all that are whole; if one of them says anything else, none is
  taken, and all are read as usual. So whatever is wrong with a frame is found, and told, where it always is.
- The correlation id may always differ. Where a kind of request carries numbers that change from one to the next, they
  may differ as well, and are given out.
- Where those numbers stand is not written down per version: the request is encoded a second time with all their bits
  turned over, and the bytes that differ are theirs.

A consumer sends the same heartbeat as long as its generation lasts, and commits the same partitions again and again,
with other offsets. One that has read everything sends the same fetch, with the next epoch of its session.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, Self, cast

_SIZE: Final = struct.Struct(">i")
_START_BYTES: Final = 8  # size, API, version
_ID_BYTES: Final = 4


class SameFrames:
    """Frames that are the same but for their correlation ids."""

    __slots__ = ("_between", "_end", "_ids", "_start", "size")

    def __init__(self, frame: bytes) -> None:
        """Look for more of this frame, which has no size before it."""
        whole = _SIZE.pack(len(frame)) + frame
        self.size = len(whole)
        self._start, self._end = whole[:_START_BYTES], whole[_START_BYTES + _ID_BYTES :]
        self._between = self._end + self._start
        self._ids = struct.Struct(f">{_START_BYTES}x{_ID_BYTES}s{len(self._end)}x")

    def cut(self, data: bytes) -> list[bytes]:
        """The correlation ids of the frames there; none if one of them is another."""
        data = whole_frames(data, self.size)
        ids = [one for (one,) in self._ids.iter_unpack(data)]
        if b"".join((self._start, self._between.join(ids), self._end)) != data:
            return []
        return ids


class NumberedFrames:
    """Frames that are the same but for their correlation ids and some numbers, which stand in groups of one format."""

    __slots__ = ("_fixed", "_layout", "_start", "_step", "size")

    def __init__(self, frame: bytes, places: Sequence[int], numbers: str) -> None:
        """Look for more of this frame, which has no size before it; a group of `numbers` stands at each place."""
        group = struct.Struct(">" + numbers)
        layout = f">{_START_BYTES}s{_ID_BYTES}s"
        at = _START_BYTES + _ID_BYTES - _SIZE.size
        for place in places:
            layout += f"{place - at}s{numbers}"
            at = place + group.size
        self._layout = struct.Struct(f"{layout}{len(frame) - at}s")
        self._step = 1 + len(numbers)
        self.size = _SIZE.size + len(frame)
        first = self._layout.unpack(_SIZE.pack(len(frame)) + frame)
        self._start, self._fixed = first[0], first[2 :: self._step]

    @classmethod
    def learn(cls, frame: bytes, other: bytes, numbers: str) -> Self | None:
        """Find the numbers by a second frame, in which all their bits are turned over; None if they are not found."""
        size = struct.calcsize(">" + numbers)
        if len(other) != len(frame):
            return None
        differ = [at for at, (one, two) in enumerate(zip(frame, other, strict=True)) if one != two]
        places = differ[::size]
        if differ != [at for place in places for at in range(place, place + size)]:
            return None
        return cls(frame, places, numbers)

    def cut(self, data: bytes) -> list[tuple[Any, ...]]:
        """Each of the frames there, for `correlation_ids` and `numbers`; none if one of them is another."""
        start, fixed, step = self._start, self._fixed, self._step
        found = list(self._layout.iter_unpack(whole_frames(data, self.size)))
        for one in found:
            if one[0] != start or one[2::step] != fixed:
                return []
        return found

    @staticmethod
    def correlation_ids(found: Sequence[tuple[Any, ...]]) -> list[bytes]:
        """The correlation ids of frames that were cut."""
        return [one[1] for one in found]

    def numbers(self, which: int) -> slice:
        """Where this number of every group stands in a frame that was cut."""
        return slice(3 + which, None, self._step)


class CountedFrames:
    """Frames that come alone, and are the same but for their correlation ids and one number that counts them."""

    __slots__ = ("_cut", "_middle", "_start", "_tail", "number_at", "size")

    def __init__(self, frame: bytes, other: bytes) -> None:
        """Look for more of this frame, which has its size before it; in the other all bits of the number differ."""
        places = [at for at, (one, two) in enumerate(zip(frame, other, strict=True)) if one != two]
        self.number_at = at = places[0]
        rest_at = at + _SIZE.size
        if places != list(range(at, rest_at)):
            raise ValueError(f"The frames differ at {places}, which is not one number.")
        self._start, self._tail = frame[:_START_BYTES], frame[rest_at:]
        self._middle = frame[_START_BYTES + _ID_BYTES : at]
        self._cut = struct.Struct(f">{_START_BYTES}s{_ID_BYTES}s{len(self._middle)}si{len(self._tail)}s").unpack
        self.size = len(frame)

    def correlation_id(self, data: bytes, number: int) -> bytes | None:
        """The correlation id if this is such a frame with this number, and nothing else; as it stands there."""
        if len(data) != self.size:
            return None
        start, correlation_id, middle, counted, tail = self._cut(data)
        if counted == number and tail == self._tail and middle == self._middle and start == self._start:
            return cast(bytes, correlation_id)
        return None


def whole_frames(data: bytes, size: int) -> bytes:
    """The beginning of `data` that is so many bytes or a multiple of it."""
    rest = len(data) % size
    return data[:-rest] if rest else data
