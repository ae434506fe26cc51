"""Running many drills: one after the other on each of a few rigs, side by side.

Drills wait most of the time, so two rigs on a small machine take half the time of one. Those that
need the whole machine come first, while there is but one rig.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fedq.drill.drill import Drill, Need
from fedq.drill.prepare import Bench
from fedq.drill.result import Outcome, Result
from fedq.drill.running import Tell, run_one
from fedq.rig.errors import RigError


def run_all(drills: Sequence[Drill], benches: Sequence[Bench], tell: Tell) -> list[Result]:
    """The results in the order of `drills`. Ctrl-C mends what is broken, then is raised."""
    return asyncio.run(_run_all(drills, benches, tell))


async def _run_all(drills: Sequence[Drill], benches: Sequence[Bench], tell: Tell) -> list[Result]:
    todo, results = list(drills), dict[str, Result]()
    if len(benches) > 1:  # the longest first, so that no lane is left with one at the end
        todo.sort(key=lambda drill: (Need.PROXIES in drill.needs, -drill.workers, -drill.seconds))

    async def lane(bench: Bench, todo: list[Drill]) -> None:
        while (drill := _next(todo, bench.workers)) is not None:
            todo.remove(drill)
            results[drill.name] = await _one(drill, bench, tell)

    first, *others = benches
    await asyncio.to_thread(first.up)
    if others:
        await lane(first, [drill for drill in todo if drill.alone])
        todo = [drill for drill in todo if not drill.alone]
    for bench in others:
        await asyncio.to_thread(bench.up)
    async with asyncio.TaskGroup() as group:
        for bench in benches:
            group.create_task(lane(bench, todo))
    return [results[drill.name] for drill in drills]


def _next(todo: Sequence[Drill], workers: int) -> Drill | None:
    return next((drill for drill in todo if drill.workers <= workers), None)


async def _one(drill: Drill, bench: Bench, tell: Tell) -> Result:
    def say(text: str) -> None:
        tell(f"{drill.name}: {text.strip()}")

    say(drill.shows)
    try:
        ready = await asyncio.to_thread(bench.ready, drill)
    except RigError as error:
        ready = Result(drill.name, drill.number, drill.shows, Outcome.FAILED, reasons=[str(error)])
    if not isinstance(ready, Result):
        ready = await run_one(drill, *ready, say)
    say(f"{ready.outcome.value} ({ready.seconds:.0f} s)")
    for reason in ready.reasons:
        say(f"because: {reason}")
    for remark in ready.remarks:
        say(f"note: {remark}")
    return ready
