"""Ray: its clusters have a fixed size. How a RayJob ended is told by two fields, and its submitter
is a pod of its own.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from federation.api.kinds.paths import first
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import PodRole

Json = dict[str, Any]

_SUBMITTER = {
    "spec": {
        "containers": [
            {"name": "submitter", "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}}
        ]
    }
}
"""What KubeRay makes of a submitter that is not described."""


class Ray(GenericKind):
    """See JobKind. A Ray cluster, wherever its kind describes it."""

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        at = (*self.row.roles[0].at[:-1], "enableInTreeAutoscaling")
        if first(obj, at):
            return (
                f"{'.'.join(at)} is set, so Ray's autoscaler would add workers that no quota was"
                " found for: remove it"
            )
        return super().problem(obj, defaults)


class RayJob(Ray):
    """See JobKind."""

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        found = super().roles(obj)
        if obj["spec"].get("submissionMode") not in (None, "", "K8sJobMode"):
            return tuple(role for role in found if role.name != "submitter")
        if any(role.name == "submitter" for role in found):
            return found
        return (*found, PodRole("submitter", 1, deepcopy(_SUBMITTER)))

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        spec = obj["spec"]
        if spec.get("clusterSelector"):
            return (
                "a RayJob with a clusterSelector runs on a cluster that is there: it is not queued"
            )
        if not spec.get("shutdownAfterJobFinishes"):
            return (
                "spec.shutdownAfterJobFinishes is not set, so the Ray cluster would stay when the"
                " job has ended, and use quota that nobody counts: set it to true"
            )
        return super().problem(obj, defaults)

    def _ended(self, obj: Json) -> tuple[str, str]:
        ended, message = super()._ended(obj)
        if ended == "Complete" and first(obj, ("status", "jobStatus")) in ("FAILED", "STOPPED"):
            return "Failed", message
        return ended, message
