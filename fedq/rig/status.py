"""What a rig looks like at one moment: plain data for tables, JSON and tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from fedq.rig.process import Process


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """One process.

    Attributes:
        pid: None when it was never started.
        memory_mb: its share of memory in MiB; pages shared by n processes count 1/n.
        log: path of its log; empty when it was never started.
    """

    pid: int | None
    running: bool
    memory_mb: float
    log: str

    @classmethod
    def of(cls, process: Process | None) -> ComponentStatus:
        """Look at a process now."""
        if process is None:
            return cls(None, False, 0.0, "")
        return cls(process.pid, process.running, round(process.memory_mb, 1), str(process.log))


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """One cluster: its API server's URL and its components by short name (`etcd`)."""

    api_url: str
    components: dict[str, ComponentStatus]

    @property
    def running(self) -> bool:
        """True when no component is missing."""
        return all(component.running for component in self.components.values())


@dataclass(frozen=True, slots=True)
class RigStatus:
    """The whole rig; empty `clusters` when there is none.

    Attributes:
        processes: what was started beside the clusters (`manager`, `agent/worker-1`, …).
    """

    home: str
    backend: str
    clusters: dict[str, ClusterStatus] = field(default_factory=dict)
    processes: dict[str, ComponentStatus] = field(default_factory=dict)

    @property
    def memory_mb(self) -> float:
        """Memory of everything in MiB."""
        every = [part for cluster in self.clusters.values() for part in cluster.components.values()]
        return round(sum(part.memory_mb for part in [*every, *self.processes.values()]), 1)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: fields and totals."""
        return asdict(self) | {"memory_mb": self.memory_mb}
