r"""Escapes control characters, so that an id or a record cannot forge a log line or send commands to a terminal.

Line breaks, other control characters (C0, DEL, C1), U+2028, U+2029, bidirectional formatting and lone surrogates are
escaped: `\x1b` below U+0080, `\u202e` above. All other text stays as it is, in every script.

Invariants:
- `escape` is for values and can be undone: a backslash that begins the text of an escape is escaped, too.
- `escape_line` is for finished lines, which may have escaped values; to apply it twice changes nothing.
- Loggers of this package come from `get_logger`, so that lines are safe under any logging configuration.
"""

import logging
import re
import traceback
from typing import Final

_UNSAFE: Final = (
    "\x00-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff"  # line and paragraph separator, bidirectional formatting
    "\ud800-\udfff"
)
_ESCAPE_TEXT: Final = r"\\(?=x[0-9a-f]{2}|u[0-9a-f]{4})"
_IN_VALUES: Final = re.compile(f"[{_UNSAFE}]|{_ESCAPE_TEXT}")
_IN_LINES: Final = re.compile(f"[{_UNSAFE}]")
_ESCAPES: Final = re.compile(r"\\(?:x([0-7][0-9a-f])|u(?!d[89a-f])([0-9a-f]{4}))")


def escape(value: str) -> str:
    """Escape a value; `unescape` returns it."""
    return value if value.isprintable() and "\\" not in value else _IN_VALUES.sub(_escaped, value)


def escape_line(line: str) -> str:
    """Escape a line that is complete."""
    return line if line.isprintable() else _IN_LINES.sub(_escaped, line)


def escape_json(document: str) -> str:
    """Escape a JSON document without line breaks; it stays the same document."""
    return document if document.isprintable() else _IN_LINES.sub(_json_escaped, document)


def unescape(value: str) -> str:
    """Return the value that `escape` made this text of; lone surrogates, which no encoding can write, stay escaped."""
    return _ESCAPES.sub(_unescaped, value) if "\\" in value else value


def get_logger(name: str) -> logging.Logger:
    """Return a logger that escapes its lines before a handler sees them."""
    logger = logging.getLogger(name)
    logger.addFilter(_escape_record)
    return logger


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"


def _json_escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1] or match[2], 16))


def _escape_record(record: logging.LogRecord) -> bool:
    line = record.getMessage()
    if not line.isprintable():
        record.msg, record.args = escape_line(line), ()
    if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
        record.exc_text = _escape_traceback(record.exc_info[1])
    return True


def _escape_traceback(error: BaseException) -> str | None:
    """Return the traceback with escaped messages; None if there is nothing to escape."""
    text = "".join(traceback.format_exception(error)).rstrip("\n")
    escaped, chained = text, _chain(error)
    for message in map(str, chained):
        if not message.isprintable():
            escaped = escaped.replace(message, escape_line(message))
    escaped = "\n".join(map(escape_line, escaped.split("\n")))
    return None if escaped == text else escaped


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception with its causes."""
    chain, pending = list[BaseException](), [error]
    while pending:
        current = pending.pop()
        if current not in chain:
            chain.append(current)
            pending += filter(None, (current.__cause__, current.__context__))
    return chain
