"""Frames: a size in four bytes, then that many bytes.

Invariants:
- A size below zero or above the limit is rejected as soon as its four bytes have arrived; nothing is stored for it.
- Bytes arrive in pieces of any size; complete frames come out in order.
- `feed` returns the frames before a rejected size, so that they can be processed. `size_error` then contains the
  reason, and the next call raises, because the position in the stream is lost.
- The pieces of an incomplete frame are joined once, when the frame is complete. Only many small pieces are joined
  earlier: an object of one byte takes more than 40.
"""

import struct
from typing import Final

from slackwater.wire.errors import WireError

MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""The default of Kafka's `socket.request.max.bytes`."""
_SIZE: Final = struct.Struct(">i")
_SMALL_BYTES: Final = 1024
_MAX_SMALL_PIECES: Final = 1024


class FrameReader:
    """Splits the bytes of one connection into frames without their sizes."""

    __slots__ = (
        "_has_size",
        "_joined_pieces",
        "_needed_bytes",
        "_pieces",
        "_small_pieces",
        "max_bytes",
        "size_error",
        "stored_bytes",
    )

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self.size_error = ""
        self._pieces: list[bytes] = []
        self._joined_pieces = 0  # how many of them, at the start, have been joined from small ones
        self._small_pieces = 0  # after those
        self.stored_bytes = 0  # of the pieces of an incomplete frame
        self._needed_bytes = 0  # the incomplete frame continues when this many bytes are stored; 0 at a boundary
        self._has_size = False  # whether the size of the incomplete frame has been read

    @property
    def pending_bytes(self) -> int:
        """The bytes of an incomplete frame that have arrived; 0 at a frame boundary."""
        return self.stored_bytes + (_SIZE.size if self._has_size else 0)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that these bytes complete."""
        at = 0
        frames: list[bytes] = []
        if self._needed_bytes:
            self._pieces.append(data)
            self.stored_bytes += len(data)
            if self.stored_bytes < self._needed_bytes:
                if len(data) < _SMALL_BYTES:
                    self._join_small_pieces()
                return frames
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._joined_pieces = self._small_pieces = 0
            self.stored_bytes = 0
            if self._has_size:
                # A large frame usually arrives alone; then `data` is the frame and is not copied again.
                at = self._needed_bytes
                frames.append(data if len(data) == at else data[:at])
                self._has_size = False
            self._needed_bytes = 0
        end = len(data)
        while at < end and not self.size_error:
            if end - at < _SIZE.size:
                self._store(data[at:], _SIZE.size)
                break
            (size,) = _SIZE.unpack_from(data, at)
            if not 0 <= size <= self.max_bytes:
                self.size_error = f"A frame announces {size} bytes; 0 to {self.max_bytes} are allowed."
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

    def _join_small_pieces(self) -> None:
        self._small_pieces += 1
        if self._small_pieces == _MAX_SMALL_PIECES:
            self._pieces[self._joined_pieces :] = [b"".join(self._pieces[self._joined_pieces :])]
            self._joined_pieces += 1
            self._small_pieces = 0

    def _store(self, piece: bytes, needed_bytes: int) -> None:
        self._needed_bytes = needed_bytes
        self.stored_bytes = len(piece)
        if piece:
            self._pieces.append(piece)


def frame(body: bytes) -> bytes:
    """Return a frame with this body."""
    return _SIZE.pack(len(body)) + body
