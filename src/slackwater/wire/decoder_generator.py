"""Generates straight-line code that decodes one message in one version from its layout.

Invariants:
- The code reads forwards from `at` and must end exactly at the end of the bytes. Only a request may have bytes after
  it, which are ignored: Kafka accepts them, and librdkafka 2.16 sends them (Metadata v13).
- No length is trusted. An array is rejected unless its elements fit into the remaining bytes, and a request unless it
  has at most `MAX_REQUEST_ELEMENTS` array elements and tagged fields in total. A string or bytes field
  with a length beyond the end is sliced short; then `at` is past the end, and the next read or the final comparison
  fails. A valid message needs no further checks.
- Every failure becomes a `WireError` that names the field: `decode_errors` decodes the bytes again to find it.

Adjacent fixed-size fields are unpacked together with the length of the string or array after them. A varint length
contributes its first byte, because almost all are below 128. Objects are created without their `__init__`, and loops
are inlined instead of calling a function per element. The code of Heartbeat v4:

    def read(data, at):
        start = at
        size = len(data)
        budget = 50000
        try:
            m1 = new(HeartbeatRequest)
            n2 = data[at]
            at += 1
            if not 0 < n2 < 128:
                n2, at = present_text(data, at, n2)
            end = at + n2 - 1
            m1.group_id = data[at:end].decode()
            at = end
            m1.generation_id, n3 = u_iB(data, at)
            at += 5
            ...
            if at > size:
                raise ValueError
            return m1
        except EXCEPTIONS as error:
            raise explain(data, start) from error
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from slackwater.wire.decode_errors import decode_error
from slackwater.wire.fields import MAX_REQUEST_ELEMENTS, MAX_STRING_BYTES
from slackwater.wire.schema import (
    ARRAY,
    RECORDS,
    STRING,
    STRUCT,
    FieldType,
    Layout,
    Message,
    Request,
    Struct,
    VersionedField,
    layout,
    min_bytes,
)

Read: TypeAlias = Callable[[bytes, int], Message]

DECODE_EXCEPTIONS: Final = (struct.error, IndexError, ValueError)
VARINT_BYTES: Final = 5
_SMALL: Final = 64


def reader(message: type[Message], version: int) -> Read:
    """Generate the function (data, at) → message."""
    source, names = read_source(message, version)
    exec(compile(source, f"<read {message.__name__} v{version}>", "exec"), names)
    function: Read = names["read"]  # type: ignore[assignment]  # defined by exec
    return function


def read_source(message: type[Message], version: int) -> tuple[str, dict[str, object]]:
    """Return the generated code and the names that it uses."""
    root = layout(message, version)
    code = _ReadCode(root)
    code.names["explain"] = partial(decode_error, root, f"{message.__name__} v{version}")
    return code.finish(), code.names


def varint(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte is 128 or more; return its value and its end."""
    value = first & 0x7F
    for shift in range(7, 7 * VARINT_BYTES, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError


def present(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read the rest of a length plus one that must not be 0, which means null."""
    value, at = varint(data, at, first) if first else (0, at)
    if not value:
        raise ValueError
    return value, at


def text(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read the rest of a string's length plus one; a compact string has the same maximum as a plain one."""
    value, at = varint(data, at, first)
    if value > MAX_STRING_BYTES + 1:
        raise ValueError
    return value, at


def present_text(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read the rest of the length plus one of a string that must not be null."""
    value, at = present(data, at, first)
    if value > MAX_STRING_BYTES + 1:
        raise ValueError
    return value, at


def skip_tagged(data: bytes, at: int, count: int, budget: int) -> tuple[int, int]:
    """Return the end of unknown tagged fields and the rest of the budget; `count` is the first byte of their number."""
    if count > 127:
        count, at = varint(data, at, count)
    budget -= count
    if budget < 0:
        raise ValueError
    for _ in range(count):
        for _ in range(2):
            value = data[at]
            at += 1
            if value > 127:
                value, at = varint(data, at, value)
        at += value
    return at, budget


class _ReadCode:
    """The generated lines and the adjacent fixed-size fields that are not generated yet."""

    def __init__(self, root: Layout) -> None:
        self.flexible = root.flexible
        self.is_request = issubclass(root.struct, Request)
        self.lines: list[str] = []
        self.depth = 2
        self.count = 0
        self.codes = ""
        self.targets: list[str] = []
        self.names: dict[str, object] = {
            "new": object.__new__,
            "EXCEPTIONS": DECODE_EXCEPTIONS,
            "varint": varint,
            "present": present,
            "text": text,
            "present_text": present_text,
            "skip_tagged": skip_tagged,
            "unpack_from": struct.unpack_from,
        }
        self.top = self.structure(root)

    def finish(self) -> str:
        """Return the complete function."""
        head = ["def read(data, at):", "    start = at", "    size = len(data)"]
        if any("view[" in line for line in self.lines):
            head.append("    view = memoryview(data)")
        if any("budget" in line for line in self.lines):
            head.append(f"    budget = {MAX_REQUEST_ELEMENTS if self.is_request else 'size'}")
        self.line("if at > size:" if self.is_request else "if at != size:")
        self.line("    raise ValueError")
        self.line(f"return {self.top}")
        tail = ["    except EXCEPTIONS as error:", "        raise explain(data, start) from error", ""]
        return "\n".join([*head, "    try:", *self.lines, *tail])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def structure(self, struct_layout: Layout) -> str:
        """Generate code that reads a structure into a new variable."""
        name = self.fresh("m")
        kind = self.named(struct_layout.struct)
        to = f"{name}_" if struct_layout.frozen else f"{name}."  # the fields of a frozen structure are collected first
        if not struct_layout.frozen:
            self.line(f"{name} = new({kind})")
        for field in struct_layout.absent + struct_layout.tagged:
            self.default(field, to + field.name)
        for field in struct_layout.fields:
            self.value(field.field_type, to + field.name)
        if struct_layout.flexible:
            self.tagged(struct_layout, to)
        self.read_fixed_fields()
        if struct_layout.frozen:
            fields = struct_layout.fields + struct_layout.tagged + struct_layout.absent
            self.line(f"{name} = {kind}({', '.join(f'{field.name}={to}{field.name}' for field in fields)})")
        return name

    def named(self, kind: type[Struct]) -> str:
        self.names[kind.__name__] = kind
        return kind.__name__

    def default(self, field: VersionedField, target: str) -> None:
        if isinstance(field.default, Struct):
            name = self.fresh("d")
            self.names[name] = field.default
            self.line(f"{target} = {name}")
        elif field.factory is None:
            self.line(f"{target} = {field.default!r}")
        elif field.field_type.kind is ARRAY:
            self.line(f"{target} = []")
        else:
            name = self.fresh("m")
            self.line(f"{target} = {name} = new({self.named(field.field_type.struct_layout.struct)})")
            inner = field.field_type.struct_layout
            for nested in inner.fields + inner.tagged + inner.absent:
                self.default(nested, f"{name}.{nested.name}")

    def value(self, field_type: FieldType, target: str) -> None:
        kind = field_type.kind
        if kind.code:
            self.codes += kind.code
            self.targets.append(target)
        elif kind is STRUCT:
            self.nested(field_type, target)
        elif kind is ARRAY:
            self.array(field_type, target)
        else:
            self.blob(field_type, target)

    def length(self, code: str) -> str:
        """Read a length together with the fixed-size fields before it."""
        name = self.fresh("n")
        self.codes += "B" if self.flexible else code
        self.targets.append(name)
        self.read_fixed_fields()
        return name

    def read_fixed_fields(self) -> None:
        """Generate code for the adjacent fixed-size fields."""
        codes, targets = self.codes, self.targets
        if not targets:
            return
        self.codes, self.targets = "", []
        if codes == "B":
            self.line(f"{targets[0]} = data[at]")
            self.line("at += 1")
            return
        together = struct.Struct(">" + codes)
        name = "u_" + codes.replace("?", "t")
        self.names[name] = together.unpack_from
        self.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {name}(data, at)")
        self.line(f"at += {together.size}")

    def check_length(self, n: str, field_type: FieldType, target: str) -> bool:
        """Handle null and long lengths; return whether the code of the value is indented."""
        is_text = field_type.kind is STRING
        if self.flexible:
            if not field_type.nullable:
                self.line(f"if not 0 < {n} < 128:")
                self.line(f"    {n}, at = {'present_text' if is_text else 'present'}(data, at, {n})")
                return False
            self.line(f"if {n} > 127:")
            self.line(f"    {n}, at = {'text' if is_text else 'varint'}(data, at, {n})")
            if is_text:  # most nullable strings are null or empty
                self.line(f"if {n} < 2:")
                self.line(f'    {target} = "" if {n} else None')
            else:
                self.line(f"if not {n}:")
                self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
            return True
        self.line(f"if {n} < 0:")
        if not field_type.nullable:
            self.line("    raise ValueError")
            return False
        self.line(f"    {target} = None")
        self.line(f"    if {n} != -1:")
        self.line("        raise ValueError")
        self.line("else:")
        self.depth += 1
        return True

    def blob(self, field_type: FieldType, target: str) -> None:
        """A string, bytes or records."""
        n = self.length("h" if field_type.kind is STRING else "i")
        indented = self.check_length(n, field_type, target)
        self.line(f"end = at + {n} - 1" if self.flexible else f"end = at + {n}")
        source = "view" if field_type.kind is RECORDS else "data"
        self.line(f"{target} = {source}[at:end]{'.decode()' if field_type.kind is STRING else ''}")
        self.line("at = end")
        self.depth -= indented

    def array(self, field_type: FieldType, target: str) -> None:
        n = self.length("i")
        indented = self.check_length(n, field_type, target)
        if self.flexible:
            self.line(f"{n} -= 1")
        element = field_type.element_type
        each = min_bytes(element, self.flexible)
        too_long = f"{n}{f' * {each}' if each > 1 else ''} > size - at"
        if self.is_request:
            self.line(f"budget -= {n}")
            too_long += " or budget < 0"
        self.line(f"if {too_long}:")
        self.line("    raise ValueError")
        code = element.kind.code
        if len(code) == 1:
            name = f"many_{code.replace('?', 't')}"
            self.names[name] = [struct.Struct(f">{count}{code}").unpack_from for count in range(_SMALL)]
            self.line(f"if {n} < {_SMALL}:")
            self.line(f"    {target} = list({name}[{n}](data, at))")
            self.line("else:")
            self.line(f'    {target} = list(unpack_from(f">{{{n}}}{code}", data, at))')
            self.line(f"at += {n}{f' * {each}' if each > 1 else ''}")
        else:
            items = self.fresh("a")
            self.line(f"{target} = {items} = []")
            self.line(f"for _ in range({n}):")
            self.depth += 1
            if element.kind is STRUCT:
                self.line(f"{items}.append({self.structure(element.struct_layout)})")
            else:
                item = self.fresh("v")
                self.value(element, item)
                self.read_fixed_fields()
                self.line(f"{items}.append({item})")
            self.depth -= 1
        self.depth -= indented

    def nested(self, field_type: FieldType, target: str) -> None:
        """A single structure; a nullable one starts with a byte that is negative for null."""
        if not field_type.nullable:
            self.read_fixed_fields()
            self.line(f"{target} = {self.structure(field_type.struct_layout)}")
            return
        there = self.fresh("n")
        self.codes += "b"
        self.targets.append(there)
        self.read_fixed_fields()
        self.line(f"if {there} < 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"{target} = {self.structure(field_type.struct_layout)}")
        self.depth -= 1

    def tagged(self, struct_layout: Layout, to: str) -> None:
        """The tagged fields at the end of a structure; usually there are none."""
        n = self.length("")
        self.line(f"if {n}:")
        if not struct_layout.tagged:
            self.line(f"    at, budget = skip_tagged(data, at, {n}, budget)")
            return
        self.depth += 1
        self.line(f"if {n} > 127:")
        self.line(f"    {n}, at = varint(data, at, {n})")
        self.line(f"budget -= {n}")
        self.line("if budget < 0:")
        self.line("    raise ValueError")
        tag, stop = self.fresh("t"), self.fresh("e")
        self.line(f"for _ in range({n}):")
        self.depth += 1
        for variable in (tag, stop):
            self.line(f"{variable} = data[at]")
            self.line("at += 1")
            self.line(f"if {variable} > 127:")
            self.line(f"    {variable}, at = varint(data, at, {variable})")
        self.line(f"{stop} += at")
        for number, field in enumerate(struct_layout.tagged):
            self.line(f"{'elif' if number else 'if'} {tag} == {field.tag}:")
            self.depth += 1
            self.value(field.field_type, to + field.name)
            self.read_fixed_fields()
            self.depth -= 1
        self.line("else:")
        self.line(f"    at = {stop}")
        self.line(f"if at != {stop}:")
        self.line("    raise ValueError")
        self.depth -= 2
