"""WorkerReport: what a worker cluster can still take, published by its agent (Fedq's own kind).

One object per worker cluster, named after it, kept on that cluster and watched from the manager.
"""

from typing import Annotated, Literal

from pydantic import Field

from federation.api.fields import Count, Int32, list_map
from federation.api.meta import KubeObject, WireModel
from federation.api.names import FEDQ_API

Amount = Annotated[str, Field(max_length=20, pattern=r"^-?[0-9]+$")]
"""An integer in base units as a string: milli for cpu, plain units (bytes, cards) otherwise."""

MOST = 2**53
"""The largest number that is told: a schema checks bounds as floats."""

Whole = Annotated[int, Field(ge=-MOST, le=MOST, json_schema_extra={"format": "int64"})]

Slices = Annotated[int, Field(ge=0, le=16, json_schema_extra={"format": "int32"})]
"""Memory slices of a MIG card; real ones have 4 or 8."""


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


class ReportedTaint(WireModel):
    """As nodes have it; the API server has checked it."""

    key: str
    value: str = ""
    effect: str = ""


class ReportedToleration(WireModel):
    """As flavors have it."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ReportedFlavor(WireModel):
    """What a ResourceFlavor of the worker does to the pods that are admitted to it."""

    name: str
    node_labels: dict[str, str] = Field(default_factory=dict)
    tolerations: list[ReportedToleration] = Field(default_factory=list)


class ReportedProfile(WireModel):
    """A MIG profile; placements are (start, size) in memory slices, one after the other."""

    name: str
    memory_mib: Annotated[Count, Field(alias="memoryMiB")]
    cores: Count
    slices: Slices
    placements: list[Slices] = Field(default_factory=list, max_length=256)


class CardKind(WireModel):
    """What cards have in common, see `federation.core.devices.cards`."""

    vendor: str
    model: str
    memory_mib: Annotated[Count, Field(alias="memoryMiB")]
    cores: Count
    slots: Count
    mode: str
    profiles: list[ReportedProfile] = Field(default_factory=list, max_length=64)
    sizes: list[Count] = Field(default_factory=list)


class NodeSite(WireModel):
    """What nodes have in common beside amounts. `links` are (card, card, score), one after the
    other, by the order of the cards on the node.
    """

    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[ReportedTaint] = Field(default_factory=list)
    links: list[Int32] = Field(default_factory=list)
    ready: bool = True


class NodeClass(WireModel):
    """Nodes that are alike for placement, and how many there are. `free` has an amount for each of
    the resources, `cards` each card with its free memory, cores and slots
    (`federation.core.devices.fleet.bucket_text`).
    """

    count: Count = 1
    site: Count = 0
    free: list[Whole] = Field(default_factory=list)
    cards: Annotated[str, Field(max_length=65536)] = ""


class ReportedPlacement(WireModel):
    """The nodes with cards, what is free of them rounded down where that is needed to be short."""

    cards: list[CardKind] = Field(default_factory=list)
    sites: list[NodeSite] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)
    classes: list[NodeClass] = Field(default_factory=list)
    omitted_labels: list[str] = Field(default_factory=list)
    """Keys of labels that nodes have and that are not told here."""
    unlisted: Count = 0
    """Nodes that are left out: there is more free than is told."""


class WorkerReportStatus(WireModel):
    """The inventory."""

    agent_version: str = ""
    inventory_epoch: int = 0
    """Epoch of the cluster's Lease for which this inventory is complete: no copy of a lower one is
    started after this was told."""
    tier: str = ""
    """How well the cluster keeps the policy stop: A (its agent), B (a guard on every node) or C (as
    B, and the store of checkpoints refuses old attempts)."""
    counted_resource_version: str = ""
    """Resource version of Jobs on the worker up to which the numbers count them."""
    local_queues: Annotated[
        list[ReportedLocalQueue], Field(json_schema_extra=list_map("namespace", "name"))
    ] = Field(default_factory=list)
    cluster_queues: Annotated[
        list[ReportedClusterQueue], Field(json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)
    flavors: list[ReportedFlavor] = Field(default_factory=list)
    card_vendors: list[str] = Field(default_factory=list, max_length=64)
    """Whose cards are given out one by one here: of vendors that nodes have ever shown cards of, or
    of whose cards a queue counts shares. Others are taken by quota alone."""
    kinds: list[str] | None = Field(default=None, max_length=1024)
    """Kinds of jobs beside batch/v1 Job whose copies the agent has read, and answers, as
    Kind.version.group. Absent: that is not told."""
    placement: ReportedPlacement | None = None
    """Absent while nodes and their cards are not read: then only quota says what fits."""


class WorkerReport(KubeObject):
    """Free and used capacity of one worker cluster."""

    api_version: str = FEDQ_API
    kind: Literal["WorkerReport"] = "WorkerReport"
    status: WorkerReportStatus = Field(default_factory=WorkerReportStatus)
