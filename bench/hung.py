"""What one worker that hangs costs the others: `python -m bench.hung --jobs 200 --rounds 2`.

Three workers. Alternately N Jobs that may run on two of them while the third is well, and N Jobs
that may run anywhere while the API server of the third stands still (SIGSTOP: connections stay
open, nothing answers). Both rates are those of the first nine tenths of the Jobs to complete: what
was offered to the one that hangs, before that showed, waits for the fence and is counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.observer import Observer, observing
from bench.rigged import NAMESPACE, create_jobs, job, rigged
from federation.edge.kube import KubeClient
from fedq.drill.faults.processes import frozen
from fedq.stack import Stack

Json = dict[str, Any]
WORKERS = 3
SHARE = 0.9


async def rounds(stack: Stack, jobs: int, count: int) -> Json:
    """Jobs a second of each round, well and hung in turn, and their ratio."""
    others, last = stack.rig.workers[:-1], stack.rig.workers[-1]
    well: list[float] = []
    hung: list[float] = []
    late: list[int] = []
    async with observing(stack, NAMESPACE) as (observer, clients):
        management = clients[stack.rig.management]
        for number in range(count):
            names = [f"well-{number}-{index:04d}" for index in range(jobs)]
            well.append(await _rate(management, observer, names, others))
            await observer.wait("complete", len(observer.created))
            names = [f"hung-{number}-{index:04d}" for index in range(jobs)]
            async with frozen(stack.rig, f"{last}/kube-apiserver"):
                hung.append(await _rate(management, observer, names, ()))
                late.append(len(observer.created) - len(observer.reached["complete"]))
            await observer.wait("complete", len(observer.created))
            await asyncio.to_thread(stack.wait_active)
    ratios = [a / b for a, b in zip(hung, well, strict=True)]
    return {
        "jobs": jobs,
        "jobs_per_s_well": [round(rate, 1) for rate in well],
        "jobs_per_s_hung": [round(rate, 1) for rate in hung],
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 3),
        "not_complete_while_it_hung": late,
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
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rig-home", type=Path, help="use (and keep) the rig in this folder")
    args = parser.parse_args()
    with rigged(WORKERS, args.rig_home) as stack:
        result = asyncio.run(rounds(stack, args.jobs, args.rounds))
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
