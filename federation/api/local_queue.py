"""LocalQueue: a namespace's door to a ClusterQueue (Kueue API, v1beta2)."""

from typing import Literal

from pydantic import ConfigDict, Field

from federation.api.fields import Count, Name, Resources, Time, rules
from federation.api.meta import Conditions, KubeObject, WireModel
from federation.api.names import KUEUE_API
from federation.api.quota import FairSharing, FlavorUsages
from federation.core.policies import StopPolicy


class LocalQueueSpec(WireModel):
    """Where the queue leads."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(oldSelf.clusterQueue) || (has(self.clusterQueue) && "
                "self.clusterQueue == oldSelf.clusterQueue)",
                "clusterQueue is immutable",
            )
        )
    )

    cluster_queue: Name = ""
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_sharing: FairSharing | None = None


class AdmissionFairSharingStatus(WireModel):
    """What the queue used, where LocalQueues take turns."""

    consumed_resources: Resources = Field(default_factory=dict)
    """Past use; it ages. What was used one half-life ago counts half."""
    last_update: Time | None = None
    """When present use was last taken into it."""


class LocalQueueFairSharing(WireModel):
    """The place of the queue among those of its ClusterQueue."""

    weighted_share: int = 0
    """Use over weight, as far as whole numbers go: the least goes first."""
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(WireModel):
    """Use by this namespace."""

    conditions: Conditions = Field(default_factory=list)
    pending_workloads: Count = 0
    reserving_workloads: Count = 0
    admitted_workloads: Count = 0
    flavors_reservation: FlavorUsages = Field(default_factory=list)
    flavors_usage: FlavorUsages = Field(default_factory=list)
    fair_sharing: LocalQueueFairSharing | None = None


class LocalQueue(KubeObject):
    """The queue that users name in `kueue.x-k8s.io/queue-name`."""

    api_version: str = KUEUE_API
    kind: Literal["LocalQueue"] = "LocalQueue"
    spec: LocalQueueSpec = Field(default_factory=LocalQueueSpec)
    status: LocalQueueStatus = Field(default_factory=LocalQueueStatus)
