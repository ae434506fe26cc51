"""What a drill found: numbers, expectations, and a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from fedq.drill.runs import Run
from fedq.drill.timeline import Mark


class Outcome(StrEnum):
    """Only `passed` is good."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_HELD = "not held"
    """The guarantee needs a higher tier than the one that the drill ran with."""
    SKIPPED = "skipped"
    """It could not be run here, or not to its end."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Seconds from the fault; None where it does not apply or was not seen.

    `detect_s`: until the manager showed the first of the clusters as suspect. `stop_s`: until the
    last process was gone that had to stop. `rerun_s`: until the last moved job ran again. The rest
    is the checker's, see `history`.
    """

    detect_s: float | None = None
    stop_s: float | None = None
    rerun_s: float | None = None
    overlap_s: float = 0.0
    lost_jobs: int = 0
    duplicate_starts: int = 0
    wasted_gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One expectation and what was found; numbers are in the texts."""

    what: str
    wanted: str
    found: str
    held: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.found} (wanted: {self.wanted})"


@dataclass(frozen=True, slots=True)
class Result:
    """One drill. `fault_at` is the moment from which times are counted, on the clock of `marks`."""

    name: str
    number: str
    shows: str
    outcome: Outcome
    reasons: list[str] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)
    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What has to be known beside the outcome, such as a bound of the tier that was reached."""
    marks: list[Mark] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    fault_at: float = 0.0
    seconds: float = 0.0
    profile: str = "fast"
    tier: str = "A"
    how: str = ""
    """What made the fault, where that matters (namespaces or proxies)."""
    job_names: dict[str, str] = field(default_factory=dict)
    """UID → name of the jobs in `runs`."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the numbers on top, times in seconds from the fault."""
        return {
            "name": self.name,
            "number": self.number,
            "shows": self.shows,
            "outcome": self.outcome.value,
            "reasons": self.reasons,
            "remarks": self.remarks,
            **rounded(self.metrics),
            "findings": [asdict(finding) for finding in self.findings],
            "timeline": [
                {**asdict(mark), "at": round(mark.at - self.fault_at, 3), "what": mark.what.value}
                for mark in self.marks
            ],
            "runs": [
                {
                    "job": self.job_names.get(run.subject.job, run.subject.job),
                    "attempt": run.subject.attempt,
                    "cluster": run.subject.cluster,
                    "spans": [[round(t - self.fault_at, 3) for t in span] for span in run.spans],
                    "exit": run.exit,
                }
                for run in self.runs
            ],
            "seconds": round(self.seconds, 1),
            "profile": self.profile,
            "tier": self.tier,
            "how": self.how,
        }


def rounded(metrics: Metrics) -> dict[str, float | int | None]:
    """The numbers as they are printed."""
    values = asdict(metrics).items()
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in values}


class Expectations:
    """Collects findings. A number that was never seen holds nothing."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.remarks: list[str] = []

    def at_most(self, what: str, found: float | None, limit: float, unit: str = "s") -> None:
        """`found` must be there and not be larger."""
        held = found is not None and found <= limit
        self._add(what, f"at most {limit:g} {unit}", _number(found, unit), held)

    def at_least(self, what: str, found: float | None, limit: float, unit: str = "s") -> None:
        """`found` must be there and not be smaller."""
        held = found is not None and found >= limit
        self._add(what, f"at least {limit:.4g} {unit}", _number(found, unit), held)

    def equal(self, what: str, found: object, wanted: object) -> None:
        """Both must be the same."""
        self._add(what, str(wanted), str(found), found == wanted)

    def true(self, what: str, found: bool, otherwise: str = "not so") -> None:
        """It must be so; `otherwise` says what was found instead."""
        self._add(what, "yes", "yes" if found else otherwise, found)

    def remark(self, text: str) -> None:
        """To be told beside the outcome, whatever that is."""
        self.remarks.append(text)

    def _add(self, what: str, wanted: str, found: str, held: bool) -> None:
        self.findings.append(Finding(what, wanted, found, held))

    @property
    def broken(self) -> list[str]:
        """What did not hold, as sentences."""
        return [str(finding) for finding in self.findings if not finding.held]


def _number(value: float | None, unit: str) -> str:
    return "never seen" if value is None else f"{value:.2f} {unit}".rstrip()
