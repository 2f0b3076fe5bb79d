"""Generates straight-line code that encodes one message in one version from its layout.

Invariants:
- Encoded messages can be decoded: a value that does not fit its field or its version raises.
- Tagged fields are encoded in the order of their tags, and only if they differ from their default, as in Kafka.
- Every failure becomes a `WireError` that names the field.

The code appends pieces to a list, which is joined once. Adjacent fixed-size fields are packed together with the length
of the field after them, or with the first byte of a varint length, because nearly all have one byte. The byte 0 at the
end of a structure without tagged fields is padding in the same call. The code of Heartbeat v4:

    def write(m0, out):
        try:
            b1 = m0.group_id.encode()
            n2 = len(b1) + 1
            b3 = m0.member_id.encode()
            n4 = len(b3) + 1
            ...
            out += (ONE[n2] if n2 < 128 else short(n2), b1,
                    p_iB(m0.generation_id, n4) if n4 < 128 else p_i(m0.generation_id) + short(n4), b3, ...)
        except EXCEPTIONS as error:
            raise explain(m0) from error
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from slackwater.wire.decode_errors import encode_error
from slackwater.wire.fields import MAX_STRING_BYTES
from slackwater.wire.schema import ARRAY, STRING, STRUCT, UUID, FieldType, Layout, Message, VersionedField, layout

Piece: TypeAlias = bytes | memoryview
Write: TypeAlias = Callable[[Message, list[Piece]], None]

ENCODE_EXCEPTIONS: Final = (struct.error, ValueError, TypeError, AttributeError, OverflowError)
_ONE: Final = [bytes([value]) for value in range(128)]
_SMALL: Final = 64


def writer(message: type[Message], version: int) -> Write:
    """Generate the function (message, pieces) that appends the message's bytes to the pieces."""
    source, names = write_source(message, version)
    exec(compile(source, f"<write {message.__name__} v{version}>", "exec"), names)
    function: Write = names["write"]  # type: ignore[assignment]  # defined by exec
    return function


def write_source(message: type[Message], version: int) -> tuple[str, dict[str, object]]:
    """Return the generated code and the names that it uses."""
    root = layout(message, version)
    code = _WriteCode(root)
    code.names["explain"] = partial(encode_error, root, f"{message.__name__} v{version}")
    return code.finish(), code.names


def varint(value: int) -> bytes:
    """Encode an unsigned integer, seven bits per byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _short(length: int) -> bytes:
    """Encode a string's length plus one; a compact string has the same maximum as a plain one."""
    if length > MAX_STRING_BYTES + 1:
        raise ValueError
    return varint(length)


class _WriteCode:
    """The generated lines, the pieces that are not appended yet, and the fixed-size fields of the next piece."""

    def __init__(self, root: Layout) -> None:
        self.flexible = root.flexible
        self.names: dict[str, object] = {
            "ONE": _ONE,
            "EXCEPTIONS": ENCODE_EXCEPTIONS,
            "varint": varint,
            "short": _short,
            "pack": struct.pack,
        }
        self.lines: list[str] = []
        self.depth = 2
        self.count = 0
        self.out = "out"
        self.pieces: list[str] = []
        self.codes = ""
        self.values: list[str] = []
        self.structure(root, "m0")
        self.append_pieces()

    def finish(self) -> str:
        """Return the complete function."""
        head = ["def write(m0, out):", "    try:"]
        tail = ["    except EXCEPTIONS as error:", "        raise explain(m0) from error", ""]
        return "\n".join([*head, *(self.lines or ["        pass"]), *tail])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def packed(self, codes: str, values: list[str]) -> str:
        """Return an expression that packs values."""
        if not values:
            return repr(bytes(len(codes)))
        name = "p_" + codes.replace("?", "t")
        self.names[name] = struct.Struct(">" + codes).pack
        return f"{name}({', '.join(values)})"

    def pack_fixed_fields(self) -> None:
        """Turn the adjacent fixed-size fields into a piece."""
        if self.codes:
            self.pieces.append(self.packed(self.codes, self.values))
            self.codes, self.values = "", []

    def length(self, n: str, code: str, *, more: str = "varint") -> None:
        """Pack a length after the fixed-size fields."""
        if not self.flexible:
            self.codes += code
            self.values.append(n)
            self.pack_fixed_fields()
            return
        codes, values = self.codes, self.values
        self.codes, self.values = "", []
        if codes:
            quick = self.packed(codes + "B", [*values, n])
            self.pieces.append(f"{quick} if {n} < 128 else {self.packed(codes, values)} + {more}({n})")
        else:
            self.pieces.append(f"ONE[{n}] if {n} < 128 else {more}({n})")

    def append_pieces(self) -> None:
        """Generate code that appends the pieces."""
        self.pack_fixed_fields()
        if len(self.pieces) == 1:
            self.line(f"{self.out}.append({self.pieces[0]})")
        elif self.pieces:
            self.line(f"{self.out} += ({', '.join(self.pieces)})")
        self.pieces = []

    def structure(self, struct_layout: Layout, name: str) -> None:
        for field in struct_layout.must_be_default:
            self.line(f"if {self.differs(field, f'{name}.{field.name}')}:")
            self.line("    raise ValueError")
        for field in struct_layout.fields:
            self.value(field.field_type, f"{name}.{field.name}")
        if struct_layout.tagged:
            self.tagged(struct_layout, name)
        elif struct_layout.flexible:
            self.codes += "x"

    def differs(self, field: VersionedField, name: str) -> str:
        """Return a condition: the field differs from its default."""
        if field.field_type.kind is STRUCT and field.default_value() is not None:
            inner = field.field_type.struct_layout
            fields = " or ".join(
                self.differs(nested, f"{name}.{nested.name}") for nested in inner.fields + inner.tagged
            )
            if field.factory is not None:
                return f"{name} is None or {fields}" if field.field_type.nullable else fields
            shared = self.fresh("d")
            self.names[shared] = field.default
            return f"{name} is not {shared} and ({fields})"
        if field.factory is not None:
            return f"{name} is None or {name}" if field.field_type.nullable else name
        return f"{name} is not None" if field.default is None else f"{name} != {field.default!r}"

    def value(self, field_type: FieldType, name: str) -> None:
        kind = field_type.kind
        if kind is UUID:
            raw = self.fresh("b")
            self.line(f"{raw} = {name}")
            self.line(f"if len({raw}) != {kind.size}:")  # struct would truncate or pad it
            self.line("    raise ValueError")
            name = raw
        if kind.code:
            self.codes += kind.code
            self.values.append(name)
        elif kind is STRUCT:
            self.nested(field_type, name)
        elif kind is ARRAY:
            self.array(field_type, name)
        else:
            self.blob(field_type, name)

    def measured(self, field_type: FieldType, name: str, empty: str, convert: str) -> tuple[str, str]:
        """Return variables with a value, never None, and its encoded length."""
        value, n = self.fresh("b"), self.fresh("n")
        plus, null = (" + 1", "0") if self.flexible else ("", "-1")
        if not field_type.nullable:
            self.line(f"{value} = {name}{convert}")
            self.line(f"{n} = len({value}){plus}")
            return value, n
        self.line(f"{value} = {name}")
        self.line(f"if {value} is None:")
        self.line(f"    {value} = {empty}")
        self.line(f"    {n} = {null}")
        self.line("else:")
        if convert:
            self.line(f"    {value} = {value}{convert}")
        self.line(f"    {n} = len({value}){plus}")
        return value, n

    def blob(self, field_type: FieldType, name: str) -> None:
        """A string, bytes or records."""
        text = field_type.kind is STRING
        value, n = self.measured(field_type, name, 'b""', ".encode()" if text else "")
        self.length(n, "h" if text else "i", more="short" if text else "varint")
        self.pieces.append(value)

    def array(self, field_type: FieldType, name: str) -> None:
        items, n = self.measured(field_type, name, "()", "")
        self.length(n, "i")
        element = field_type.element_type
        code = element.kind.code
        if len(code) == 1:
            many = f"many_{code.replace('?', 't')}"
            self.names[many] = [struct.Struct(f">{count}{code}").pack for count in range(_SMALL)]
            quick = f"{many}[len({items})](*{items})"
            self.pieces.append(f'{quick} if len({items}) < {_SMALL} else pack(f">{{len({items})}}{code}", *{items})')
            return
        self.append_pieces()
        item = self.fresh("m")
        self.line(f"for {item} in {items}:")
        self.depth += 1
        before = len(self.lines)
        if element.kind is STRUCT:
            self.structure(element.struct_layout, item)
        else:
            self.value(element, item)
        self.pack_fixed_fields()
        if len(self.lines) == before and len(self.pieces) == 1:
            self.depth -= 1
            self.lines.pop()
            self.line(f"{self.out} += [{self.pieces.pop()} for {item} in {items}]")
            return
        self.append_pieces()
        self.depth -= 1

    def nested(self, field_type: FieldType, name: str) -> None:
        """A single structure; a nullable one starts with a byte that is negative for null."""
        inner = self.fresh("m")
        self.line(f"{inner} = {name}")
        if not field_type.nullable:
            self.structure(field_type.struct_layout, inner)
            return
        self.append_pieces()
        self.line(f"if {inner} is None:")
        self.line(f'    {self.out}.append(b"\\xff")')
        self.line("else:")
        self.depth += 1
        self.line(f'{self.out}.append(b"\\x01")')
        self.structure(field_type.struct_layout, inner)
        self.append_pieces()
        self.depth -= 1

    def tagged(self, struct_layout: Layout, name: str) -> None:
        """The tagged fields: their number, then tag, size and bytes of each."""
        self.append_pieces()
        outer, tags, count, inner = self.out, self.fresh("f"), self.fresh("n"), self.fresh("o")
        self.line(f"{tags} = []")
        self.line(f"{count} = 0")
        for field in struct_layout.tagged:
            self.line(f"if {self.differs(field, f'{name}.{field.name}')}:")
            self.depth += 1
            self.line(f"{count} += 1")
            self.line(f"{inner} = []")
            self.out = inner
            self.value(field.field_type, f"{name}.{field.name}")
            self.append_pieces()
            self.out = outer
            self.line(f'{inner} = b"".join({inner})')
            self.line(f"{tags} += (ONE[{field.tag}], varint(len({inner})), {inner})")
            self.depth -= 1
        self.line(f"{outer}.append(ONE[{count}])")
        self.line(f"{outer} += {tags}")
