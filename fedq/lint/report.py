"""Findings as text for people, or JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedq.lint.finding import Line, Severity

_CODES = {Severity.REFUSED: 2, Severity.WARNING: 1, Severity.INFO: 0}


def exit_code(lines: Sequence[Line]) -> int:
    """0 clean (infos are no reason to stop), 1 warnings, 2 something would be refused."""
    return max((_CODES[line.severity] for line in lines), default=0)


def text(lines: Sequence[Line], objects: int, files: int) -> str:
    """One line each, and the summary as the last."""
    shown = [
        f"{x.file}:{x.line} {x.object}: {x.severity}: {x.message} — {x.todo} [{x.rule}]"
        for x in lines
    ]
    return "\n".join([*map(_printable, shown), summary(lines, objects, files)])


def _printable(line: str) -> str:
    """On one line, without what a terminal would obey or cannot show."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(line.split()))


def summary(lines: Sequence[Line], objects: int, files: int) -> str:
    """Counts."""
    counts = Counter(line.severity for line in lines)
    return (
        f"{_many(objects, 'object')} in {_many(files, 'file')}:"
        f" {counts[Severity.REFUSED]} refused, {_many(counts[Severity.WARNING], 'warning')},"
        f" {_many(counts[Severity.INFO], 'info')}"
    )


def data(lines: Sequence[Line], objects: int, files: int) -> dict[str, Any]:
    """The same for programs."""
    counts = Counter(line.severity for line in lines)
    return {
        "findings": list(lines),
        "objects": objects,
        "files": files,
        "refused": counts[Severity.REFUSED],
        "warnings": counts[Severity.WARNING],
        "infos": counts[Severity.INFO],
        "exitCode": exit_code(lines),
    }


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
