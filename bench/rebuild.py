"""How long until the queue is whole again: `python -m bench.rebuild [--jobs 100000] [--json]`.

A whole manager, with a real Valkey for its index and an API server of recorded lists
(`bench.listing`: the Jobs, their Workloads and the queues, over loopback HTTP in pages of 500). All
jobs wait: no quota is free. Jobs are of 7 shapes in 20 ClusterQueues with 5 priorities.

`start_s`: from nothing to a full index: list, decode, state of every job, enqueue, fill.
`flushall_s`: FLUSHALL in the running manager; from the moment somebody asks for a head until the
index is full again: from memory, no request to the API server.
`index_s`: what of `flushall_s` is the fill alone. `stall_s`: the longest time for which the loop of
the manager did nothing else, at the start and after FLUSHALL. `cpu` are seconds of CPU of the
manager's process: what would be left on a machine that has nothing else to do.

The order in the index is compared with one that is made of priority, creation and UID.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from tenacity import AsyncRetrying, retry_if_result, wait_fixed

from federation.api import record as records
from federation.api.meta import wire_time
from federation.api.names import KUEUE_API, ConditionType, Label
from federation.core.policies import Policies
from federation.edge.embedded_redis import embedded_redis
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.redis_index import RedisIndex
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from federation.edge.telemetry import configure_logging, settle_memory
from federation.jobs import batch_job
from manager.app import Manager
from manager.local_runtime import LocalRuntime

Json = dict[str, Any]
QUEUES = 20
PRIORITIES = (0, 10, 50, 100, 1000)
SHAPES = (1, 2, 4, 8, 16, 32, 64)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
LONGEST_S = 600.0


def objects(jobs: int) -> dict[str, list[Json]]:
    """All that the API server lists: as a manager left it that ran for a while."""
    chance = random.Random(1)
    pairs = [_job(number, chance) for number in range(jobs)]
    chance.shuffle(pairs)  # an API server lists by name
    quota = {"name": "cpu", "nominalQuota": "0"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}]
    spec = {"resourceGroups": groups, "namespaceSelector": {}}
    names = [f"queue-{n}" for n in range(QUEUES)]
    return {
        JOBS.path(): [job for job, _ in pairs],
        WORKLOADS.path(): [workload for _, workload in pairs],
        CLUSTER_QUEUES.path(): [_custom("ClusterQueue", name, spec) for name in names],
        LOCAL_QUEUES.path(): [
            _custom("LocalQueue", name, {"clusterQueue": name}, "team") for name in names
        ],
        RESOURCE_FLAVORS.path(): [_custom("ResourceFlavor", "f", {})],
        WORKLOAD_PRIORITY_CLASSES.path(): [
            {"metadata": _meta(f"p{value}", ""), "value": value} for value in PRIORITIES
        ],
        NAMESPACES.path(): [{"metadata": _meta("team", "")}],
    }


def _meta(name: str, namespace: str, at: datetime = FIRST) -> Json:
    place = {"namespace": namespace} if namespace else {}
    made = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{namespace}/{name}"))
    stamps = {"uid": made, "resourceVersion": "1", "creationTimestamp": wire_time(at)}
    return {"name": name, **place, **stamps}


def _custom(kind: str, name: str, spec: Json, namespace: str = "") -> Json:
    return {
        "apiVersion": KUEUE_API,
        "kind": kind,
        "metadata": _meta(name, namespace),
        "spec": spec,
    }


def _job(number: int, chance: random.Random) -> tuple[Json, Json]:
    """A Job, of several in each second, and its Workload with the reason why it waits."""
    at = FIRST + timedelta(seconds=number // 5)
    meta, priority = _meta(f"job-{number}", "team", at), chance.choice(PRIORITIES)
    meta["labels"] = {
        Label.QUEUE_NAME.value: f"queue-{number % QUEUES}",
        Label.PRIORITY_CLASS.value: f"p{priority}",
    }
    requests = {"requests": {"cpu": str(chance.choice(SHAPES))}}
    container = {"name": "c", "image": "example.com/train:1", "resources": requests}
    spec = {
        "suspend": True,
        "parallelism": 1,
        "completions": 1,
        "managedBy": batch_job.MANAGED_BY,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": {}}
    local = batch_job.local_job(job)
    group = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": f"p{priority}"}
    workload = records.manifest(job, local, batch_job.KIND, priority, group)
    workload["metadata"] |= _meta(workload["metadata"]["name"], "team", at)
    waits = records.condition(
        ConditionType.QUOTA_RESERVED, False, "ExceedsMaxQuota", "more than the queue can ever get"
    )
    now = wire_time(at)
    workload["status"] = {"conditions": records.with_conditions({}, [waits], now)}
    return job, workload


class Rig:
    """A manager, its index, and the order in which jobs have to be there."""

    def __init__(self, manager: Manager, index: RedisIndex, listed: dict[str, list[Json]]) -> None:
        self.manager, self.index = manager, index
        self._order: dict[str, list[str]] = defaultdict(list)
        priority = {
            records.owner_uid(item): item["spec"]["priority"] for item in listed[WORKLOADS.path()]
        }

        def place(job: Json) -> tuple[int, str, str]:
            meta = job["metadata"]
            return -priority[meta["uid"]], meta["creationTimestamp"], meta["uid"]

        for job in sorted(listed[JOBS.path()], key=place):
            meta = job["metadata"]
            self._order[meta["labels"][Label.QUEUE_NAME.value]].append(meta["uid"])

    async def filled(self, times: int) -> None:
        """Until the index was filled so often."""
        async with asyncio.timeout(LONGEST_S):
            async for attempt in AsyncRetrying(wait=wait_fixed(0.005), retry=retry_if_result(bool)):
                with attempt:
                    wanting = self.manager.dispatcher.fills < times
                attempt.retry_state.set_result(wanting)

    async def lose(self, how: Callable[[], object]) -> float:
        """Seconds until the index is full again, from when it is asked for the first time."""
        await asyncio.to_thread(how)
        fills, begun = self.manager.dispatcher.fills, time.monotonic()
        self.manager.scheduler.wake_at_once("queue-0", 0.0)
        self.manager.dispatcher.wake()
        await self.filled(fills + 1)
        return time.monotonic() - begun

    async def in_order(self) -> bool:
        """Whether every job is in the index, in its place."""
        found = {name: await self.index.waiting(name, len(uids)) for name, uids in self._items()}
        return found == dict(self._order)

    def _items(self) -> list[tuple[str, list[str]]]:
        return sorted(self._order.items())


@contextlib.asynccontextmanager
async def stalls() -> AsyncIterator[list[float]]:
    """The longest time, so far, for which this loop did nothing else; the only element."""
    longest = [0.0]

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)  # what is measured is how late it comes back
            longest[0] = max(longest[0], time.monotonic() - before - 0.005)

    beating = asyncio.create_task(beat())
    try:
        yield longest
    finally:
        beating.cancel()


@contextlib.contextmanager
def server(listed: dict[str, list[Json]]) -> Iterator[str]:
    """The API server of the lists; its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.listing"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        json.dump(listed, process.stdin)
        process.stdin.close()
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def measure(url: str, redis: str, listed: dict[str, list[Json]]) -> Json:
    """Start a manager, lose its index, and see whether all is there each time."""
    index = RedisIndex(redis)
    async with KubeClient(Endpoint(url, name="recorded")) as client, stalls() as stalled:
        manager = Manager(client, index, LocalRuntime(), "bench", Policies())
        rig = Rig(manager, index, listed)
        stalled[0], begun, used = 0.0, time.monotonic(), time.process_time()
        running = asyncio.create_task(manager.run())
        try:
            await rig.filled(1)
            start, start_stall = time.monotonic() - begun, stalled[0]
            start_cpu = time.process_time() - used
            right = [await rig.in_order()]
            stalled[0], used = 0.0, time.process_time()
            flushed = await rig.lose(lambda: ask(redis, "FLUSHALL"))
            flush_stall, flush_cpu = stalled[0], time.process_time() - used
            right.append(await rig.in_order())
            again = time.monotonic()
            await manager.scheduler.refill(time.time())
            alone = time.monotonic() - again
            memory = used_mb(redis)
        finally:
            await _end(running)
            await index.aclose()
    return {
        "jobs": len(listed[JOBS.path()]),
        "start_s": round(start, 2),
        "start_cpu_s": round(start_cpu, 2),
        "flushall_s": round(flushed, 2),
        "flushall_cpu_s": round(flush_cpu, 2),
        "index_s": round(alone, 2),
        "start_stall_s": round(start_stall, 2),
        "flushall_stall_s": round(flush_stall, 2),
        "in_order": all(right),
        "redis_mb": memory,
        "manager_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel it until it has ended: Python 3.11 can lose a cancellation that meets a timeout."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=1.0)


def ask(redis: str, *words: str) -> str:
    """What a Redis on a Unix socket answers to a short command."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(redis.removeprefix("unix://"))
        client.sendall((" ".join(words) + "\r\n").encode())
        return client.recv(65536).decode()


def used_mb(redis: str) -> float:
    """What its data take, in MB."""
    lines = dict(line.split(":", 1) for line in ask(redis, "INFO", "memory").split() if ":" in line)
    return round(int(lines["used_memory"]) / 1e6, 1)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; exit code 1 if a job was missing or not in its place."""
    parser = argparse.ArgumentParser(prog="python -m bench.rebuild", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    listed = objects(options.jobs)
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded_redis(Path(folder)) as redis,
        server(listed) as url,
    ):
        result = asyncio.run(measure(url, redis, listed))
    if options.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key}: {value}")
    return 0 if result["in_order"] else 1


if __name__ == "__main__":
    configure_logging("error")  # to stderr: standard output is for the result
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settle_memory()
    sys.exit(main())
