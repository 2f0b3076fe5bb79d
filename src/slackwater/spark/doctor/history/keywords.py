"""Which of many words a text contains, found in one pass over its bytes.

Rules kept here
- A word has a bit; the empty word is in every text.
- At places of a text three bytes are looked up. A word is found by three of its bytes that are rare in a sample, and
  compared where they stand; so there is little to compare. (An automaton of all words waits for memory at every byte,
  and takes four times as long.)
- A word that is longer is known by several threes, one behind the other: then not every place need be looked at. The
  shortest word tells how far apart the places may be (`stride`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

BITS: Final = 64
TRIPLE: Final = 3
HASH_BITS: Final = 13
LONGEST_STRIDE: Final = 4
FACTOR: Final = 0x9E3779B1


@dataclass(frozen=True, slots=True)
class Keywords:
    """The words by three of their bytes."""

    always: NDArray[np.uint64]
    """The bits of words that are in every text."""
    stride: int
    heads: NDArray[np.int16]
    """By a triple's hash: a word that is looked up by it, as its place in these tables; -1 where there is none."""
    following: NDArray[np.int32]
    """By place: the next word with the same hash, or -1."""
    begins: NDArray[np.int32]
    """By place: where the word begins in the pool; one further tells where the last ends."""
    shifts: NDArray[np.int32]
    """By place: where the three bytes stand in the word."""
    numbers: NDArray[np.int32]
    """By place: the word's number."""
    pool: NDArray[np.uint8]

    @property
    def width(self) -> int:
        """How many numbers of 64 bits the bits of all words need."""
        return len(self.always)


def bits(numbers: Sequence[int], count: int) -> NDArray[np.uint64]:
    """A row of bits for so many words, with these set."""
    row = np.zeros(max(1, -(-count // BITS)), np.uint64)
    for number in numbers:
        row[number // BITS] |= np.uint64(1) << np.uint64(number % BITS)
    return row


def keywords(words: Sequence[str], sample: str) -> Keywords:
    """Tables of these words; a word's number is its place among them. The sample is text as the texts are."""
    encoded = {number: word.encode() for number, word in enumerate(words) if word}
    short = [word for word in encoded.values() if len(word) < TRIPLE]
    if short:
        raise ValueError(f"A word has at least {TRIPLE} bytes, and these are shorter: {short}.")
    stride = min([LONGEST_STRIDE, *(len(word) - TRIPLE + 1 for word in encoded.values())])
    often = Counter(_triples(sample.encode()))
    known = [(number, word, shift) for number, word in encoded.items() for shift in _shifts(word, often, stride)]
    begins, joined = pool([word for _, word, _ in known])
    heads = np.full(1 << HASH_BITS, -1, np.int16)
    following = np.full(max(1, len(known)), -1, np.int32)
    for place, (_, word, shift) in enumerate(known):
        hashed = _hash(word[shift:])
        following[place] = heads[hashed]
        heads[hashed] = place
    return Keywords(
        bits([number for number, word in enumerate(words) if not word], len(words)),
        stride,
        heads,
        following,
        begins,
        np.array([*(shift for _, _, shift in known), 0], np.int32),
        np.array([*(number for number, _, _ in known), 0], np.int32),
        joined,
    )


def _shifts(word: bytes, often: Counter[bytes], stride: int) -> range:
    """So many places in a word, one behind the other, whose three bytes are together the rarest."""
    counts = [often[one] for one in _triples(word)]
    first = min(range(len(counts) - stride + 1), key=lambda at: sum(counts[at : at + stride]))
    return range(first, first + stride)


def _triples(text: bytes) -> list[bytes]:
    return [text[at : at + TRIPLE] for at in range(len(text) - TRIPLE + 1)]


def _hash(word: bytes) -> int:
    triple = word[0] | word[1] << 8 | word[2] << 16
    return (triple * FACTOR & 0xFFFF_FFFF) >> (32 - HASH_BITS)


def pool(words: Sequence[str | bytes]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Words one behind the other: where each begins, and one further where the last ends; and their bytes."""
    encoded = [word.encode() if isinstance(word, str) else word for word in words]
    begins = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return begins, np.frombuffer(b"".join(encoded) + b"\0", np.uint8)


class Ends(NamedTuple):
    """Words that texts may end with, by their length and their first byte."""

    heads: NDArray[np.int16]
    """By the hash of both: a word, as its place in these tables; -1 where there is none."""
    following: NDArray[np.int32]
    begins: NDArray[np.int32]
    pool: NDArray[np.uint8]
    longest: int


END_SLOTS: Final = 256


def ends(words: Sequence[str]) -> Ends:
    """Tables of these words."""
    heads = np.full(END_SLOTS, -1, np.int16)
    following = np.full(max(1, len(words)), -1, np.int32)
    for place, word in enumerate(map(str.encode, words)):
        slot = (len(word) * 8 + word[0]) % END_SLOTS
        following[place] = heads[slot]
        heads[slot] = place
    return Ends(heads, following, *pool(words), max(map(len, words)))
