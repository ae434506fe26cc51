"""What a moved job costs: `python -m bench.moving --jobs 200 --home DIR [--profile FILE]`.

Runs the drill half-lost (two of four clusters are cut off) and looks at two moments at what all
processes have used, what the API servers have served and what Fedq's own clients have sent: shortly
before the first job may run elsewhere, and when all have been started there and their Jobs on the
management cluster say so. What the rig uses by itself in the same time is taken off: that is
measured before, when all that is lost has been stopped. Prints one JSON object. With
`--profile`, py-spy (which has to be installed) looks at the manager meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.usage import cpu_seconds, process_ids
from federation.edge.machine import boottime
from fedq.commands.rigs import take_down
from fedq.drill.cases.half_lost import half_lost
from fedq.drill.cases.table import find
from fedq.drill.ground import Ground
from fedq.drill.lanes import run_all
from fedq.drill.prepare import Bench, Wishes
from fedq.drill.timeline import What
from fedq.drill.witness import bound
from fedq.rig.rig import Rig

Json = dict[str, Any]
BEFORE_S = 8.0
"""So long before the end of the wait the window begins: nothing moves yet."""
REST_S = 25.0
"""For how long the rig is measured at rest before that."""
SETTLED_S = 3.0
"""The last job counts as moved so long after all were seen to run."""
LONGEST_S = 300.0
_SERVED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$")
_EVENTS = re.compile(r"^apiserver_watch_events_total\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(slots=True)
class Sample:
    """Counts at one moment: seconds of processor by process; if they were asked for, requests
    served by (cluster, verb and resource), those of Fedq's own clients by (program, kind of
    request), watch events sent.
    """

    at: float
    cpu: dict[str, float]
    pages: dict[str, str]
    own: Counter[tuple[str, str]]
    served: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)

    def read(self) -> None:
        """Take in what the API servers told: slow, so not while anything is measured."""
        for cluster, page in self.pages.items():
            _read(cluster, page, self.served, self.events)


async def sample(ground: Ground, *, requests: bool = True) -> Sample:
    """All counts as they are now; of an API server that is cut off those of the requests miss."""
    cpu = {name: cpu_seconds(pid) for name, pid in process_ids(ground.stack.rig).items()}
    cpu["this"] = time.process_time()
    made = Sample(boottime(), cpu, {}, Counter())
    if not requests:
        return made
    made.own = await asyncio.to_thread(_own, ground)
    for cluster, client in ground.clients.items():
        if cluster not in ground.victims:
            made.pages[cluster] = (await client.raw("GET", "/metrics")).decode()
    return made


def _read(
    cluster: str,
    page: str,
    served: Counter[tuple[str, str]],
    events: Counter[tuple[str, str]],
) -> None:
    for line in page.splitlines():
        if match := _SERVED.match(line):
            label = dict(_LABEL.findall(match[1]))
            what = "/".join(filter(None, (label["resource"], label.get("subresource"))))
            failed = "" if label["code"].startswith("2") else f" {label['code']}"
            served[cluster, f"{label['verb']} {what}{failed}"] += int(float(match[2]))
        elif match := _EVENTS.match(line):
            label = dict(_LABEL.findall(match[1]))
            events[cluster, label.get("resource") or label["kind"]] += int(float(match[2]))


def _own(ground: Ground) -> Counter[tuple[str, str]]:
    stack, found = ground.stack, Counter[tuple[str, str]]()
    page = json.loads(stack.page("manager", "status") or b"{}")
    sources: dict[str, Mapping[str, int]] = {"manager": page["requests"]["management"]}
    for name, cluster in page["clusters"].items():
        sources[f"manager on {name}"] = cluster["requests"]
    for worker in stack.rig.workers:
        if worker not in ground.victims:
            agent = json.loads(stack.page(f"agent-{worker}", "status") or b"{}")
            sources[f"agent on {worker}"] = agent["requests"]
    for source, counts in sources.items():
        for what, count in counts.items():
            found[source, what] += count
    found["manager", "cycles"] = page["cycles"]
    found["manager", "round trips to Redis"] = page["index"]["roundTrips"]
    return found


class Measured:
    """The drill, with samples; `result` is there when it is over."""

    def __init__(self, profile: Path | None = None) -> None:
        self.result: Json = {}
        self._profile = profile

    async def run(self, ground: Ground) -> None:
        """The drill."""
        looking = asyncio.create_task(self._look(ground))
        await half_lost(ground)
        await looking

    async def _look(self, ground: Ground) -> None:
        await ground.until(lambda: ground.fault_at > 0, LONGEST_S * 4, "the fault", every=1.0)
        renewed = [
            ground.timeline.last_before(What.RENEWED, cluster, ground.fault_at + 5)
            for cluster in ground.victims
        ]
        end = max(moment or 0.0 for moment in renewed) + ground.timings.rerun
        await asyncio.sleep(end - BEFORE_S - REST_S - boottime())  # at rest until then
        rest = await sample(ground, requests=False)
        await asyncio.sleep(end - BEFORE_S - boottime())  # the wait ends soon after
        before = await sample(ground)
        profiler = await self._start_profiler(ground)
        await ground.until(lambda: _moved(ground), LONGEST_S, "all jobs to run elsewhere")
        moved_at = boottime()
        await asyncio.sleep(SETTLED_S)  # late writes count too
        after = await sample(ground)
        before.read()
        after.read()
        if profiler is not None:
            await profiler.wait()
        self.result = _report(ground, (rest, before, after), moved_at - end)

    async def _start_profiler(self, ground: Ground) -> asyncio.subprocess.Process | None:
        if self._profile is None:
            return None
        pid = process_ids(ground.stack.rig)["manager"]
        return await asyncio.create_subprocess_exec(
            "py-spy", "record", "-d", "25", "-r", "100", "-f", "raw", "-o", str(self._profile),
            "-p", str(pid), stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip


def _moved(ground: Ground) -> bool:
    """Whether every job runs elsewhere, and its Job on the management cluster says so."""
    for name, job in ground.witness.locals.items():
        binding = bound(ground.witness.workloads.get(name))
        if binding is None or binding[0] in ground.victims or job["spec"].get("suspend"):
            return False
        if not (job.get("status") or {}).get("startTime"):
            return False
    return True


def _report(ground: Ground, samples: tuple[Sample, Sample, Sample], seconds: float) -> Json:
    rest, before, after = samples
    jobs = len(ground.witness.locals)
    scale = (after.at - before.at) / (before.at - rest.at)
    cpu = _per_job(jobs, before.cpu, after.cpu, rest.cpu, scale)
    served, own, events = (
        _per_job(jobs, getattr(before, counts), getattr(after, counts))
        for counts in ("served", "own", "events")
    )
    parts: dict[str, float] = {}
    for name, value in cpu.items():
        part = _part(str(name), ground)
        parts[part] = parts.get(part, 0.0) + value
    return {
        "jobs": jobs,
        "moved_after_s": round(seconds, 1),
        "window_s": round(after.at - before.at, 1),
        "load": os.getloadavg()[0],
        "cpu_s_per_job_total": round(sum(v for k, v in parts.items() if k != "the drill"), 4),
        "cpu_s_per_job": {
            k: round(v, 4) for k, v in sorted(parts.items(), key=lambda part: -part[1])
        },
        "cpu_s_at_rest_per_s": round(
            (sum(before.cpu.values()) - sum(rest.cpu.values())) / (before.at - rest.at), 3
        ),
        "served_per_job": _rows(served),
        "own_per_job": _rows(own),
        "watch_events_per_job": _rows(events),
    }


def _per_job(
    jobs: int,
    before: Mapping[Any, float],
    after: Mapping[Any, float],
    rest: Mapping[Any, float] | None = None,
    scale: float = 0.0,
) -> dict[Any, float]:
    """What was counted in the window, less what is counted at rest in the same time."""
    found = {}
    for key, last in after.items():
        first = before.get(key, 0)
        idle = first - rest.get(key, 0) if rest is not None else 0
        found[key] = (last - first - scale * idle) / jobs
    return found


def _part(name: str, ground: Ground) -> str:
    """The part that a process belongs to: lost clusters and well ones are told apart."""
    cluster = next((c for c in ground.stack.rig.clusters if c in name.split("/")), "")
    if name == "this":
        return "the drill"
    if not cluster:
        return name
    kind = "management" if cluster == ground.stack.rig.management else "worker"
    lost = "lost " if cluster in ground.victims else ""
    return f"{lost}{kind} {name.replace(cluster, '').strip('/')}"


def _rows(counts: dict[Any, float]) -> Json:
    found = {" ".join(key): round(value, 2) for key, value in sorted(counts.items())}
    return {key: value for key, value in found.items() if abs(value) >= 0.03}


def main() -> int:
    """Run it on a rig of its own in `--home`, which is taken down afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--profile", type=Path)
    options = parser.parse_args()
    measured = Measured(options.profile)
    drill = find("half-lost")
    assert drill is not None
    drill = replace(drill, run=measured.run)
    rig = Rig.load(options.home)
    if not rig.claim():
        parser.error(f"a rig is up already in {options.home}: `fedq rig down` takes it down")
    bench = Bench(rig, Wishes(runtime="in-process", jobs=options.jobs), _tell, drill.workers)
    try:
        run_all([drill], [bench], _tell)
    finally:
        take_down(rig)
    print(json.dumps(measured.result, indent=1))
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
