"""Frames: a size in four bytes, then that many bytes.

Invariants:
- A size below zero or above the limit is rejected as soon as its four bytes have arrived; nothing is stored for it.
- Bytes arrive in pieces of any size; complete frames come out in order.
- `feed` returns the frames before a rejected size, so that they can be processed. `size_error` then contains the
  reason, and the next call raises, because the position in the stream is lost.
- The pieces of an incomplete frame are collected in one buffer. A large frame is that buffer, and is not copied.
"""

import struct
from typing import Final

from slackwater.wire.errors import WireError

MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""The default of Kafka's `socket.request.max.bytes`."""
LARGE_FRAME_BYTES: Final = 1024 * 1024
"""A frame of this size or more that arrives in pieces is a bytearray."""
_SIZE: Final = struct.Struct(">i")


class FrameReader:
    """Splits the bytes of one connection into frames without their sizes."""

    __slots__ = ("_buffer", "_has_size", "max_bytes", "needed_bytes", "size_error", "stored_bytes")

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self.size_error = ""
        self.stored_bytes = 0  # of an incomplete frame
        self._buffer = bytearray()
        self.needed_bytes = 0  # the incomplete frame continues when this many bytes are stored; 0 at a boundary
        self._has_size = False  # whether the size of the incomplete frame has been read

    @property
    def pending_bytes(self) -> int:
        """The bytes of an incomplete frame that have arrived; 0 at a frame boundary."""
        return self.stored_bytes + (_SIZE.size if self._has_size else 0)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that these bytes complete."""
        frames: list[bytes] = []
        at = self._continue(data, frames) if self.needed_bytes else 0
        end = len(data)
        while at < end and not self.size_error:
            if end - at < _SIZE.size:
                self._store(data[at:], _SIZE.size)
                break
            (size,) = _SIZE.unpack_from(data, at)
            if not 0 <= size <= self.max_bytes:
                self._reject(size)
                break
            at += _SIZE.size
            if end - at < size:
                self._has_size = True
                self._store(data[at:], size)
                break
            frames.append(data[at : at + size])
            at += size
        if self.size_error and not frames:
            raise WireError(self.size_error)
        return frames

    def _continue(self, data: bytes, frames: list[bytes]) -> int:
        """Add bytes to the incomplete size or frame; return how many were used."""
        at = 0
        while self.needed_bytes:
            missing = self.needed_bytes - self.stored_bytes
            self._buffer += data[at : at + missing]
            self.stored_bytes = len(self._buffer)
            if self.stored_bytes < self.needed_bytes:
                return len(data)
            at += missing
            buffer, self._buffer = self._buffer, bytearray()
            self.stored_bytes = self.needed_bytes = 0
            if self._has_size:
                self._has_size = False
                is_large = len(buffer) >= LARGE_FRAME_BYTES
                frames.append(buffer if is_large else bytes(buffer))  # type: ignore[arg-type]  # it is read like bytes
                continue
            (size,) = _SIZE.unpack(buffer)
            if not 0 <= size <= self.max_bytes:
                self._reject(size)
            elif size:
                self._has_size = True
                self.needed_bytes = size
            else:
                frames.append(b"")
        return at

    def first_bytes(self, count: int) -> bytes:
        """The first bytes of an incomplete frame, as far as they have arrived."""
        return bytes(self._buffer[:count]) if self._has_size else b""

    def clear(self) -> None:
        """Free the memory of an incomplete frame: nothing follows."""
        self._buffer = bytearray()
        self.stored_bytes = self.needed_bytes = 0

    def _reject(self, size: int) -> None:
        self.size_error = f"A frame announces {size} bytes; 0 to {self.max_bytes} are allowed."

    def _store(self, piece: bytes, needed_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self._buffer += piece
        self.stored_bytes = len(piece)


def frame(body: bytes) -> bytes:
    """Return a frame with this body."""
    return _SIZE.pack(len(body)) + body
