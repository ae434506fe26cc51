"""Worker clusters as people see them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from federation.api.names import ConditionType
from federation.api.orders import cluster_orders, without_agent
from federation.api.record import find
from fedq.jobview import JobState, JobView

Json = dict[str, Any]
TWO_COPIES = "plain Kueue, no agent: two copies of a job are possible when it is lost"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A worker cluster. `state` is its phase with what was ordered of it, `since` when that phase
    began, `next` and `next_at` what comes then and when. `connected` and `reason` are those of its
    condition Active, with its `message`; `held` is what people or the brake keep from it, or what
    nobody can promise there. `renewed` is when its agent last renewed its Lease, by the agent's own
    clock.
    """

    name: str
    state: str
    since: str
    next: str
    next_at: str
    tier: str
    epoch: int
    connected: str
    reason: str
    message: str
    held: str
    renewed: str
    offered: int
    running: int


def cluster_views(
    clusters: Iterable[Json], leases: Iterable[Json], jobs: Iterable[JobView]
) -> list[ClusterView]:
    """Views of all worker clusters, by name."""
    renewed = {
        lease["metadata"]["name"]: (lease.get("spec") or {}).get("renewTime") or ""
        for lease in leases
    }
    counts = Counter((view.cluster, _word(view.state)) for view in jobs)
    views = [_view(obj, renewed, counts) for obj in clusters]
    return sorted(views, key=lambda view: view.name)


def _view(
    obj: Json, renewed: Mapping[str, str], counts: Mapping[tuple[str, str], int]
) -> ClusterView:
    name, status = obj["metadata"]["name"], obj.get("status") or {}
    active, fedq = find(status, ConditionType.ACTIVE), status.get("fedq") or {}
    return ClusterView(
        name=name,
        state=_state(obj, fedq),
        since=fedq.get("since") or "",
        next=fedq.get("next") or "",
        next_at=fedq.get("nextAt") or "",
        tier=fedq.get("tier") or "",
        epoch=fedq.get("epoch") or 0,
        connected=active["status"] if active else "Unknown",
        reason=active["reason"] if active else "",
        message=active["message"] if active else "no manager has looked at it yet",
        held=_held(obj, fedq),
        renewed=renewed.get(name, ""),
        offered=counts.get((name, "offered"), 0),
        running=counts.get((name, "running"), 0),
    )


def _state(obj: Json, fedq: Json) -> str:
    """As nodes show it: `Ready,Cordoned`."""
    orders = cluster_orders(obj)
    words = [str(fedq.get("phase") or "Unknown")]
    if orders.drain:
        words.append("Draining")
    elif orders.cordon:
        words.append("Cordoned")
    return ",".join(words)


def _held(obj: Json, fedq: Json) -> str:
    cordon, brake = cluster_orders(obj).cordon, fedq.get("brake")
    parts = [TWO_COPIES] if without_agent(obj) else []
    parts += [f"no new work: {cordon}"] if cordon else []
    parts += [f"no cluster is given up: {brake}"] if brake else []
    parts += [str(fedq["order"])] if fedq.get("order") else []
    return "; ".join(parts)


def _word(state: JobState) -> str:
    if state in (JobState.ADMITTED, JobState.RUNNING, JobState.LEAVING):
        return "running"
    return "offered" if state is JobState.OFFERED else ""
