"""Every kind: its model, its names on the wire and the columns that `kubectl get` prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from federation.api.admission_check import AdmissionCheck
from federation.api.cluster_queue import ClusterQueue
from federation.api.cohort import Cohort
from federation.api.local_queue import LocalQueue
from federation.api.meta import KubeObject
from federation.api.multikueue import MultiKueueCluster, MultiKueueConfig
from federation.api.names import (
    FEDQ_GROUP,
    FEDQ_VERSION,
    KUEUE_GROUP,
    KUEUE_OLD_VERSION,
    KUEUE_VERSION,
)
from federation.api.priority_class import WorkloadPriorityClass
from federation.api.provisioning import ProvisioningRequestConfig
from federation.api.resource_flavor import ResourceFlavor
from federation.api.topology import Topology
from federation.api.worker_report import WorkerReport
from federation.api.workload import Workload


class UnknownKind(ValueError):
    """No model for this apiVersion and kind."""


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column. Priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: Literal["string", "integer", "date", "boolean"] = "string"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind as it is served. `versions` starts with the stored one."""

    model: type[KubeObject]
    plural: str
    short_names: tuple[str, ...] = ()
    scope: Literal["Cluster", "Namespaced"] = "Cluster"
    columns: tuple[Column, ...] = ()
    group: str = KUEUE_GROUP
    versions: tuple[str, ...] = (KUEUE_VERSION, KUEUE_OLD_VERSION)
    selectable: tuple[str, ...] = ()
    """JSON paths usable as field selectors."""

    @property
    def name(self) -> str:
        """The kind as objects write it."""
        return self.model.__name__

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.name.lower()


def _true(name: str, type: str, priority: int = 0) -> Column:
    return Column(name, f".status.conditions[?(@.type=='{type}')].status", priority=priority)


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
_PENDING: Final = Column("Pending Workloads", ".status.pendingWorkloads", "integer")
_ADMITTED: Final = Column("Admitted Workloads", ".status.admittedWorkloads", "integer")

KINDS: Final[tuple[Kind, ...]] = (
    Kind(ResourceFlavor, "resourceflavors", ("flavor", "flavors", "rf"), columns=(AGE,)),
    Kind(
        ClusterQueue,
        "clusterqueues",
        ("cq",),
        columns=(
            Column("Cohort", ".spec.cohortName"),
            Column("Strategy", ".spec.queueingStrategy", priority=1),
            _PENDING,
            _ADMITTED,
        ),
    ),
    Kind(Cohort, "cohorts", ("co",), columns=(Column("Parent", ".spec.parentName"), AGE)),
    Kind(
        LocalQueue,
        "localqueues",
        ("queue", "queues", "lq"),
        "Namespaced",
        (Column("ClusterQueue", ".spec.clusterQueue"), _PENDING, _ADMITTED),
    ),
    Kind(
        Workload,
        "workloads",
        ("kwl", "kueueworkload", "kueueworkloads"),
        "Namespaced",
        (
            Column("Queue", ".spec.queueName"),
            Column("Reserved in", ".status.admission.clusterQueue"),
            _true("Admitted", "Admitted"),
            _true("Finished", "Finished"),
            AGE,
            Column("Cluster", ".status.clusterName", priority=1),
        ),
        selectable=(".status.admission.clusterQueue",),
    ),
    Kind(
        WorkloadPriorityClass,
        "workloadpriorityclasses",
        ("wpc",),
        columns=(Column("Value", ".value", "integer"), AGE),
    ),
    Kind(
        AdmissionCheck,
        "admissionchecks",
        ("ac",),
        columns=(
            Column("Controller", ".spec.controllerName", priority=1),
            _true("Active", "Active"),
            AGE,
        ),
    ),
    Kind(Topology, "topologies", ("topo",), columns=(AGE,)),
    Kind(
        MultiKueueConfig,
        "multikueueconfigs",
        ("mkconf",),
        columns=(Column("Clusters", ".spec.clusters"), AGE),
    ),
    Kind(
        MultiKueueCluster,
        "multikueueclusters",
        ("mkc",),
        columns=(
            _true("Connected", "Active"),
            Column("State", ".status.fedq.phase"),
            Column("Tier", ".status.fedq.tier", priority=1),
            Column("Epoch", ".status.fedq.epoch", "integer", priority=1),
            AGE,
        ),
    ),
    Kind(ProvisioningRequestConfig, "provisioningrequestconfigs", ("prc",), columns=(AGE,)),
    Kind(
        WorkerReport,
        "workerreports",
        ("wr",),
        columns=(
            Column("Agent", ".status.agentVersion"),
            Column("Epoch", ".status.inventoryEpoch", "integer"),
            AGE,
        ),
        group=FEDQ_GROUP,
        versions=(FEDQ_VERSION,),
    ),
)

REGISTRY: Final[Mapping[tuple[str, str, str], Kind]] = {
    (kind.group, version, kind.name): kind for kind in KINDS for version in kind.versions
}
"""(group, version, kind) to what is known about it."""


def parse(obj: dict[str, Any]) -> KubeObject:
    """Read any object of the registry, in either spelling.

    Raises UnknownKind, or pydantic.ValidationError with the path of each bad field.
    """
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    found = REGISTRY.get((group, version, str(obj.get("kind", ""))))
    if found is None:
        known = sorted({f"{k.group}/{v} {k.name}" for k in KINDS for v in k.versions})
        raise UnknownKind(
            f"{obj.get('apiVersion')} {obj.get('kind')} is none of: {', '.join(known)}"
        )
    return found.model.from_wire(obj)
