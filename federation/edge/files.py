"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace `path` in one step, so that a reader or a crash never meets half a file. Its folder
    is made if it is missing. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    data = content.encode() if isinstance(content, str) else content
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, mode)  # whatever the umask is
        stream.write(data)
    temporary.replace(path)
