"""The broker's log and its refusals: no traceback, no forged line, and one sentence if it does not start.

Invariants:
- Every line has the format of the log or is a sentence of the command (`slackwater: …`), so a traceback or any other
  stray output is a violation.
- No line has a control character. No message starts with FORGED, which hostile ids put after a line break.
- A broker that does not start exits by itself with one sentence. The sentence names a path in the data directory, or
  the directory, and says what to do.
"""

import re
from pathlib import Path
from typing import Final

from tests.chaos.oracles import first_examples

FORGED: Final = "forged-by-chaos"
_LINE: Final = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*) \([\w.]+\)"
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ADVICE: Final = re.compile(
    r"\b(add|change|delete|fix|free|give|move|raise|remove|rename|repair|replace|restore|set|start|stop|use|write)\b",
    re.I,
)
_CAUSES: Final = {"Too many open files": "limit", "No space left on device": "free"}
"""Errors of the system, and the word that advice about them has."""
_REFUSAL: Final = "slackwater: "
_QUOTED: Final = 300


def check_log(text: str) -> list[str]:
    """Check complete lines of the log of a broker that started."""
    violations = []
    for line in text.split("\n")[:-1]:
        match = _LINE.fullmatch(line)
        if match is None and line.startswith(_REFUSAL):
            continue
        if match is None:
            position = text.index(line)
            violations.append(
                f"a line does not have the format of the log:\n{text[max(position - _QUOTED, 0) :][:4000]}"
            )
            break  # the rest of a traceback
        if match[2].startswith(FORGED):
            violations.append(f"a client forged a line: {line!r}")
        elif _CONTROL.search(line):
            violations.append(f"a line has a control character: {line[:_QUOTED]!r}")
    return first_examples(violations)


def warnings_about(text: str, *names: str) -> list[str]:
    """Return the warnings and errors that contain all these names."""
    lines = [match for line in text.split("\n") if (match := _LINE.fullmatch(line))]
    return [match[2] for match in lines if match[1] in ("WARNING", "ERROR") and all(name in match[2] for name in names)]


def refusal(text: str, exit_code: int | None, data: Path) -> str:
    """Return the sentence of a broker that did not start; raise `ValueError` with what is wrong with it."""
    if exit_code is None:
        raise ValueError(f"the broker neither started nor exited:\n{text[-4000:]}")
    sentences = [line for line in text.split("\n")[:-1] if not _LINE.fullmatch(line)]
    sentence = " ".join(line.strip() for line in sentences).removeprefix(_REFUSAL)
    if "Traceback" in text or not sentences or not sentences[0].startswith(_REFUSAL) or exit_code < 0:
        raise ValueError(f"the broker exited with {exit_code} and without a sentence:\n{text[-4000:]}")
    if str(data) not in sentence or "None" in sentence or not _ADVICE.search(sentence):
        raise ValueError(f"the refusal does not name the file and what to do: {sentence}")
    for cause, advice in _CAUSES.items():
        if cause in sentence and advice not in sentence.lower():
            raise ValueError(f"the refusal does not say what to do about {cause!r}: {sentence}")
    return sentence
