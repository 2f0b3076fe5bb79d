"""Which of many words a text contains, found in one pass over its bytes.

Rules kept here
- A word has a bit; the empty word is in every text.
- At every place of a text three bytes are looked up. A word is found by the three of its bytes that are rarest in a
  sample, and compared where they stand; so there is little to compare. (An automaton of all words waits for memory at
  every byte, and takes four times as long.)
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
FACTOR: Final = 0x9E3779B1


@dataclass(frozen=True, slots=True)
class Keywords:
    """The words by three of their bytes."""

    always: NDArray[np.uint64]
    """The bits of words that are in every text."""
    heads: NDArray[np.int16]
    """By a triple's hash: a word that is looked up by it, as its place in these tables; -1 where there is none."""
    following: NDArray[np.int32]
    """By word: the next one with the same hash, or -1."""
    begins: NDArray[np.int32]
    """By word: where it begins in the pool; one further tells where the last ends."""
    shifts: NDArray[np.int32]
    """By word: where its three bytes stand in it."""
    numbers: NDArray[np.int32]
    """By word: its number."""
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
    often = Counter(_triples(sample.encode()))
    shifts = [
        min(range(len(word) - TRIPLE + 1), key=[often[one] for one in _triples(word)].__getitem__)
        for word in encoded.values()
    ]
    begins, joined = pool(list(encoded.values()))
    heads = np.full(1 << HASH_BITS, -1, np.int16)
    following = np.full(max(1, len(encoded)), -1, np.int32)
    for place, (word, shift) in enumerate(zip(encoded.values(), shifts, strict=True)):
        hashed = _hash(word[shift:])
        following[place] = heads[hashed]
        heads[hashed] = place
    return Keywords(
        bits([number for number, word in enumerate(words) if not word], len(words)),
        heads,
        following,
        begins,
        np.array([*shifts, 0], np.int32),
        np.array([*encoded, 0], np.int32),
        joined,
    )


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
