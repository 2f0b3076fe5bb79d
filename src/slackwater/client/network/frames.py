"""Where the bytes of a connection's answers go: straight from the socket to where they stay.

Rules kept here
- Frames are those of `wire.frames`: a size in four bytes, then that many bytes. A size out of bounds is refused when
  its four bytes are there; frames before it are given out first, and the next call raises.
- Small answers come together into one room and are cut from it. A large one, which is a fetch, gets a frame of its own
  as soon as its size is known, and the socket writes into that: its bytes are copied by nobody.
- The frame of a large answer is used again when nobody looks into it any more: fresh memory costs as much as the bytes
  that come into it. One of more than 17 MiB grows with what has come, because a peer may announce what it never sends.
"""

import struct
import sys
from typing import Final

from slackwater.wire.errors import WireError

_SIZE: Final = struct.Struct(">i")
_ROOM_BYTES: Final = 1 << 16
_KEPT_FRAMES: Final = 3
_LARGEST_KEPT_BYTES: Final = 17 << 20


class FrameReceiver:
    """The frames of one connection, without their sizes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._room = bytearray(_ROOM_BYTES)
        self._view = memoryview(self._room)
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_at = 0
        self._kept: list[bytearray] = []

    def next_room(self) -> memoryview:
        """Where the next bytes are to be written."""
        if (frame := self._large) is None:
            return self._view[self._end :]
        if self._large_at == len(frame):  # not before: the socket held on to what it was given last
            frame.extend(bytes(min(self._large_size - len(frame), len(frame))))
        return memoryview(frame)[self._large_at :]

    def written(self, count: int) -> list[bytes | bytearray]:
        """The frames that so many bytes more complete."""
        if self._large is not None:
            return self._written_to_large(self._large, count)
        self._end += count
        return self._cut()

    def _written_to_large(self, frame: bytearray, count: int) -> list[bytes | bytearray]:
        self._large_at += count
        if self._large_at < self._large_size:
            return []
        self._large = None
        return [frame]

    def _cut(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
        at, end = self._start, self._end
        while end - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._room, at)
            if not 0 <= size <= self._max_bytes:
                if not frames:
                    raise WireError(f"A frame announces {size} bytes; 0 to {self._max_bytes} are allowed.")
                break
            body = at + _SIZE.size
            if body + size > end:
                if size + _SIZE.size > _ROOM_BYTES:
                    self._begin_large(size, body)
                    at = end
                break
            frames.append(bytes(self._view[body : body + size]))
            at = body + size
        self._move_to_front(at)
        return frames

    def _begin_large(self, size: int, body: int) -> None:
        self._large = self._frame(size) if size <= _LARGEST_KEPT_BYTES else bytearray(_LARGEST_KEPT_BYTES)
        self._large_size = size
        self._large_at = self._end - body
        self._large[: self._large_at] = self._view[body : self._end]

    def _move_to_front(self, at: int) -> None:
        """What is left of the room begins with the frame that is not whole, so that there is room for it."""
        left = self._end - at
        if at:
            self._room[:left] = self._room[at : self._end]
        self._start, self._end = 0, left

    def _frame(self, size: int) -> bytearray:
        """A frame of this size, an old one if one is free."""
        kept = self._kept
        for number in range(len(kept)):
            used = sys.getrefcount(kept[number]) != _FREE
            if not used and len(kept[number]) // 2 <= size <= len(kept[number]) * 2:
                return _resized(kept[number], size)
        frame = bytearray(size)
        self._kept = [frame, *kept[: _KEPT_FRAMES - 1]]
        return frame


def _resized(frame: bytearray, size: int) -> bytearray:
    if len(frame) < size:
        frame.extend(bytes(size - len(frame)))
    else:
        del frame[size:]
    return frame


_kept_alone = [bytearray()]
_FREE: Final = sys.getrefcount(_kept_alone[0])  # asked in the same way as above, for something that is only kept
