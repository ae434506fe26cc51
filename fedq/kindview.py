"""What `fedq get kinds` shows of each kind of job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from federation.api.kinds.row import Row, framework
from federation.api.kinds.table import PODS, ROWS, SCALED
from federation.core.facts import BATCH_JOB
from federation.edge.kind_informers import plurals
from federation.edge.kube import KubeClient
from federation.jobs.kinds.kind import Kinds


@dataclass(frozen=True, slots=True)
class KindView:
    """`name` is Kind.version.group. `suspend` and `managed_by` are fields, `pod_sets` says where
    pods are described; `note` is what people have to know.
    """

    name: str
    kind: str
    api_version: str
    plural: str
    suspend: str
    managed_by: str
    pod_sets: tuple[str, ...]
    note: str
    framework: str = ""
    """Its switch in a Configuration."""
    switched_on: bool = True
    served: bool = False


def kind_views(kinds: Kinds) -> list[KindView]:
    """All kinds, in the order of the table."""
    job = KindView(
        BATCH_JOB,
        "Job",
        "batch/v1",
        "jobs",
        "spec.suspend",
        "spec.managedBy",
        ("spec.template",),
        "cards and places in a topology for each pod; partial admission",
        framework("batch", "Job"),
    )
    rows = (*ROWS, PODS, *SCALED, *(kinds.external or ()))
    off = {kind.name for kind in kinds.off}
    return [replace(view, switched_on=view.name not in off) for view in (job, *map(_view, rows))]


def _view(row: Row) -> KindView:
    return KindView(
        row.name,
        row.kind,
        row.api_version,
        row.plural,
        ".".join(row.suspend),
        ".".join(row.managed_by),
        tuple(".".join((*role.at, *role.template)) for role in row.roles),
        row.note,
        row.framework,
    )


async def with_served(client: KubeClient, views: Iterable[KindView]) -> list[KindView]:
    """The same with whether a cluster serves them."""
    found: dict[str, set[str]] = {}
    result = []
    for view in views:
        if view.api_version not in found:
            group, _, version = view.api_version.rpartition("/")
            found[view.api_version] = await plurals(client, group, version)
        result.append(replace(view, served=view.plural in found[view.api_version]))
    return result


def markdown(views: Iterable[KindView]) -> str:
    """The table of docs/kinds.md."""
    lines = ["| kind | API version | held back by | managed by | |", "|---|---|---|---|---|"]
    for view in views:
        held = f"`{view.suspend}`"
        manager = f"`{view.managed_by}`" if view.managed_by else "-"
        lines.append(f"| {view.kind} | `{view.api_version}` | {held} | {manager} | {view.note} |")
    return "\n".join(lines)
