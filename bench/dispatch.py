"""Dispatch end to end on real control planes: `python -m bench.dispatch --jobs 500 --workers 2`.

Creates N one-pod Jobs on the management cluster and watches all clusters until every local Job is
Complete. All times are taken by one observer process on its monotonic clock, from the moment a
create was sent. `--latency` measures single Jobs on an idle system instead, `--changes` the way
back of status changes that come ten times a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from bench.observer import Observer, observing
from bench.rigged import CREATORS, NAMESPACE, create_jobs, job, rigged
from bench.usage import api_writes, cpu_seconds, peak_memory_mb, percentiles, process_ids
from federation.edge.kube import KubeClient
from federation.edge.resources import CONFIGMAPS, JOBS
from fedq.stack import Stack

Json = dict[str, Any]
RAW_WRITES = 400
CHANGES_A_SECOND = 10
SHOWN_WITHIN_S = 10.0


async def measure(stack: Stack, jobs: int, latency: bool, seconds: float) -> Json:
    """Run the benchmark on a rig that is up."""
    async with observing(stack, NAMESPACE) as (observer, clients):
        if latency:
            return await _latency(stack, clients, observer, jobs)
        return await _throughput(stack, clients, observer, jobs, seconds)


async def _throughput(
    stack: Stack, clients: dict[str, KubeClient], observer: Observer, jobs: int, seconds: float
) -> Json:
    management = clients[stack.rig.management]
    raw = await _raw_rate(management)
    pids = process_ids(stack.rig)
    cpu_before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    writes_before = {name: await api_writes(client) for name, client in clients.items()}
    own_before = _own_writes(stack)
    started = time.monotonic()
    await create_jobs(management, observer, [job(f"bench-{i:05d}", seconds) for i in range(jobs)])
    await observer.wait("complete", jobs)
    elapsed = time.monotonic() - started
    await _settled(clients, stack)
    cpu = {name: cpu_seconds(pid) - cpu_before[name] for name, pid in pids.items()}
    own = _own_writes(stack) - own_before
    everybody = {
        name: _by_resource(await api_writes(client) - writes_before[name], jobs)
        for name, client in clients.items()
    }
    return {
        "jobs": jobs,
        "workers": len(stack.rig.workers),
        "seconds": round(elapsed, 2),
        "jobs_per_s": round(jobs / elapsed, 2),
        "finished": len(observer.reached["complete"]),
        "duplicates": sum(len(starts) > 1 for starts in observer.starts.values()),
        "to_admitted_s": percentiles(observer.since_create("admitted")),
        "to_remote_running_s": percentiles(observer.since_create("running")),
        "to_complete_s": percentiles(observer.since_create("complete")),
        "fedq_writes_per_job": _per_job(own, jobs),
        "all_writes_per_job": everybody,
        "cpu_s_per_job": {
            name: round(value / jobs, 4) for name, value in sorted(cpu.items()) if value >= 0.01
        },
        "cpu_s_per_job_total": round(sum(cpu.values()) / jobs, 4),
        "peak_memory_mb": {name: peak_memory_mb(pid) for name, pid in sorted(pids.items())},
        "raw_api_writes_per_s": raw,
    }


async def _settled(clients: dict[str, KubeClient], stack: Stack) -> None:
    """Until the remotes are cleaned up, so that their deletes are counted."""
    for worker in stack.rig.workers:
        async for attempt in AsyncRetrying(wait=wait_fixed(0.2), stop=stop_after_delay(60)):
            with attempt:
                assert not (await clients[worker].list(JOBS, NAMESPACE)).items


def _own_writes(stack: Stack) -> Counter[tuple[str, str]]:
    """Writes counted in Fedq's own clients: by (cluster, verb/resource)."""
    page = json.loads(stack.page("manager", "status") or b"{}")
    counts: Counter[tuple[str, str]] = Counter()
    sources = {stack.rig.management: page["requests"]["management"]}
    for name, cluster in page["clusters"].items():
        sources[f"{name} (manager)"] = cluster["requests"]
    for worker in stack.rig.workers:
        agent = json.loads(stack.page(f"agent-{worker}", "status") or b"{}")
        sources[f"{worker} (agent)"] = agent["requests"]
    for source, requests in sources.items():
        for key, value in requests.items():
            if key.partition("/")[0] in {"create", "update", "patch", "delete"}:
                counts[source, key] += value
    return counts


def _by_resource(counts: Counter[str], jobs: int) -> Json:
    """Writes that an API server served per job (of all jobs), by resource and in all."""
    rows = {name: round(count / jobs, 2) for name, count in sorted(counts.items())}
    return {"total": round(sum(counts.values()) / jobs, 2), **rows}


_APART = ("workerreports", "leases", "events", "clusterqueues", "localqueues", "multikueueclusters")


def _per_job(counts: Counter[tuple[str, str]], jobs: int) -> Json:
    """Per job: writes about jobs by side and kind; reports, Leases and queue statuses apart."""
    sides: dict[str, Counter[str]] = {"management": Counter(), "worker": Counter()}
    apart: Counter[str] = Counter()
    for (source, key), value in counts.items():
        side = "management" if source == "management" else "worker"
        if any(f"/{word}" in key for word in _APART):
            apart[f"{side} {key}"] += value
        else:
            sides[side][key] += value
    return {
        **{side: round(sum(found.values()) / jobs, 2) for side, found in sides.items()},
        "by_kind": {
            side: {key: round(value / jobs, 2) for key, value in sorted(found.items())}
            for side, found in sides.items()
        },
        "apart_total": dict(sorted(apart.items())),
    }


async def _raw_rate(client: KubeClient) -> Json:
    """ConfigMaps a second that one API server takes from one client, 16 at a time, else idle."""
    names = [f"raw-{i:04d}" for i in range(RAW_WRITES)]

    async def timed(call: Callable[[str], Any]) -> float:
        queue, started = list(names), time.monotonic()

        async def one() -> None:
            while queue:
                await call(queue.pop())

        await asyncio.gather(*(one() for _ in range(CREATORS)))
        return round(RAW_WRITES / (time.monotonic() - started), 1)

    def config_map(name: str) -> Json:
        return {"metadata": {"name": name, "namespace": NAMESPACE}, "data": {"key": "v" * 500}}

    patch = {"data": {"touched": "yes"}}
    create = await timed(lambda name: client.create(CONFIGMAPS, config_map(name)))
    patched = await timed(lambda name: client.patch(CONFIGMAPS, name, patch, NAMESPACE))
    delete = await timed(lambda name: client.delete(CONFIGMAPS, name, NAMESPACE))
    return {"create": create, "patch": patched, "delete": delete}


async def _latency(
    stack: Stack, clients: dict[str, KubeClient], observer: Observer, jobs: int
) -> Json:
    """Single Jobs on an idle system, and single status changes on a worker."""
    management = clients[stack.rig.management]
    back: list[float] = []
    for index in range(jobs):
        name = f"single-{index:04d}"
        observer.created[name] = time.monotonic()
        await management.create(JOBS, job(name, seconds=1))
        await observer.wait("complete", index + 1)
        await asyncio.sleep(0.3)  # idle between two measurements
    for worker in stack.rig.workers:
        back += await _status_back(stack, clients, observer, worker, max(1, jobs // 2))
    return {
        "jobs": jobs,
        "submit_to_unsuspended_s": percentiles(observer.since_create("unsuspended")),
        "submit_to_admitted_s": percentiles(observer.since_create("admitted")),
        "submit_to_complete_s": percentiles(observer.since_create("complete")),
        "status_back_s": percentiles(back),
        "status_changes": len(back),
    }


async def _status_back(
    stack: Stack, clients: dict[str, KubeClient], observer: Observer, worker: str, changes: int
) -> list[float]:
    """Seconds from a status write on the worker until the management Job shows it.

    A long Job is started, and its copy's `ready` count is written by hand while nothing else
    changes it.
    """
    management, name = clients[stack.rig.management], f"status-{worker}"
    body = job(name, seconds=3600)
    body["metadata"]["annotations"] = {"fedq.io/clusters": worker}
    observer.created[name] = time.monotonic()
    await management.create(JOBS, body)
    while name not in observer.reached["running"]:
        observer.changed.clear()
        await observer.changed.wait()
    where = next(iter(observer.starts[name])).partition("/")[0]
    await asyncio.sleep(3)  # the worker's own controller has to come to rest first
    took: list[float] = []
    for number in range(changes):
        seen = asyncio.create_task(_until_shown(management, name, number + 10))
        await asyncio.sleep(0.4)  # idle, and the watch is open
        started = time.monotonic()
        patch = {"status": {"terminating": number + 10}}
        await clients[where].patch(JOBS, name, patch, NAMESPACE, subresource="status")
        took.append(await seen - started)
    await management.delete(JOBS, name, NAMESPACE)
    return took


async def _until_shown(client: KubeClient, name: str, value: int) -> float:
    watch = client.watch(JOBS, NAMESPACE, field_selector=f"metadata.name={name}")
    async with aclosing(watch) as events:
        async for event in events:
            if (event.object.get("status") or {}).get("terminating") == value:
                return time.monotonic()
    raise RuntimeError("the watch ended before the change was seen")


async def changes(stack: Stack, count: int) -> Json:
    """Ten status changes a second on the workers, over ten long Jobs: seconds until each is shown
    on the management cluster.
    """
    async with observing(stack, NAMESPACE) as (observer, clients):
        management = clients[stack.rig.management]
        names = [f"changing-{index}" for index in range(CHANGES_A_SECOND)]
        for name in names:
            observer.created[name] = time.monotonic()
            await management.create(JOBS, job(name, seconds=3600))
        await observer.wait("running", len(names))
        where = {name: next(iter(observer.starts[name])).partition("/")[0] for name in names}
        await asyncio.sleep(3)  # the workers' own controllers have to come to rest first
        sent: dict[tuple[str, int], float] = {}
        took: list[float] = []
        seen = asyncio.create_task(_shown(management, sent, took, count))
        await asyncio.sleep(0.5)  # the watch is open
        begun = time.monotonic()
        for number in range(count):
            await asyncio.sleep(begun + number / CHANGES_A_SECOND - time.monotonic())  # the rate
            name = names[number % len(names)]
            sent[name, number + 10] = time.monotonic()
            patch = {"status": {"terminating": number + 10}}
            await clients[where[name]].patch(JOBS, name, patch, NAMESPACE, subresource="status")
        sending = time.monotonic() - begun
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(seen, SHOWN_WITHIN_S)
        for name in names:
            await management.delete(JOBS, name, NAMESPACE)
    rate = round(count / sending, 1)
    # The Job controller takes back what it did not count itself: some are gone before any watch.
    times = percentiles(took)
    return {"status_changes": count, "per_second": rate, "shown": len(took), "status_back_s": times}


async def _shown(
    client: KubeClient, sent: dict[tuple[str, int], float], took: list[float], count: int
) -> None:
    watch = client.watch(JOBS, NAMESPACE)
    async with aclosing(watch) as events:
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            value = (event.object.get("status") or {}).get("terminating") or 0
            name, now = event.object["metadata"]["name"], time.monotonic()
            if (at := sent.pop((name, value), None)) is not None:
                took.append(now - at)
            if len(took) == count:
                return
    raise RuntimeError("the watch ended before all changes were seen")


def main() -> int:
    """Parse arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--run-seconds", type=float, default=1.0, help="how long a pod runs")
    parser.add_argument("--latency", action="store_true", help="single jobs on an idle system")
    parser.add_argument(
        "--changes", type=int, default=0, metavar="N", help="N status changes, ten a second"
    )
    parser.add_argument("--rig-home", type=Path, help="use (and keep) the rig in this folder")
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    args = parser.parse_args()
    with rigged(args.workers, args.rig_home) as stack:
        if args.changes:
            result = asyncio.run(changes(stack, args.changes))
        else:
            result = asyncio.run(measure(stack, args.jobs, args.latency, args.run_seconds))
    print(json.dumps(result, indent=None if args.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
