"""What one sick worker costs the others: `python -m bench.hung --fault errors --jobs 200`.

Three workers. Alternately N Jobs that may run on two of them while the third is well, and N Jobs
that may run anywhere while the third is sick: its API server stands still (`hangs`: connections
stay open, nothing answers), or its etcd is dead (`errors`: the API server refuses what it is
asked). Both rates are those of the first nine tenths of the Jobs to complete: what was offered to
the sick one, before that showed, waits for the fence and is counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from bench.observer import Observer, observing
from bench.rigged import NAMESPACE, create_jobs, job, rigged
from federation.edge.kube import KubeClient
from fedq.drill.faults.processes import dead, frozen
from fedq.rig.rig import Rig
from fedq.stack import Stack

Json = dict[str, Any]
Fault = Callable[[Rig, str], AbstractAsyncContextManager[object]]
WORKERS = 3
SHARE = 0.9
FAULTS: dict[str, Fault] = {
    "hangs": lambda rig, worker: frozen(rig, f"{worker}/kube-apiserver"),
    "errors": lambda rig, worker: dead(rig, f"{worker}/etcd"),
}


async def rounds(stack: Stack, fault: Fault, jobs: int, count: int) -> Json:
    """Jobs a second of each round, well and sick in turn, and their ratio."""
    others, last = stack.rig.workers[:-1], stack.rig.workers[-1]
    well: list[float] = []
    sick: list[float] = []
    late: list[int] = []
    async with observing(stack, NAMESPACE) as (observer, clients):
        management = clients[stack.rig.management]
        for number in range(count):
            names = [f"well-{number}-{index:04d}" for index in range(jobs)]
            well.append(await _rate(management, observer, names, others))
            await observer.wait("complete", len(observer.created))
            names = [f"sick-{number}-{index:04d}" for index in range(jobs)]
            async with fault(stack.rig, last):
                sick.append(await _rate(management, observer, names, ()))
                late.append(len(observer.created) - len(observer.reached["complete"]))
            await observer.wait("complete", len(observer.created))
            await asyncio.to_thread(stack.wait_active)
    ratios = [a / b for a, b in zip(sick, well, strict=True)]
    return {
        "jobs": jobs,
        "jobs_per_s_well": [round(rate, 1) for rate in well],
        "jobs_per_s_sick": [round(rate, 1) for rate in sick],
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 3),
        "not_complete_while_it_was_sick": late,
    }


async def _rate(
    client: KubeClient, observer: Observer, names: list[str], clusters: Sequence[str]
) -> float:
    """Jobs a second, from the first create until nine tenths are complete. All Jobs before them
    are.
    """
    bodies = [job(name, seconds=1) for name in names]
    if clusters:
        for body in bodies:
            body["metadata"]["annotations"] = {"fedq.io/clusters": ",".join(clusters)}
    before, enough = len(observer.reached["complete"]), round(SHARE * len(names))
    started = time.monotonic()
    await create_jobs(client, observer, bodies)
    await observer.wait("complete", before + enough)
    return enough / (time.monotonic() - started)


def main() -> int:
    """Parse arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", choices=FAULTS, default="hangs")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rig-home", type=Path, help="use (and keep) the rig in this folder")
    args = parser.parse_args()
    with rigged(WORKERS, args.rig_home) as stack:
        result = asyncio.run(rounds(stack, FAULTS[args.fault], args.jobs, args.rounds))
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
