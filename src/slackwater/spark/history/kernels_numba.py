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

from typing import Final

import numpy as np
from numpy.typing import NDArray

from slackwater.spark.history.keywords import END_SLOTS, FACTOR, HASH_BITS, TRIPLE
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
_LOWS: Final = np.uint64(0x0101_0101_0101_0101)
_HIGHS: Final = np.uint64(0x8080_8080_8080_8080)
_LINE_FEEDS: Final = np.uint64(0x0A0A_0A0A_0A0A_0A0A)
_RETURNS: Final = np.uint64(0x0D0D_0D0D_0D0D_0D0D)
DATED: Final = 0
OTHER: Final = 1
WRAPPED: Final = 2
"""How a line begins, as a place in the sieve's table of words of which one is enough."""
_ENDS: Final = f"Tuple([int16[::1], int32[::1], int32[::1], {DATA}, int64])"
_POOL: Final = f"Tuple([int32[::1], {DATA}])"
_WORDS: Final = f"Tuple([int16[::1], int32[::1], int32[::1], int32[::1], int32[::1], {DATA}])"
_SIEVE: Final = f"Tuple([{DATA}, {_ENDS}, {_POOL}, {_WORDS}, uint64[::1], uint64[::1]])"
EndTables = tuple[NDArray[np.int16], Ints, Ints, Bytes, int]
WordTables = tuple[NDArray[np.int16], Ints, Ints, Ints, Ints, Bytes]
SieveTables = tuple[Bytes, EndTables, tuple[Ints, Bytes], WordTables, Bits, Bits]


@compiled(f"boolean({DATA}, int64, int64, {_ENDS})")
def ends_with(data: Bytes, start: int, end: int, words: EndTables) -> bool:
    """Whether what stands behind a text's last dot is one of some words (`Ends` describes the tables)."""
    heads, following, begins, pool, longest = words
    at = end - 1
    last = max(start, end - 1 - longest)
    while at >= last and data[np.uint64(at)] != 46:
        at -= 1
    if at < last or at + 1 >= end:
        return False
    first = at + 1
    length = end - first
    word = np.int64(heads[(length * 8 + np.int64(data[first])) % END_SLOTS])
    while word >= 0:
        begin = begins[word]
        if begins[word + 1] - begin == length:
            same = 0
            while same < length and data[first + same] == pool[begin + same]:
                same += 1
            if same == length:
                return True
        word = np.int64(following[word])
    return False


@compiled(f"boolean({DATA}, int64, int64, {_POOL})")
def indented(data: Bytes, start: int, end: int, words: tuple[Ints, Bytes]) -> bool:
    """Whether the first thing in a text that is no white space is one of some words."""
    begins, pool = words
    at = start
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
                return True
    return False


@compiled(f"boolean({DATA}, int64, int64, {_WORDS}, uint64, uint64[::1])")
def has_words(data: Bytes, start: int, end: int, words: WordTables, once: np.uint64, pairs: Bits) -> bool:
    """Whether a text has a word of which one is enough, or all words of a pair (`Keywords` describes the tables)."""
    heads, following, begins, shifts, numbers, pool = words
    if end - start < TRIPLE:
        return False
    found = np.uint64(0)
    triple = np.uint32(data[start]) << np.uint32(8) | np.uint32(data[start + 1]) << np.uint32(16)
    for at in range(start, end - TRIPLE + 1):
        third = data[np.uint64(at + 2)]
        triple = np.uint32(triple >> np.uint32(8)) | np.uint32(np.uint32(third) << np.uint32(16))
        word = heads[np.uint32(np.uint32(triple) * np.uint32(FACTOR)) >> np.uint32(32 - HASH_BITS)]
        while word >= 0:
            begin = begins[word]
            length = begins[word + 1] - begin
            first = at - shifts[word]
            if first >= start and length <= end - first:
                same = 0
                while same < length and data[first + same] == pool[begin + same]:
                    same += 1
                if same == length:
                    found |= np.uint64(1) << np.uint64(numbers[word])
                    if found & once:
                        return True
            word = following[word]
    whole = False
    for place in range(len(pairs)):
        whole |= found & pairs[place] == pairs[place]
    return whole


@compiled(f"boolean({DATA}, int64, int64, {DATA})")
def begins_with(data: Bytes, start: int, end: int, word: Bytes) -> bool:
    """Whether a text begins with a word."""
    same = 0
    while same < len(word) and same < end - start and data[start + same] == word[same]:
        same += 1
    return same == len(word)


@compiled(f"int64({DATA}, Array(uint64, 1, 'C', readonly=True), int64, int64, {_SIEVE}, int32[::1], int32[::1])")
def kept(data: Bytes, eights: Bits, begin: int, end: int, sieve: SieveTables, starts: Ints, stops: Ints) -> int:
    """Set where the lines of `data[begin:end]` that a sieve keeps start and stop; how many they are.

    `eights` are the same bytes, by eight: most of them end no line, which is seen at once. The sieve is taken apart
    once: numba counts who holds its tables, and for every line that would take longer than most lines do.
    """
    dated, loggers, settings, words, once, pairs = sieve
    no_pairs = pairs[:0]
    count = 0
    start = begin
    at = begin
    while at <= end:
        if at & 7 == 0:
            while at + 8 <= end:
                eight = eights[np.uint64(at >> 3)]
                feeds = eight ^ _LINE_FEEDS
                returns = eight ^ _RETURNS
                if ((feeds - _LOWS) & ~feeds | (returns - _LOWS) & ~returns) & _HIGHS:
                    break
                at += 8
        if at == end or data[np.uint64(at)] == 10 or data[np.uint64(at)] == 13:
            if at == start:
                matters = False
            elif begins_with(data, start, at, dated):
                matters = not ends_with(data, start, at, loggers) and has_words(
                    data, start, at, words, once[DATED], no_pairs
                )
            elif data[start] == 9:
                matters = indented(data, start, at, settings)
            elif data[start] == 123:
                matters = has_words(data, start, at, words, once[WRAPPED], pairs)
            else:
                matters = has_words(data, start, at, words, once[OTHER], no_pairs)
            if matters:
                stop = at
                while data[stop - 1] == 32:
                    stop -= 1
                starts[count] = start
                stops[count] = stop
                count += 1
            start = at + 1
        at += 1
    return count


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
            third = data[np.uint64(at + 2)]
            triple = np.uint32(triple >> np.uint32(8)) | np.uint32(np.uint32(third) << np.uint32(16))
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
