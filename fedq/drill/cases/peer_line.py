"""One line of the comparison with MultiKueue, and what its steps share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from federation.edge.machine import boottime
from fedq.connect import Cluster
from fedq.drill.ground import Ground, Stuck
from fedq.drill.history import check, read_history
from fedq.drill.runs import Run
from fedq.drill.timeline import What
from fedq.investigating import investigate
from fedq.story import tell

PATIENCE_S = 240.0


@dataclass(frozen=True, slots=True)
class Line:
    """`peer` is what was measured there. `run` does the same here, states what is expected, and
    returns what came of it, in words and numbers; beside that, if a part of it took longer than
    there, as designed, which one and why.
    """

    number: str
    peer: str
    run: Callable[[Ground], Awaitable[str | tuple[str, str]]]


async def compare(ground: Ground, line: Line) -> None:
    """Run a line, number its findings, and say whether it is better than the peer. One that gets
    stuck is not, and the next one is run all the same.
    """
    ground.tell(f"  {line.number}: {(line.run.__doc__ or '').splitlines()[0]}")
    findings = ground.expect.findings
    before, slower = len(findings), ""
    try:
        found = await line.run(ground)
        if isinstance(found, tuple):
            found, slower = found
    except Stuck as stuck:
        found = str(stuck)
        ground.expect.true(f"the step of {line.number} came to its end", False, found)
    own = findings[before:]
    findings[before:] = [replace(one, what=f"{line.number} {one.what}") for one in own]
    better = all(one.held for one in own)
    word = "better than the peer" if better else "NOT better than the peer"
    if slower:
        word = f"{word}, and slower in one part ({slower})"
    ground.expect.remark(f"{line.number} {word}: {found} (MultiKueue: {line.peer})")


def twice(ground: Ground, names: Iterable[str]) -> int:
    """How many of these jobs ever ran twice at once, or were started though they should not."""
    records, now = read_history(ground.stack.history), boottime()
    verdicts = [check(records, [ground.submitted[name]], now) for name in names]
    return sum(bool(one.overlap_s or one.duplicate_starts) for one in verdicts)


def runs_by_job(ground: Ground, names: Iterable[str]) -> dict[str, list[Run]]:
    """The runs of these jobs, by name; one look at the records for all."""
    wanted = {ground.submitted[name].uid: name for name in names}
    found: dict[str, list[Run]] = {name: [] for name in wanted.values()}
    for run in ground.runs():
        if run.subject.job in wanted:
            found[wanted[run.subject.job]].append(run)
    return found


async def story(ground: Ground, name: str) -> str:
    """What `fedq why` says of a job now."""
    cluster = Cluster(ground.management, ground.namespace, ground.stack.rig)
    told = tell(await investigate(cluster, name, ground.namespace))
    return f"{told.text} {told.advice}"


def expect_told(ground: Ground, what: str, text: str, *words: str) -> None:
    """A person is told, in these words among others."""
    missing = [word for word in words if word not in text]
    ground.expect.true(f"`fedq why` says {what}", not missing, f"no {missing} in: {text}")


def healed_at(ground: Ground) -> float:
    """When the last fault ended."""
    return ground.timeline.find(What.HEALED)[-1].at
