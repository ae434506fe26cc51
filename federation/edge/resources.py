"""The resource types Fedq talks about, and where the API server serves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from federation.api.names import FEDQ_GROUP, FEDQ_VERSION, KUEUE_GROUP, KUEUE_VERSION

Json = dict[str, Any]
"""An object as it is on the wire. Unknown fields stay in it, so it can be written back."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource type. `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def prefix(self) -> str:
        """The path under which all its objects are served."""
        if not self.group:
            return f"/api/{self.version}"
        return f"/apis/{self.group}/{self.version}"

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """URL path of the collection, of one object or of its subresource.

        Without a namespace the collection of a namespaced type is that of all namespaces.
        """
        path = self.prefix
        if namespace and self.namespaced:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        return f"{path}/{subresource}" if subresource else path


class Typed(Protocol):
    """What says of which resource type it is."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def plural(self) -> str: ...


def resource_of(kind: Typed) -> Resource:
    """Where objects of a namespaced kind are served."""
    return Resource(kind.group, kind.version, kind.plural)


JOBS = Resource("batch", "v1", "jobs")
PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
SECRETS = Resource("", "v1", "secrets")
CONFIGMAPS = Resource("", "v1", "configmaps")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases")
EVENTS = Resource("", "v1", "events")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
LIMIT_RANGES = Resource("", "v1", "limitranges")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", namespaced=False)
RESOURCE_CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", namespaced=False)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)

WORKLOADS = Resource(KUEUE_GROUP, KUEUE_VERSION, "workloads")
CLUSTER_QUEUES = Resource(KUEUE_GROUP, KUEUE_VERSION, "clusterqueues", namespaced=False)
LOCAL_QUEUES = Resource(KUEUE_GROUP, KUEUE_VERSION, "localqueues")
RESOURCE_FLAVORS = Resource(KUEUE_GROUP, KUEUE_VERSION, "resourceflavors", namespaced=False)
COHORTS = Resource(KUEUE_GROUP, KUEUE_VERSION, "cohorts", namespaced=False)
ADMISSION_CHECKS = Resource(KUEUE_GROUP, KUEUE_VERSION, "admissionchecks", namespaced=False)
WORKLOAD_PRIORITY_CLASSES = Resource(
    KUEUE_GROUP, KUEUE_VERSION, "workloadpriorityclasses", namespaced=False
)
TOPOLOGIES = Resource(KUEUE_GROUP, KUEUE_VERSION, "topologies", namespaced=False)
MULTIKUEUE_CLUSTERS = Resource(KUEUE_GROUP, KUEUE_VERSION, "multikueueclusters", namespaced=False)
MULTIKUEUE_CONFIGS = Resource(KUEUE_GROUP, KUEUE_VERSION, "multikueueconfigs", namespaced=False)
PROVISIONING_CONFIGS = Resource(
    KUEUE_GROUP, KUEUE_VERSION, "provisioningrequestconfigs", namespaced=False
)
PROVISIONING_REQUESTS = Resource("autoscaling.x-k8s.io", "v1", "provisioningrequests")
POD_TEMPLATES = Resource("", "v1", "podtemplates")
CLUSTER_PROFILES = Resource("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles")

WORKER_REPORTS = Resource(FEDQ_GROUP, FEDQ_VERSION, "workerreports", namespaced=False)
