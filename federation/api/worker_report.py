"""WorkerReport: what a worker cluster can still take, published by its agent (Fedq's own kind).

One object per worker cluster, named after it, kept on that cluster and watched from the manager.
"""

from typing import Annotated, Literal

from pydantic import Field

from federation.api.fields import Count, FreeForm, Quantity, list_map
from federation.api.meta import KubeObject, WireModel
from federation.api.names import FEDQ_API
from federation.api.resource_flavor import Taint

Amount = Annotated[str, Field(max_length=20, pattern=r"^-?[0-9]+$")]
"""An integer in base units as a string: milli for cpu, plain units (bytes, cards) otherwise."""


class ReportedLocalQueue(WireModel):
    """A LocalQueue of the worker."""

    namespace: str
    name: str
    cluster_queue: str


class ReportedQuota(WireModel):
    """One resource in one flavor."""

    flavor: str
    resource: str
    nominal: Amount
    used: Amount
    available: Amount
    """What the queue could still reserve now, borrowing included; never below 0."""


class ReportedClusterQueue(WireModel):
    """A ClusterQueue of the worker."""

    name: str
    active: bool = True
    cohort: str = ""
    resources: list[ReportedQuota] = Field(default_factory=list)
    """In the order in which the queue tries its flavors."""


class NodeClass(WireModel):
    """Nodes that are alike for placement, and how many there are."""

    count: Count
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[Taint] = Field(default_factory=list)
    free: dict[str, Quantity] = Field(default_factory=dict)
    """Free amount on each of the nodes, rounded down to the bucket."""
    devices: list[FreeForm] = Field(default_factory=list)
    """Cards of one node with their free memory, cores and slots."""


class WorkerReportStatus(WireModel):
    """The inventory."""

    agent_version: str = ""
    inventory_epoch: int = 0
    """Epoch of the cluster's Lease for which this inventory is complete."""
    counted_resource_version: str = ""
    """Resource version of Jobs on the worker up to which the numbers count them."""
    local_queues: Annotated[
        list[ReportedLocalQueue], Field(json_schema_extra=list_map("namespace", "name"))
    ] = Field(default_factory=list)
    cluster_queues: Annotated[
        list[ReportedClusterQueue], Field(json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)
    node_classes: list[NodeClass] = Field(default_factory=list)


class WorkerReport(KubeObject):
    """Free and used capacity of one worker cluster."""

    api_version: str = FEDQ_API
    kind: Literal["WorkerReport"] = "WorkerReport"
    status: WorkerReportStatus = Field(default_factory=WorkerReportStatus)
