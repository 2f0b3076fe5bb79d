"""The loops over the bytes of many texts, compiled.

Rules kept here
- A text is a place in `data`, from its start to its end. No index leaves it: compiled code that reads outside takes the
  process with it.
- All compiles when this module is imported (seconds, once; then it comes from the cache beside this file), and runs
  without the interpreter's lock.
- A text that takes more than `MOST` steps to match does not match: no text may hold up a history.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from slackwater.spark.history.keywords import FACTOR, HASH_BITS, TRIPLE
from slackwater.spark.history.patterns import AT_END, END, GREEDY, JUMP, LAZY, LITERAL, ONE_OF, SAVE, SPLIT
from slackwater.wire.compiling import DATA, compiled

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bits = NDArray[np.uint64]

MOST: Final = 1_000_000
UNDO: Final = -1
GIVE_BACK: Final = -2
_TABLE: Final = "Array(uint8, 2, 'C', readonly=True)"
_CODE: Final = "Array(int32, 2, 'C', readonly=True)"


@compiled(
    f"void({DATA}, int32[::1], int32[::1], uint64[::1], int16[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    f"{DATA}, uint64[:, ::1])"
)
def contained(
    data: Bytes,
    starts: Ints,
    ends: Ints,
    always: Bits,
    heads: NDArray[np.int16],
    following: Ints,
    begins: Ints,
    shifts: Ints,
    numbers: Ints,
    pool: Bytes,
    found: Bits,
) -> None:
    """Set the bits of the words that each text contains (`Keywords` describes the tables)."""
    for row in range(len(starts)):
        found[row, :] = always
        end = ends[row]
        if end - starts[row] < TRIPLE:
            continue
        triple = np.uint32(data[starts[row]]) << np.uint32(8) | np.uint32(data[starts[row] + 1]) << np.uint32(16)
        for at in range(starts[row], end - TRIPLE + 1):
            triple = np.uint32(triple >> np.uint32(8)) | np.uint32(np.uint32(data[at + 2]) << np.uint32(16))
            word = heads[np.uint32(np.uint32(triple) * np.uint32(FACTOR)) >> np.uint32(32 - HASH_BITS)]
            while word >= 0:
                begin = begins[word]
                length = begins[word + 1] - begin
                first = at - shifts[word]
                if first >= starts[row] and length <= end - first:
                    same = 0
                    while same < length and data[first + same] == pool[begin + same]:
                        same += 1
                    if same == length:
                        number = numbers[word]
                        found[row, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
                word = following[word]


@compiled("void(uint64[:, ::1], uint64[:, ::1], int32[::1], int32[::1], int32[::1])")
def choose(found: Bits, markers: Bits, keys: Ints, firsts: Ints, chosen: Ints) -> None:
    """Each text's family: the first with a marker in it; and of the family's keys the first that it contains.

    The keys of family `f` are `keys[firsts[f]:firsts[f + 1]]`; `chosen` is a place in `keys`, or -1.
    """
    for row in range(len(found)):
        chosen[row] = -1
        for family in range(len(markers)):
            hit = np.uint64(0)
            for place in range(found.shape[1]):
                hit |= found[row, place] & markers[family, place]
            if hit == 0:
                continue
            for place in range(firsts[family], firsts[family + 1]):
                key = keys[place]
                if (found[row, key >> 6] >> np.uint64(key & 63)) & np.uint64(1):
                    chosen[row] = place
                    break
            break


@compiled(f"void({DATA}, int32[::1], int32[::1], {_CODE}, {DATA}, {_TABLE}, int32[:, ::1], uint8[::1])")
def match(
    data: Bytes, starts: Ints, ends: Ints, code: Ints, pool: Bytes, sets: Bytes, places: Ints, found: Bytes
) -> None:
    """Hold a program against each text; where its groups begin and end, -1 for a group that takes no part."""
    room = 4 * len(code) + 8
    stack = np.empty((room, 3), np.int32)
    groups = places.shape[1]
    for row in range(len(starts)):
        for place in range(groups):
            places[row, place] = -1
        end = ends[row]
        at = starts[row]
        step = 0
        depth = 0
        steps = 0
        while True:
            steps += 1
            what = code[step, 0]
            one = code[step, 1]
            failed = False
            if what == LITERAL:
                length = code[step, 2]
                if end - at < length:
                    failed = True
                else:
                    for letter in range(length):
                        if data[at + letter] != pool[one + letter]:
                            failed = True
                            break
                    at += length
                    step += 1
            elif what == ONE_OF:
                if at < end and sets[one, data[at]]:
                    at += 1
                    step += 1
                else:
                    failed = True
            elif what == LAZY:
                follow = code[step, 2]
                while at < end and not sets[follow, data[at]] and sets[one, data[at]]:
                    at += 1
                if at < end:
                    if sets[follow, data[at]]:
                        if sets[one, data[at]]:
                            stack[depth, 0] = step
                            stack[depth, 1] = at + 1
                            depth += 1
                        step += 1
                    else:
                        failed = True
                elif sets[follow, AT_END]:
                    step += 1
                else:
                    failed = True
            elif what == GREEDY:
                least = at
                while at < end and sets[one, data[at]]:
                    at += 1
                if at > least and not code[step, 2]:
                    stack[depth, 0] = GIVE_BACK - step
                    stack[depth, 1] = at
                    stack[depth, 2] = least
                    depth += 1
                step += 1
            elif what == SAVE:
                stack[depth, 0] = UNDO
                stack[depth, 1] = one
                stack[depth, 2] = places[row, one]
                depth += 1
                places[row, one] = at
                step += 1
            elif what == SPLIT:
                stack[depth, 0] = code[step, 2]
                stack[depth, 1] = at
                depth += 1
                step = one
            elif what == JUMP:
                step = one
            elif what == END:
                if at == end:
                    step += 1
                else:
                    failed = True
            else:
                found[row] = 1
                break
            if not failed:
                continue
            # Back to the last choice. What was saved since then is taken back.
            while depth > 0:
                depth -= 1
                if stack[depth, 0] == UNDO:
                    places[row, stack[depth, 1]] = stack[depth, 2]
                    continue
                failed = False
                if stack[depth, 0] <= GIVE_BACK:
                    step = GIVE_BACK - stack[depth, 0] + 1
                    at = stack[depth, 1] - 1
                    if at > stack[depth, 2]:
                        stack[depth, 1] = at
                        depth += 1
                else:
                    step = stack[depth, 0]
                    at = stack[depth, 1]
                break
            if failed or steps > MOST:
                found[row] = 0
                break


@compiled(f"void({DATA}, int32[::1], int32[::1], uint8[::1])")
def copy(data: Bytes, starts: Ints, offsets: Ints, room: Bytes) -> None:
    """Put parts of `data` one behind the other; `offsets` tells where each begins, and so how long it is."""
    for row in range(len(starts)):
        start = starts[row]
        begin = offsets[row]
        for at in range(offsets[row + 1] - begin):
            room[begin + at] = data[start + at]


@compiled(f"void({DATA}, int32[::1], int32[::1], int64[::1], uint8[::1])")
def numbers(data: Bytes, starts: Ints, ends: Ints, values: Longs, valid: Bytes) -> None:
    """The whole numbers that stand in parts of `data`; what is none, or has more than 18 digits, is not valid."""
    for row in range(len(starts)):
        at = starts[row]
        end = ends[row]
        values[row] = 0
        valid[row] = 0
        if at < 0:
            continue
        negative = at < end and data[at] == 45
        if negative:
            at += 1
        if end <= at or end - at > 18:
            continue
        value = np.int64(0)
        good = True
        for place in range(at, end):
            digit = np.int64(data[place]) - 48
            if digit < 0 or digit > 9:
                good = False
                break
            value = value * 10 + digit
        if good:
            values[row] = -value if negative else value
            valid[row] = 1
