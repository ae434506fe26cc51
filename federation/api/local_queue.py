"""LocalQueue: a namespace's door to a ClusterQueue (Kueue API, v1beta2)."""

from typing import Literal

from pydantic import ConfigDict, Field

from federation.api.fields import Count, FreeForm, Name, rules
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


class LocalQueueStatus(WireModel):
    """Use by this namespace."""

    conditions: Conditions = Field(default_factory=list)
    pending_workloads: Count = 0
    reserving_workloads: Count = 0
    admitted_workloads: Count = 0
    flavors_reservation: FlavorUsages = Field(default_factory=list)
    flavors_usage: FlavorUsages = Field(default_factory=list)
    fair_sharing: FreeForm | None = None


class LocalQueue(KubeObject):
    """The queue that users name in `kueue.x-k8s.io/queue-name`."""

    api_version: str = KUEUE_API
    kind: Literal["LocalQueue"] = "LocalQueue"
    spec: LocalQueueSpec = Field(default_factory=LocalQueueSpec)
    status: LocalQueueStatus = Field(default_factory=LocalQueueStatus)
