"""What processes use and what API servers count, before and after a measurement."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from pathlib import Path

from federation.edge.kube import KubeClient
from fedq.rig.rig import Rig

TICKS = os.sysconf("SC_CLK_TCK")
_WRITE = re.compile(
    r'^apiserver_request_total\{.*?resource="([^"]*)"'
    r'.*?verb="(POST|PUT|PATCH|APPLY|DELETE)"[^}]*\} (\S+)'
)


def descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        todo += children[current]
    return found


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; None when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants that live."""
    total = 0
    for one in descendants(pid):
        if fields := _stat(one):
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def peak_memory_mb(pid: int) -> float:
    """Sum of the peak resident sizes of a process and its descendants."""
    total = 0
    for one in descendants(pid):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        if match := re.search(r"VmHWM:\s+(\d+) kB", status):
            total += int(match[1])
    return round(total / 1024, 1)


def process_ids(rig: Rig) -> dict[str, int]:
    """Process ids of the rig's components and programs, by name."""
    status = rig.status()
    ids = {
        f"{cluster}/{part}": component.pid
        for cluster, parts in status.clusters.items()
        for part, component in parts.components.items()
        if component.pid
    }
    return ids | {name: other.pid for name, other in status.processes.items() if other.pid}


async def api_writes(client: KubeClient) -> Counter[str]:
    """Writes that an API server has served, by resource."""
    counts: Counter[str] = Counter()
    for line in (await client.raw("GET", "/metrics")).decode().splitlines():
        if match := _WRITE.match(line):
            counts[match[1]] += int(float(match[3]))
    return counts


def percentiles(values: list[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile in seconds, rounded to milliseconds."""
    ordered = sorted(values)
    if not ordered:
        return {}

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return {"p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": round(ordered[-1], 3)}
