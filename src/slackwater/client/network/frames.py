"""Receives the frames of a connection without copying large responses.

Invariants:
- A frame is a size in four bytes and a body. A size above the limit of its frame raises when its four bytes have
  arrived; complete frames before it are returned first.
- Small responses share one buffer and are cut out of it. A large response, usually a fetch, gets its own buffer as soon
  as its size is known, and the socket writes into it directly.
- The buffer of a large response is reused when nothing refers to it: new memory costs as much as receiving the bytes.
  A buffer above 17 MiB grows with the received bytes, because a peer may announce more than it sends.

The broker splits its requests, which are small, with the simpler `wire.frames`.
"""

import struct
import sys
from collections.abc import Callable
from typing import Final

from slackwater.wire.errors import WireError

_SIZE: Final = struct.Struct(">i")
_BUFFER_BYTES: Final = 1 << 16
_MAX_REUSED_FRAMES: Final = 3
_MAX_REUSED_BYTES: Final = 17 << 20


class FrameSizeError(WireError):
    """A frame is larger than its limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"The frame size is {size}; 0 to {limit} are allowed.")
        self.size = size
        self.limit = limit


class FrameReceiver:
    """Cuts the bytes of one connection into frames, without their sizes.

    `max_bytes(n)` returns the limit of the frame after the next `n` frames.
    """

    def __init__(self, max_bytes: Callable[[int], int]) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_received = 0
        self._reusable: list[bytearray] = []

    def next_buffer(self) -> memoryview:
        """Return the buffer for the next bytes of the socket."""
        if (frame := self._large) is None:
            return self._view[self._end :]
        if self._large_received == len(frame):  # not earlier: the socket still held a view of it
            frame.extend(bytes(min(self._large_size - len(frame), len(frame))))
        return memoryview(frame)[self._large_received :]

    def on_written(self, count: int) -> list[bytes | bytearray]:
        """Return the frames that the next `count` bytes complete."""
        if self._large is not None:
            return self._on_written_to_large(self._large, count)
        self._end += count
        return self._cut_frames()

    def _on_written_to_large(self, frame: bytearray, count: int) -> list[bytes | bytearray]:
        self._large_received += count
        if self._large_received < self._large_size:
            return []
        self._large = None
        return [frame]

    def _cut_frames(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
        at, end = self._start, self._end
        while end - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer, at)
            limit = self._max_bytes(len(frames))
            if not 0 <= size <= limit:
                if not frames:
                    raise FrameSizeError(size, limit)
                break
            body = at + _SIZE.size
            if body + size > end:
                if size + _SIZE.size > _BUFFER_BYTES:
                    self._start_large_frame(size, body)
                    at = end
                break
            frames.append(bytes(self._view[body : body + size]))
            at = body + size
        self._move_to_front(at)
        return frames

    def _start_large_frame(self, size: int, body: int) -> None:
        self._large = self._new_frame(size) if size <= _MAX_REUSED_BYTES else bytearray(_MAX_REUSED_BYTES)
        self._large_size = size
        self._large_received = self._end - body
        self._large[: self._large_received] = self._view[body : self._end]

    def _move_to_front(self, at: int) -> None:
        """Move an incomplete frame to the start of the buffer, so that its rest fits."""
        left = self._end - at
        if at:
            self._buffer[:left] = self._buffer[at : self._end]
        self._start, self._end = 0, left

    def _new_frame(self, size: int) -> bytearray:
        """Return a frame of this size; reuse an old one if nothing refers to it."""
        reusable = self._reusable
        for index in range(len(reusable)):
            is_free = sys.getrefcount(reusable[index]) == _FREE_REFCOUNT
            if is_free and len(reusable[index]) // 2 <= size <= len(reusable[index]) * 2:
                return _resize(reusable[index], size)
        frame = bytearray(size)
        self._reusable = [frame, *reusable[: _MAX_REUSED_FRAMES - 1]]
        return frame


def _resize(frame: bytearray, size: int) -> bytearray:
    if len(frame) < size:
        frame.extend(bytes(size - len(frame)))
    else:
        del frame[size:]
    return frame


_unused = [bytearray()]
_FREE_REFCOUNT: Final = sys.getrefcount(_unused[0])  # of a list item that nothing else refers to
