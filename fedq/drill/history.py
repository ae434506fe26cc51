"""The verdict about a drill, from the records that the processes of jobs wrote of themselves.

Nothing here looks at a status of Fedq's: what it claims is what is to be checked. Rules:

- Two attempts of a job never run at once, unless its policy is `duplicate-ok`.
- An attempt belongs to one cluster. It may run there again after it was held, or with a pod that
  failed; it never has more pods at once than the job has, nor any after all of them succeeded.
- Once an attempt has started, no earlier one starts.
- Every job that was submitted finishes: one of its attempts has enough pods that end with 0.
- Runs on one card never use more of it than there is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedq.drill.card_use import overused
from fedq.drill.records import Kind, Record, read_history
from fedq.drill.runs import Run, runs

__all__ = ["Submitted", "Verdict", "check", "read_history", "runs"]


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was submitted: UID, how many pods it runs at once, how many have to succeed."""

    uid: str
    pods: int = 1
    completions: int = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened. Times in seconds, summed over jobs; GPU-seconds weighted with cards.

    `tolerated_overlap_s` is that of jobs with `duplicate-ok`. `wasted_gpu_s` is what ran without
    its result being used: interrupted runs, and every attempt but the one that finished first.
    """

    overlap_s: float = 0.0
    lost_jobs: int = 0
    duplicate_starts: int = 0
    wasted_gpu_s: float = 0.0
    violations: list[str] = field(default_factory=list)
    tolerated_overlap_s: float = 0.0


def check(
    records: Sequence[Record],
    submitted: Iterable[Submitted],
    now: float,
    memory: Mapping[str, float] | None = None,
) -> Verdict:
    """Judge a history. Runs of jobs that are not `submitted` count for the use of cards only.

    `now` is CLOCK_BOOTTIME of when the records were read. `memory` is how many MiB a card has, by
    UUID; of cards that are not in it only the cores are checked.
    """
    found = runs(records, now)
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in found:
        by_job[run.subject.job].append(run)
    verdicts = [_check_job(job, by_job.get(job.uid, [])) for job in submitted]
    damaged = [f"damaged history: {r.reason}" for r in records if r.kind is Kind.DAMAGED]
    return Verdict(
        overlap_s=sum(verdict.overlap_s for verdict in verdicts),
        lost_jobs=sum(verdict.lost_jobs for verdict in verdicts),
        duplicate_starts=sum(verdict.duplicate_starts for verdict in verdicts),
        wasted_gpu_s=sum(verdict.wasted_gpu_s for verdict in verdicts),
        violations=[
            *(text for verdict in verdicts for text in verdict.violations),
            *overused(found, memory or {}),
            *damaged,
        ],
        tolerated_overlap_s=sum(verdict.tolerated_overlap_s for verdict in verdicts),
    )


def _check_job(job: Submitted, found: list[Run]) -> Verdict:
    """The verdict about one job; `found` are its runs by their start."""
    winner = _winner(job, found)
    overlap, first = _overlap(found)
    tolerated = any(run.subject.policy == "duplicate-ok" for run in found)
    problems = [(run, text) for i, run in enumerate(found) if (text := _start(job, found, i))]
    violations = [f"job {job.uid}: {_words(run)} {text}" for run, text in problems]
    if overlap and not tolerated:
        violations.append(
            f"job {job.uid}: attempts ran together for {overlap:.2f} s, first at {first:.2f}"
        )
    if winner is None:
        violations.append(f"job {job.uid}: no attempt finished; it had {len(found)} runs")
    used = [run for run in found if run.succeeded and run.subject.attempt == winner]
    wasted = [run for run in found if run not in used and not (winner is None and run.open)]
    return Verdict(
        overlap_s=0.0 if tolerated else overlap,
        lost_jobs=int(winner is None),
        duplicate_starts=len(problems),
        wasted_gpu_s=sum(run.seconds * run.subject.gpus for run in wasted),
        violations=violations,
        tolerated_overlap_s=overlap if tolerated else 0.0,
    )


def _winner(job: Submitted, found: list[Run]) -> int | None:
    """The attempt that finished first; None if none did."""
    succeeded: dict[int, int] = defaultdict(int)
    for run in sorted((run for run in found if run.succeeded), key=lambda run: run.end):
        succeeded[run.subject.attempt] += 1
        if succeeded[run.subject.attempt] == job.completions:
            return run.subject.attempt
    return None


def _overlap(found: list[Run]) -> tuple[float, float]:
    """For how long runs of two or more attempts ran at once, and when that began first."""
    edges = sorted(
        (moment, change, run.subject.attempt)
        for run in found
        for since, until in run.spans
        for moment, change in ((since, 1), (until, -1))
    )
    running: dict[int, int] = defaultdict(int)
    total, first, before = 0.0, 0.0, 0.0
    for moment, change, attempt in edges:
        if sum(1 for count in running.values() if count > 0) > 1 and moment > before:
            first = first or before
            total += moment - before
        running[attempt] += change
        before = moment
    return total, first


def _start(job: Submitted, found: list[Run], index: int) -> str:
    """Why this run should not have started when it did; '' if it was right."""
    run = found[index]
    own, earlier = run.subject, found[:index]
    same = [other for other in earlier if other.subject.attempt == own.attempt]
    if other := next((o for o in same if o.subject.cluster != own.cluster), None):
        return f"started though that attempt had run on {other.subject.cluster}"
    if later := next((o for o in earlier if o.subject.attempt > own.attempt), None):
        return f"started after {_words(later)} had"
    if sum(1 for other in same if other.succeeded and other.end <= run.start) >= job.completions:
        return "started though that attempt had succeeded"
    together = sum(1 for other in same if other.runs_at(run.start))
    if together >= job.pods:
        return f"started beside {together} of the same attempt; {job.pods} may run at once"
    others = [other for other in earlier if other.subject.attempt != own.attempt]
    beside = next((other for other in others if other.runs_at(run.start)), None)
    if beside is not None and "duplicate-ok" not in (own.policy, beside.subject.policy):
        return f"started while {_words(beside)} ran"
    return ""


def _words(run: Run) -> str:
    subject = run.subject
    return f"attempt {subject.attempt} on {subject.cluster} ({subject.name or subject.pod})"
