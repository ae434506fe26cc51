"""MultiKueueConfig and MultiKueueCluster: which worker clusters there are (Kueue API)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from federation.api.fields import Int32, Time, rules, value_set
from federation.api.meta import Conditions, KubeObject, WireModel
from federation.api.names import KUEUE_API

Location = Annotated[str, Field(min_length=1, max_length=256)]


class MultiKueueConfigSpec(WireModel):
    """Clusters that a check sends work to, in the order they are tried."""

    clusters: Annotated[
        list[Location],
        Field(min_length=1, json_schema_extra=value_set()),
    ]
    """Unique, as many as there are: a list of unique items keeps its order, and the API server
    compares them at a cost that does not limit their number as a rule in CEL would."""
    quota_management: Literal["Manual", "Automated"] = "Manual"
    """Automated: the nominal quota of the queue is the sum over its worker clusters."""


class MultiKueueConfig(KubeObject):
    """Parameters of an AdmissionCheck of controller `kueue.x-k8s.io/multikueue`."""

    api_version: str = KUEUE_API
    kind: Literal["MultiKueueConfig"] = "MultiKueueConfig"
    spec: MultiKueueConfigSpec


class KubeConfigSource(WireModel):
    """Where the kubeconfig is."""

    location: Location
    """Name of a Secret in the manager's namespace (data key `kubeconfig`), or a file path."""
    location_type: Literal["Secret", "Path"] = "Secret"


class ClusterProfileRef(WireModel):
    """A ClusterProfile in the manager's namespace."""

    name: Location


class ClusterSource(WireModel):
    """How to reach the cluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.kubeConfig) != has(self.clusterProfileRef)",
                "exactly one of kubeConfig and clusterProfileRef must be set",
            )
        )
    )

    kube_config: KubeConfigSource | None = None
    cluster_profile_ref: ClusterProfileRef | None = None


class MultiKueueClusterSpec(WireModel):
    """How to reach the cluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.clusterSource) || has(self.kubeConfig)",
                "clusterSource is required",
            )
        )
    )

    cluster_source: ClusterSource | None = None
    kube_config: KubeConfigSource | None = None
    """v1beta1's spelling of clusterSource.kubeConfig; rewritten on create and update."""


class ClusterStanding(WireModel):
    """How the cluster stands (Fedq's own part). The times are for people."""

    phase: str = ""
    """Unknown, Ready, Unusable, Recovering, Suspect, Fenced, Lost, Returning or Leaving."""
    since: Time | None = None
    """When it came into this phase."""
    next: str = ""
    """What comes next if nothing changes."""
    next_at: Time | None = None
    """When that will be."""
    tier: str = ""
    """What has to break before a copy of a job outlives its lease: none (nothing: no agent holds
    one), A (the agent or the worker's API server), B (the kernel of a node), C (nothing that writes
    a checkpoint)."""
    epoch: Int32 = 0
    """Epoch of the cluster's Lease: grows by one each time that it is given up."""
    message: str = ""
    """Why it stands like this."""
    brake: str = ""
    """Why no cluster is given up at present, and no job runs again elsewhere."""
    order: str = ""
    """Why the last order that was to confirm a fence was not followed."""


class MultiKueueClusterStatus(WireModel):
    """Whether the cluster can be reached."""

    conditions: Conditions = Field(default_factory=list)
    fedq: ClusterStanding | None = None


class MultiKueueCluster(KubeObject):
    """A worker cluster."""

    api_version: str = KUEUE_API
    kind: Literal["MultiKueueCluster"] = "MultiKueueCluster"
    spec: MultiKueueClusterSpec
    status: MultiKueueClusterStatus = Field(default_factory=MultiKueueClusterStatus)
