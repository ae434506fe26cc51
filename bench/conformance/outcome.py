"""What a replay has found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Outcome:
    """What came out differently: `mismatches` fail the scenario, `hints` do not."""

    scenario: str
    mismatches: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
