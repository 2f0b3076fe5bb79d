"""Frames: what Kafka sends over a connection is a size in four bytes, then that many bytes.

Rules kept here
- A size below zero or above the bound is refused when its four bytes are there, before anything is kept for it.
- Bytes come in as the connection gives them, whole frames come out in order; nothing is read twice.
- Frames before a refused size are given out first, so that they can be answered. `refused` then says why it ends; the
  next call, and every one after it, raises, because the stream has lost its place.

The usual piece of a busy connection holds many whole frames and a rest. They are cut from it directly; only the rest
is kept, in pieces, and joined once when its frame is complete.
"""

import struct
from typing import Final

from slackwater.wire.errors import WireError

MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`."""
_SIZE: Final = struct.Struct(">i")


class FrameReader:
    """Cuts one connection's bytes into frames, without their sizes."""

    __slots__ = ("_begun", "_kept", "_kept_bytes", "_needed", "max_bytes", "refused")

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self.refused = ""
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._needed = _SIZE.size  # how many bytes must be there before there is anything to do
        self._begun = False  # whether what is kept belongs behind a size that was read already

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished frame have come; none means that the connection may end here."""
        return self._kept_bytes + (_SIZE.size if self._begun else 0)

    def whole(self, data: bytes) -> bytes | None:
        """The one frame that these bytes are, and nothing else: so it is with most clients; None otherwise."""
        if self._kept or self._begun or self.refused or len(data) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(data)
        return data[_SIZE.size :] if size == len(data) - _SIZE.size and size <= self.max_bytes else None

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that these bytes complete."""
        frames: list[bytes] = []
        at = 0
        if self._kept or self._begun:
            self._kept.append(data)
            self._kept_bytes += len(data)
            if self._kept_bytes < self._needed:
                return frames
            data = b"".join(self._kept)
            self._kept.clear()
            self._kept_bytes = 0
            if self._begun:
                # A large frame mostly comes alone: then it is what was joined, and not copied once more.
                at = self._needed
                frames.append(data if len(data) == at else data[:at])
                self._begun = False
        while not self.refused:
            self._needed = _SIZE.size
            if len(data) - at < self._needed:
                break
            (size,) = _SIZE.unpack_from(data, at)
            if not 0 <= size <= self.max_bytes:
                self.refused = f"A frame announces {size} bytes; 0 to {self.max_bytes} are allowed."
                break
            if len(data) - at < _SIZE.size + size:
                at += _SIZE.size
                self._needed = size
                self._begun = True
                break
            at += _SIZE.size
            frames.append(data[at : at + size])
            at += size
        if self.refused:
            if not frames:
                raise WireError(self.refused)
        elif at < len(data):
            self._kept.append(data[at:])
            self._kept_bytes = len(data) - at
        return frames


def frame(body: bytes) -> bytes:
    """A frame to send."""
    return _SIZE.pack(len(body)) + body
