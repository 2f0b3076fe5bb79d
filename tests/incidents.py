"""The labelled incidents in `tests/data/incidents/`: unpacked once, into `.cache/`.

Each incident has a directory with `broker.log`, `clients/*.log`, `consumer_offsets.jsonl`, and its labels in
`truth.json`.
`tests/data/incidents/README.md` describes how they were recorded.
"""

import hashlib
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_ARCHIVE: Final = Path(__file__).resolve().parent / "data" / "incidents" / "incidents.tar.xz"


@cache
def incidents_directory() -> Path:
    """Unpack the archive unless this version of it is unpacked already, and return the directory.

    Several test processes may do this at the same time: each unpacks into a directory of its own, and the first rename
    wins.
    """
    digest = hashlib.sha256(_ARCHIVE.read_bytes()).hexdigest()[:16]
    target = _ROOT / ".cache" / f"incidents-{digest}"
    if target.is_dir():
        return target
    target.parent.mkdir(exist_ok=True)
    unpacked = Path(tempfile.mkdtemp(prefix="incidents-", dir=target.parent))
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(unpacked, filter="data")
    try:
        os.rename(unpacked, target)
    except OSError:
        shutil.rmtree(unpacked)
        if not target.is_dir():
            raise
    return target
