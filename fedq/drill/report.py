"""Results as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedq.drill.result import Outcome, Result, rounded
from fedq.drill.timeline import Mark, What
from fedq.output import columns

QUIET = (What.RENEWED, What.ACTIVE)
"""Marks that are too many to be told one by one."""


def as_json(results: Sequence[Result]) -> str:
    """All of it, for programs."""
    value: dict[str, Any] = {
        "drills": [result.as_dict() for result in results],
        "passed": sum(result.outcome is Outcome.PASSED for result in results),
        "total": len(results),
    }
    return json.dumps(value, indent=1)


def as_text(results: Sequence[Result]) -> str:
    """A paragraph for each drill, then the table."""
    return "\n\n".join([*(paragraph(result) for result in results), table(results)])


def table(results: Sequence[Result]) -> str:
    """One line for each drill, why some were skipped, and how many ended in which way."""
    headings = (
        "DRILL", "OUTCOME", "DETECT_S", "STOP_S", "RERUN_S", "OVERLAP_S", "LOST", "DUPLICATES",
        "WASTED_GPU_S", "TOOK_S",
    )  # fmt: skip
    rows = []
    for result in results:
        numbers = rounded(result.metrics).values()
        ran = result.outcome is not Outcome.SKIPPED
        shown = ["-" if value is None or not ran else value for value in numbers]
        word = result.outcome.value + (" (see note)" if result.remarks else "")
        rows.append([result.name, word, *shown, f"{result.seconds:.0f}"])
    counts = Counter(result.outcome for result in results)
    summary = ", ".join(
        f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome]
    )
    skipped = [
        f"{result.name} was skipped: {'; '.join(result.reasons)}"
        for result in results
        if result.outcome is Outcome.SKIPPED
    ]
    return "\n".join([columns(headings, rows), *skipped, summary or "no drill was run"])


def paragraph(result: Result) -> str:
    """What one drill showed: conditions, timeline, expectations, reasons."""
    number = f" ({result.number})" if result.number else ""
    lines = [
        f"{result.name}{number}: {result.outcome.value.upper()}",
        f"  {result.shows}",
        f"  profile {result.profile}, tier {result.tier}"
        + (f"; {result.how}" if result.how else ""),
    ]
    lines += [f"  {line}" for line in timeline(result)]
    for finding in result.findings:
        lines.append(f"  {'ok  ' if finding.held else 'NOT '} {finding}")
    lines += [f"  because: {reason}" for reason in result.reasons]
    lines += [f"  note: {remark}" for remark in result.remarks]
    return "\n".join(lines)


def timeline(result: Result) -> list[str]:
    """The marks as lines; equal ones that follow each other closely are told once, with a count."""
    groups: list[tuple[Mark, int]] = []
    for mark in result.marks:
        if mark.what in QUIET:
            continue
        before = groups[-1][0] if groups else None
        if before is not None and _alike(before, mark):
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((mark, 1))
    return [_line(mark, count, result.fault_at) for mark, count in groups]


def _alike(one: Mark, other: Mark) -> bool:
    same = (one.what, one.cluster, one.detail) == (other.what, other.cluster, other.detail)
    return same and other.at - one.at < 2.0


def _line(mark: Mark, count: int, zero: float) -> str:
    about = f"{count} jobs" if count > 1 and mark.job else mark.job
    words = [word for word in (mark.cluster, about, mark.detail) if word]
    return f"{mark.at - zero:+8.2f} s  {mark.what.value:<13}{' '.join(words)}"
