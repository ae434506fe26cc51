"""The faults under which MultiKueue was measured, with Fedq in its place: better on every line.

Three clusters, one of them the management cluster, as there. What was measured of the peer is in
`LINES`, and in docs/performance/failover.md beside what is measured here.
"""

from __future__ import annotations

import asyncio
import statistics

from fedq.drill.cases import peer_config, peer_cuts, worker_cut
from fedq.drill.cases.peer_line import PATIENCE_S, Line, compare, runs_by_job
from fedq.drill.faults.processes import kill
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.timeline import Timeline, What


async def peer_faults(ground: Ground) -> None:
    """All lines, one after the other."""
    for line in LINES:
        await compare(ground, line)
    again = [
        name
        for name, runs in runs_by_job(ground, ground.submitted).items()
        if len(runs) != len({run.subject.attempt for run in runs})
    ]
    ground.expect.equal("jobs of which an attempt was started twice", again, [])


async def e9_latency(ground: Ground) -> str:
    """Latency of an idle system, 20 jobs of one second, one after the other."""
    to_start, to_end, to_show = [], [], []
    for number in range(20):
        began = ground.timeline.mark(What.NOTE, detail="submitted").at
        (name,) = await ground.submit(Plan(1, 1, prefix=f"single-{number:02d}"))
        await ground.complete([name], 30)
        to_start.append(ground.timeline.find(What.STARTED, job=name)[0].at - began)
        to_end.append(ground.timeline.find(What.FINISHED, job=name)[0].at - began)
        to_show.append(shown_after(ground.timeline, name))
    start, end, show = map(statistics.median, (to_start, to_end, to_show))
    ground.expect.at_most("median, submitted to started", start, 0.30)
    ground.expect.at_most("median, submitted to Complete", end, 2.38)
    ground.expect.at_most("median, status of the copy to that of the Job", show, 1.02)
    return (
        f"{start:.2f} s to the start, {end:.2f} s to the end of a job of 1 s, {show:.2f} s from a"
        " change of a copy's status to the same on the Job (medians of 20)"
    )


def shown_after(timeline: Timeline, name: str) -> float:
    """Seconds from the first status of a copy that counts a pod to the first one of its Job that
    does, or has come to its end meanwhile.
    """
    active = timeline.find(What.ACTIVE, job=name)
    there = next(mark.at for mark in active if mark.cluster)
    here = [mark.at for mark in active if not mark.cluster]
    here += [mark.at for mark in timeline.find(What.FINISHED, job=name)]
    return max(0.0, min(here) - there)  # less than 0: the watches raced


async def short_cut(ground: Ground) -> str:
    """A cut that is shorter than the lease."""
    await worker_cut.short_cut(ground)
    return "nothing changed"


async def e7_manager_killed(ground: Ground) -> str:
    """The manager is killed among 50 jobs of 3 s, and started 5 s later; three times."""
    rig, stranded, twice = ground.stack.rig, 0, 0
    for number, moment in enumerate((1.0, 3.0, 6.0)):
        burst = asyncio.create_task(ground.submit(Plan(50, 3, prefix=f"killed{number}")))
        await asyncio.sleep(moment)  # when it is killed is what differs between the runs
        ground.strike(note=f"the manager is killed after {moment:g} s")
        await kill(rig, "manager")
        await ground.past(5)
        await asyncio.to_thread(rig.restart, "manager")
        ground.heal("it is started again")
        names = await burst
        await ground.complete(names, PATIENCE_S)
        counts = [len(runs) for runs in runs_by_job(ground, names).values()]
        stranded += counts.count(0)
        twice += sum(count > 1 for count in counts)
    ground.expect.equal("jobs that never ran", stranded, 0)
    ground.expect.equal("jobs that were started more than once", twice, 0)
    return f"{stranded} of 150 jobs stranded, {twice} started twice"


LINES = (
    Line("E9", "0.30 s, 2.38 s and 1.02 s", e9_latency),
    Line(
        "E1",
        "23 of 23 jobs ran twice, 23 of 23 healthy runs deleted at the heal, then shown running"
        " for ever",
        peer_cuts.e1_partition,
    ),
    Line("E2", "with its defaults nothing happens in 190 s, nor is said", peer_cuts.e2_in_time),
    Line("E1, short", "a cut of 20 s moves the jobs with a timeout of 15 s", short_cut),
    Line("E3", "4 of 4 got a second copy at once, without a limit", peer_config.e3_left_out),
    Line(
        "E4, all back",
        "4.0 to 5.2 s after the heal",
        peer_cuts.e4_all_back,
    ),
    Line("E4, one back", "0 of 5 offered to it within 50 s", peer_cuts.e4_one_back),
    Line("E5", "5 of 6 stuck without a message", peer_config.e5_namesake),
    Line("E6", "first after 33.1 s, median 36.1 s, last 38.3 s: none before", peer_cuts.e6_silent),
    Line("E7", "10 of 300 stranded, 1 of 300 started twice", e7_manager_killed),
    Line("E8", "copy gone 8.2 to 22.4 s after the heal", peer_cuts.e8_deleted),
    Line(
        "C5",
        "0 of 2 moved in 70 s, one that was deleted ran on",
        peer_config.c5_object_deleted,
    ),
    Line("C10", "12 starts and 11 deletions per job in 45 s", peer_config.c10_one_origin),
    Line(
        "C16",
        "a deactivated job ran on, until 15.6 s after the config was there again",
        peer_config.c16_config_deleted,
    ),
)
