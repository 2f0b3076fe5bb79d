"""The loops over the bytes of many texts, compiled.

Rules kept here
- A text is a place in `data`, from its start to its end. No index leaves it: compiled code that reads outside takes the
  process with it.
- All compiles when this module is imported (seconds, once; then it comes from the cache beside this file), and runs
  without the interpreter's lock.
- In the busiest loops an index has no sign: then nothing looks whether it counts from the end, and LLVM sees a copy of
  memory where there is one.
- A text that takes more than `MOST` steps to match does not match: no text may hold up a history.
"""

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from slackwater.spark.doctor.history.keywords import END_SLOTS, FACTOR, HASH_BITS, TRIPLE
from slackwater.spark.doctor.history.patterns import AT_END, END, GREEDY, JUMP, LAZY, LITERAL, ONE_OF, SAVE, SPLIT
from slackwater.wire.records.compiling import DATA, compiled

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bits = NDArray[np.uint64]

U = np.uint64
"""What makes a number an index."""
MOST: Final = 1_000_000
UNDO: Final = -1
GIVE_BACK: Final = -2
_TABLE: Final = "Array(uint8, 2, 'C', readonly=True)"
_CODE: Final = "Array(int32, 2, 'C', readonly=True)"
DATED: Final = 0
OTHER: Final = 1
WRAPPED: Final = 2
INDENTED: Final = 3
KEPT: Final = 4
GONE: Final = 5
"""How a line begins: the first three are also places in the sieve's table of words of which one is enough. And then
what becomes of it."""
_HOWS: Final = "int32[::1], int32[::1], uint8[::1]"
_ENDS: Final = f"Tuple([int16[::1], int32[::1], int32[::1], {DATA}, int64])"
_POOL: Final = f"Tuple([int32[::1], {DATA}])"
_WORDS: Final = f"Tuple([int64, int16[::1], int32[::1], int32[::1], int32[::1], int32[::1], {DATA}])"
_SIEVE: Final = f"Tuple([{DATA}, {_ENDS}, {_POOL}, {_WORDS}, uint64[::1], uint64[::1]])"
EndTables = tuple[NDArray[np.int16], Ints, Ints, Bytes, int]
WordTables = tuple[int, NDArray[np.int16], Ints, Ints, Ints, Ints, Bytes]
SieveTables = tuple[Bytes, EndTables, tuple[Ints, Bytes], WordTables, Bits, Bits]

memchr: Any = types.ExternalFunction("memchr", types.uintp(types.uintp, types.intc, types.uintp))
"""The C library's, which looks at many bytes at a time."""


@compiled(f"int64({DATA}, int64, int64, {DATA}, {_HOWS})")
def split(data: Bytes, begin: int, end: int, dated: Bytes, starts: Ints, stops: Ints, hows: Bytes) -> int:
    """Set where the lines of `data[begin:end]` start and stop, and how they begin; how many they are."""
    base = np.uintp(data.ctypes.data)
    count = 0
    start = np.int64(begin)
    feed = carriage = np.int64(begin - 1)
    while start < end:
        if feed < start:
            found = memchr(base + np.uintp(start), 10, np.uintp(end - start))
            feed = np.int64(found - base) if found else np.int64(end)
        if carriage < start:
            found = memchr(base + np.uintp(start), 13, np.uintp(end - start))
            carriage = np.int64(found - base) if found else np.int64(end)
        stop = min(feed, carriage)
        if stop > start:
            same = 0
            while same < len(dated) and start + same < stop and data[start + same] == dated[same]:
                same += 1
            first = data[start]
            how = DATED if same == len(dated) else INDENTED if first == 9 else WRAPPED if first == 123 else OTHER
            starts[count] = start
            stops[count] = stop
            hows[count] = how
            count += 1
        start = stop + 1
    return count


@compiled(f"void({DATA}, int64, {_ENDS}, {_HOWS})")
def drop_by_end(data: Bytes, count: int, words: EndTables, starts: Ints, stops: Ints, hows: Bytes) -> None:
    """Drop the dated lines that have one of these words behind their last dot (`Ends` describes the tables)."""
    heads, following, begins, pool, longest = words
    for row in range(count):
        if hows[row] != DATED:
            continue
        end = np.uint64(stops[row])
        low = np.uint64(max(starts[row], stops[row] - longest - 1))
        first = end
        while first > low and data[first - np.uint64(1)] != 46:
            first -= np.uint64(1)
        length = end - first
        if first == low or length == 0:
            continue
        word = heads[(length * np.uint64(8) + np.uint64(data[first])) % np.uint64(END_SLOTS)]
        while word >= 0:
            begin = np.uint64(begins[word])
            same = np.uint64(0)
            if np.uint64(begins[word + 1]) - begin == length:
                while same < length and data[first + same] == pool[begin + same]:
                    same += np.uint64(1)
            if same == length:
                hows[row] = GONE
                break
            word = following[word]


@compiled(f"void({DATA}, int64, {_POOL}, {_HOWS})")
def keep_by_setting(data: Bytes, count: int, words: tuple[Ints, Bytes], starts: Ints, stops: Ints, hows: Bytes) -> None:
    """Keep the indented lines in which the first thing that is no white space is one of these words."""
    begins, pool = words
    for row in range(count):
        if hows[row] != INDENTED:
            continue
        hows[row] = GONE
        at = starts[row]
        end = stops[row]
        while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
            at += 1
        for word in range(len(begins) - 1):
            begin = begins[word]
            length = begins[word + 1] - begin
            if length <= end - at:
                same = 0
                while same < length and data[at + same] == pool[begin + same]:
                    same += 1
                if same == length:
                    hows[row] = KEPT
                    break


@compiled(f"void({DATA}, int64, {_WORDS}, uint64[::1], uint64[::1], {_HOWS})")
def keep_by_words(
    data: Bytes, count: int, words: WordTables, once: Bits, pairs: Bits, starts: Ints, stops: Ints, hows: Bytes
) -> None:
    """Keep the lines that have a word of which one is enough for lines that begin so; wrapped ones, all of a pair.

    `Keywords` describes the tables.
    """
    stride, heads, following, begins, shifts, numbers, pool = words
    for row in range(count):
        how = hows[row]
        if how > WRAPPED:
            continue
        enough = once[how]
        start, end = np.int64(starts[row]), np.int64(stops[row])
        found = np.uint64(0)
        for at in range(start, end - TRIPLE + 1, stride):
            triple = (
                np.uint32(data[np.uint64(at)])
                | np.uint32(data[np.uint64(at + 1)]) << np.uint32(8)
                | np.uint32(data[np.uint64(at + 2)]) << np.uint32(16)
            )
            word = heads[np.uint32(np.uint32(triple) * np.uint32(FACTOR)) >> np.uint32(32 - HASH_BITS)]
            while word >= 0:
                begin = begins[np.uint64(word)]
                length = begins[np.uint64(word + 1)] - begin
                first = at - shifts[np.uint64(word)]
                if first >= start and length <= end - first:
                    same = 0
                    while same < length and data[np.uint64(first + same)] == pool[np.uint64(begin + same)]:
                        same += 1
                    if same == length:
                        found |= np.uint64(1) << np.uint64(numbers[np.uint64(word)])
                word = np.int16(following[np.uint64(word)])
            if found & enough:
                break
        matters = found & enough != 0
        if how == WRAPPED:
            for place in range(len(pairs)):
                matters |= found & pairs[place] == pairs[place]
        hows[row] = KEPT if matters else GONE


@compiled(f"int64({DATA}, int64, int64, {_SIEVE}, {_HOWS})")
def kept(data: Bytes, begin: int, end: int, sieve: SieveTables, starts: Ints, stops: Ints, hows: Bytes) -> int:
    """Set where the lines of `data[begin:end]` that a sieve keeps start and stop; how many they are.

    All lines go through one part of the sieve after the other: numba counts who holds its tables, and for every line
    that would take longer than most lines do.
    """
    dated, loggers, settings, words, once, pairs = sieve
    lines = split(data, begin, end, dated, starts, stops, hows)
    drop_by_end(data, lines, loggers, starts, stops, hows)
    keep_by_setting(data, lines, settings, starts, stops, hows)
    keep_by_words(data, lines, words, once, pairs, starts, stops, hows)
    count = 0
    for row in range(lines):
        if hows[row] == KEPT:
            stop = stops[row]
            while data[stop - 1] == 32:
                stop -= 1
            starts[count] = starts[row]
            stops[count] = stop
            count += 1
    return count


@compiled(
    f"void({DATA}, int32[::1], int32[::1], uint64[::1], int64, int16[::1], int32[::1], int32[::1], int32[::1],"
    f"int32[::1], {DATA}, uint64[:, ::1])"
)
def contained(
    data: Bytes,
    starts: Ints,
    ends: Ints,
    always: Bits,
    stride: int,
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
        start = np.int64(starts[row])
        for at in range(start, end - TRIPLE + 1, stride):
            triple = (
                np.uint32(data[np.uint64(at)])
                | np.uint32(data[np.uint64(at + 1)]) << np.uint32(8)
                | np.uint32(data[np.uint64(at + 2)]) << np.uint32(16)
            )
            word = heads[np.uint32(np.uint32(triple) * np.uint32(FACTOR)) >> np.uint32(32 - HASH_BITS)]
            while word >= 0:
                begin = begins[np.uint64(word)]
                length = begins[np.uint64(word + 1)] - begin
                first = at - shifts[np.uint64(word)]
                if first >= start and length <= end - first:
                    same = 0
                    while same < length and data[np.uint64(first + same)] == pool[np.uint64(begin + same)]:
                        same += 1
                    if same == length:
                        number = numbers[np.uint64(word)]
                        found[row, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
                word = np.int16(following[np.uint64(word)])


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
            places[U(row), U(place)] = -1
        end = np.int64(ends[row])
        at = np.int64(starts[row])
        step = 0
        depth = 0
        steps = 0
        while True:
            steps += 1
            what = code[U(step), 0]
            one = code[U(step), 1]
            failed = False
            if what == LITERAL:
                length = code[U(step), 2]
                if end - at < length:
                    failed = True
                else:
                    for letter in range(length):
                        if data[U(at + letter)] != pool[U(one + letter)]:
                            failed = True
                            break
                    at += length
                    step += 1
            elif what == ONE_OF:
                if at < end and sets[U(one), data[U(at)]]:
                    at += 1
                    step += 1
                else:
                    failed = True
            elif what == LAZY:
                follow = code[U(step), 2]
                while at < end and not sets[U(follow), data[U(at)]] and sets[U(one), data[U(at)]]:
                    at += 1
                if at < end:
                    if sets[U(follow), data[U(at)]]:
                        if sets[U(one), data[U(at)]]:
                            stack[U(depth), 0] = step
                            stack[U(depth), 1] = at + 1
                            depth += 1
                        step += 1
                    else:
                        failed = True
                elif sets[U(follow), AT_END]:
                    step += 1
                else:
                    failed = True
            elif what == GREEDY:
                least = at
                while at < end and sets[U(one), data[U(at)]]:
                    at += 1
                if at > least and not code[U(step), 2]:
                    stack[U(depth), 0] = GIVE_BACK - step
                    stack[U(depth), 1] = at
                    stack[U(depth), 2] = least
                    depth += 1
                step += 1
            elif what == SAVE:
                stack[U(depth), 0] = UNDO
                stack[U(depth), 1] = one
                stack[U(depth), 2] = places[U(row), U(one)]
                depth += 1
                places[U(row), U(one)] = at
                step += 1
            elif what == SPLIT:
                stack[U(depth), 0] = code[U(step), 2]
                stack[U(depth), 1] = at
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
                if stack[U(depth), 0] == UNDO:
                    places[U(row), U(stack[U(depth), 1])] = stack[U(depth), 2]
                    continue
                failed = False
                if stack[U(depth), 0] <= GIVE_BACK:
                    step = GIVE_BACK - stack[U(depth), 0] + 1
                    at = stack[U(depth), 1] - 1
                    if at > stack[U(depth), 2]:
                        stack[U(depth), 1] = at
                        depth += 1
                else:
                    step = stack[U(depth), 0]
                    at = stack[U(depth), 1]
                break
            if failed or steps > MOST:
                found[row] = 0
                break


@compiled(f"void({DATA}, int32[::1], int32[::1], uint8[::1])")
def copy(data: Bytes, starts: Ints, offsets: Ints, room: Bytes) -> None:
    """Put parts of `data` one behind the other; `offsets` tells where each begins, and so how long it is."""
    for row in range(len(starts)):
        start = np.uint64(starts[row])
        begin = np.uint64(offsets[row])
        for at in range(np.uint64(offsets[row + 1] - offsets[row])):
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


@compiled(f"void({DATA}, int32[::1], int32[::1], {DATA}, int64[:, ::1], uint8[::1])")
def fields(data: Bytes, starts: Ints, ends: Ints, layout: Bytes, values: Longs, found: Bytes) -> None:
    """The numbers in texts that begin as the layout: a digit wherever it has a 0, and else the same bytes."""
    for row in range(len(starts)):
        found[row] = 0
        start = np.int64(starts[row])
        if start < 0 or ends[row] - start < len(layout):
            continue
        place = field = 0
        value = np.int64(0)
        while place < len(layout):
            byte = data[U(start + place)]
            if layout[U(place)] == 48:
                if byte < 48 or byte > 57:
                    break
                value = value * 10 + np.int64(byte) - 48
            elif byte != layout[U(place)]:
                break
            place += 1
            if layout[U(place - 1)] == 48 and (place == len(layout) or layout[U(place)] != 48):
                values[U(field), U(row)] = value
                value = np.int64(0)
                field += 1
        if place == len(layout):
            found[row] = 1
