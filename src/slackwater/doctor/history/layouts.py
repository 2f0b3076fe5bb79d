"""Removes what terminals, Markdown and loggers add around a message, so that the templates match the message.

Invariants:
- Only lines with a literal of a template are normalized.
- A line in a known layout stays as it is.
"""

import re
from typing import Final

_COLOUR: Final = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_COLOUR_WITHOUT_ESCAPE: Final = re.compile(r"\[(?:\d{1,2};)*\d{1,2}m", re.ASCII)
_QUOTE: Final = re.compile(r"^(?:\s*>\s?)+")
_MARKS_BEFORE: Final = re.compile(r"^(?:\*\*|`+)")
_MARKS_AFTER: Final = re.compile(r"(?:\*\*|`+)\s*$")
_BOLD_AFTER: Final = re.compile(r"(?<![\s*])\*\*$")
"""The end of bold text, and not the end of a name that was replaced by asterisks."""
_LOGGER_TAIL: Final = re.compile(r"( \([\w$]+(?:\.[\w$]+)+)(?::\d+)?\)(?: \[[^\]]*\])?\s*$", re.ASCII)
_FIELDS_TAIL: Final = re.compile(
    r"^(.* \((?:kafka|org\.apache\.kafka)\.[\w.$]+)(?::\d+)?\)[ ,;-].*$", re.ASCII | re.DOTALL
)
"""Kafka's layout ends with the logger: what follows the last one was appended."""
_CALLBACK: Final = re.compile(r"(?:\w*LOG-\d-|rdk:)?\b([A-Z_]{3,})(?:: |\] | )(?=\[thrd:)", re.ASCII)
_KAFKAJS_CREATOR: Final = re.compile(
    r'(\[(?:Consumer|ConsumerGroup|Runner|Connection)\] .*?):? (\{.*?)"logger":"kafkajs",(.*)$'
)


def normalize(text: str) -> str:
    """Return a line in the layout that the templates expect."""
    text = without_colours(text)
    if text[:1] in " >*`":
        text = _without_marks(text)
    if text.endswith("**"):
        text = _BOLD_AFTER.sub("", text)
    if text.endswith(("]", ")")):
        text = _LOGGER_TAIL.sub(r"\1)", text)
    elif " (kafka." in text or " (org.apache.kafka." in text:
        text = _FIELDS_TAIL.sub(r"\1)", text)
    if "[thrd:" in text and "#" not in text.partition("[thrd:")[0]:
        text = _CALLBACK.sub(r"\1|#consumer-0| ", text, count=1)
    if '"logger":"kafkajs"' in text and '"message":' not in text:
        text = _KAFKAJS_CREATOR.sub(r'\2"logger":"kafkajs","message":"\1",\3', text)
    return text


def without_colours(text: str) -> str:
    """Return a line without the escape sequences of a terminal."""
    if "\x1b" in text:
        return _COLOUR.sub("", text)
    return _COLOUR_WITHOUT_ESCAPE.sub("", text) if "0m" in text else text


def _without_marks(text: str) -> str:
    """Remove Markdown's quotes, and bold or code marks around the whole line."""
    quoted = _QUOTE.sub("", text)
    bare = _MARKS_BEFORE.sub("", quoted)
    return quoted if bare == quoted else _MARKS_AFTER.sub("", bare)
