"""Running drills one after the other, each to a Result whatever happens in it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace

from federation.edge.errors import ApiError
from fedq.drill.drill import Drill
from fedq.drill.faults.link import Link
from fedq.drill.ground import Conditions, Ground, Stuck, standing
from fedq.drill.judge import BESIDE_LATER, longest_late, longest_overlap, measure, verdict
from fedq.drill.result import Outcome, Result
from fedq.rig.errors import RigError
from fedq.stack import Stack

Tell = Callable[[str], None]


class Unsuited(Exception):
    """A drill finds that it cannot be run here; its text says why."""


def blank(drill: Drill, conditions: Conditions) -> Result:
    """A result in which nothing has happened yet."""
    return Result(
        drill.name,
        drill.number,
        drill.shows,
        Outcome.SKIPPED,
        profile=conditions.profile,
        tier=conditions.tier,
    )


async def run_one(
    drill: Drill, stack: Stack, link: Link, conditions: Conditions, tell: Tell
) -> Result:
    """Run it and judge what happened, also when it got stuck on the way."""
    started = time.monotonic()
    result, trouble = blank(drill, conditions), ""
    ground: Ground | None = None
    try:
        async with standing(stack, link, conditions, drill.name, tell) as ground:
            try:
                await drill.run(ground)
            except Stuck as stuck:
                trouble = str(stuck)
            # Before the jobs are deleted: what is deleted would be counted as stopped.
            result = _judge(drill, ground, result, trouble)
    except Unsuited as unsuited:
        return replace(result, reasons=[str(unsuited)])
    except (Stuck, RigError, ApiError, OSError, TimeoutError) as error:
        # In the course of a drill anything may fail; the next one has to run all the same.
        text = str(error) or type(error).__name__
        result = replace(result, outcome=Outcome.FAILED, reasons=[*result.reasons, text])
        tell(traceback.format_exc())
    return replace(result, seconds=time.monotonic() - started)


def _expect_seen(ground: Ground, overlap_s: float) -> None:
    """What ran beside a later attempt was ended when the guard looked."""
    longest, late = longest_overlap(ground), longest_late(ground.runs())
    ground.expect.at_most("longest overlap of a job", longest, ground.unseen_s)
    ground.expect.at_most("longest run that began after a later attempt", late, ground.unseen_s)
    if overlap_s:
        ground.expect.remark(
            f"attempts ran together for {overlap_s:.2f} s in all, for {longest:.2f} s of one job at"
            " most: what wakes after the end of the lease runs until the guard has"
            f" seen it, which tier B cannot exclude ({ground.unseen_s:g} s at most)"
        )


def _judge(drill: Drill, ground: Ground, result: Result, trouble: str) -> Result:
    judged = verdict(ground)
    violations = judged.violations
    if ground.unseen_s:
        _expect_seen(ground, judged.overlap_s)
        violations = [text for text in violations if not any(w in text for w in BESIDE_LATER)]
    reasons = [*([trouble] if trouble else []), *violations, *ground.expect.broken]
    outcome = Outcome.FAILED if reasons else Outcome.PASSED
    if drill.tier > ground.conditions.tier:
        outcome = Outcome.NOT_HELD
        reasons.insert(0, f"guarantee not held, tier {ground.conditions.tier}")
    return replace(
        result,
        outcome=outcome,
        reasons=reasons,
        metrics=measure(ground, judged),
        findings=ground.expect.findings,
        remarks=ground.expect.remarks,
        marks=ground.timeline.marks,
        runs=ground.runs(),
        fault_at=ground.fault_at,
        how=ground.link.how,
        job_names={job.uid: name for name, job in ground.submitted.items()},
    )
