"""From what was seen and recorded to numbers and a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from federation.edge.machine import boottime
from fedq.drill.ground import Ground
from fedq.drill.history import Verdict, check, read_history
from fedq.drill.records import Kind, Record
from fedq.drill.result import Metrics
from fedq.drill.runs import Run

BESIDE_LATER = ("attempts ran together", "started after")
"""In the checker's sentences about runs of an attempt beside a later one."""
SUSPECT = ("suspect", "fenced", "lost")
"""Phases in which a cluster is shown that gets no new work because it is silent."""


def verdict(ground: Ground) -> Verdict:
    """The checker's word on the jobs of this drill."""
    return check(read_history(ground.stack.history), ground.submitted.values(), boottime())


def longest_overlap(ground: Ground) -> float:
    """The overlap of the job that has most of it."""
    records, now = read_history(ground.stack.history), boottime()
    each = (check(records, [job], now).overlap_s for job in ground.submitted.values())
    return max(each, default=0.0)


def longest_late(found: Sequence[Run]) -> float:
    """How long the longest run lasted that started after one of a later attempt had."""
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in found:
        by_job[run.subject.job].append(run)
    return max(
        (
            run.end - run.start
            for runs in by_job.values()
            for run in runs
            if any(o.subject.attempt > run.subject.attempt and o.start < run.start for o in runs)
        ),
        default=0.0,
    )


def expect_refused(ground: Ground) -> None:
    """No attempt committed anything once a later one had claimed the checkpoint token."""
    mine = {job.uid for job in ground.submitted.values()}
    records = [r for r in read_history(ground.stack.history) if r.subject.job in mine]
    claims = [record for record in records if record.kind is Kind.CLAIMED]
    ground.expect.at_least("attempts that claimed a checkpoint token", len(claims), len(mine), "")
    late = stale(records, Kind.COMMITTED)
    ground.expect.equal("commits of given-up attempts that the store took", len(late), 0)
    refused = stale(records, Kind.REFUSED)
    ground.expect.remark(
        f"{len(refused)} commits of given-up attempts were tried after they woke, and refused by"
        " the store of their checkpoints (tier C)"
        if refused
        else "the guard was faster: no given-up attempt came to try a commit"
    )


def stale(records: Sequence[Record], kind: Kind) -> list[Record]:
    """Commits that began after a later attempt of the job had claimed its token."""
    claims: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for record in records:
        if record.kind is Kind.CLAIMED:
            claims[record.subject.job].append((record.subject.attempt, record.at))
    return [
        record
        for record in records
        if record.kind is kind
        and any(
            attempt > record.subject.attempt and at < record.at
            for attempt, at in claims[record.subject.job]
        )
    ]


def measure(ground: Ground, judged: Verdict) -> Metrics:
    """The numbers of a drill."""
    found = ground.runs()
    detected = [shown for c in ground.victims if (shown := ground.shown(c, *SUSPECT)) is not None]
    ends = [run.end for run in stopped(found, ground.victims, ground.fault_at)]
    again = [run.start for run in reruns(found, ground.victims, ground.fault_at)]
    return Metrics(
        detect_s=min(detected, default=None),
        stop_s=max(ends) - ground.fault_at if ends else None,
        rerun_s=max(again) - ground.fault_at if again else None,
        overlap_s=judged.overlap_s,
        lost_jobs=judged.lost_jobs,
        duplicate_starts=judged.duplicate_starts,
        wasted_gpu_s=judged.wasted_gpu_s,
    )


def stopped(found: Sequence[Run], clusters: Sequence[str], moment: float) -> list[Run]:
    """Runs on these clusters that lived at `moment` and ended without success."""
    return [
        run
        for run in found
        if run.subject.cluster in clusters
        and run.start < moment <= run.end
        and not run.succeeded
        and not run.open
    ]


def reruns(found: Sequence[Run], clusters: Sequence[str], moment: float) -> list[Run]:
    """Of each job that ran on these clusters at `moment`: the first run of a later attempt."""
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in found:
        by_job[run.subject.job].append(run)
    first = []
    for own in by_job.values():
        old = [r for r in own if r.subject.cluster in clusters and r.start < moment <= r.end]
        if not old:
            continue
        before = max(run.subject.attempt for run in old)
        later = [r for r in own if r.subject.attempt > before and r.start >= moment]
        first += sorted(later, key=lambda run: run.start)[:1]
    return first
