"""Ray: its clusters have a fixed size. How a RayJob ended is told by two fields, and its submitter
is a pod of its own.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from federation.api.kinds.paths import first, mapping, number, places
from federation.core.types import PodSet
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.parts import shown
from federation.jobs.kinds.shape import shaped
from federation.jobs.pods import pod_set

Json = dict[str, Any]

_SUBMITTER = {
    "spec": {
        "containers": [
            {"name": "submitter", "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}}
        ]
    }
}
"""What KubeRay makes of a submitter that is not described."""


def _with(template: Json, beside: list[Json]) -> Json:
    spec = template["spec"]
    return {**template, "spec": {**spec, "containers": [*(spec.get("containers") or ()), *beside]}}


class Ray(GenericKind):
    """See JobKind. A Ray cluster, wherever its kind describes it."""

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        at = (*self.row.roles[0].at[:-1], "enableInTreeAutoscaling")
        if first(obj, at):
            more = ", and change the replicas of its worker groups yourself"
            return (
                f"{'.'.join(at)} is set, so Ray's autoscaler would add workers that no quota was"
                f" found for: remove it{more if self.elastic(obj) else ''}"
            )
        return super().problem(obj, defaults) or self._below_least(obj)

    def _below_least(self, obj: Json) -> str:
        """KubeRay makes at least `minReplicas`, whatever was charged."""
        for place, group in places(obj, self.row.roles[1].at):
            least, count = number(group, ("minReplicas",), 0), number(group, ("replicas",), 1)
            if least > count:
                return (
                    f"{shown(place)}.minReplicas is {least}, so that Ray's operator would make more"
                    f" workers than the {count} of its replicas: set replicas to {least}, or"
                    " minReplicas lower"
                )
        return ""


class RayService(Ray):
    """See JobKind. KubeRay holds it back only before it has run: of one that is suspended later it
    prepares another cluster, which is suspended, and leaves the one that serves as it is until that
    is ready (`shouldPrepareNewCluster`). So a copy is stopped by deleting it. Of one that never ran
    it tells nothing but the name of the cluster that it prepares.
    """

    deletes_copies = remade = True

    def _busy(self, obj: Json) -> bool:
        """See GenericKind. Once it serves, or is about to, it goes on."""
        served = ("status", "activeServiceStatus", "rayClusterName")
        return (bool(first(obj, served)) or not self.suspended(obj)) and super()._busy(obj)


class RayJob(Ray):
    """See JobKind."""

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        found = super().roles(obj)
        if first(obj, ("spec", "submissionMode")) not in (None, "", "K8sJobMode"):
            return tuple(role for role in found if role.name != "submitter")
        if any(role.name == "submitter" for role in found):
            return found
        return (*found, PodRole("submitter", 1, deepcopy(_SUBMITTER)))

    def pod_sets(self, obj: Json, defaults: PodDefaults | None = None) -> tuple[PodSet, ...]:
        """See JobKind. A submitter beside Ray's head is charged with it."""
        found = super().pod_sets(obj, defaults)
        if first(obj, ("spec", "submissionMode")) != "SidecarMode":
            return found
        asked = self.original(obj)
        given = first(asked, ("spec", "submitterPodTemplate"))
        beside = (given if shaped(given) else _SUBMITTER)["spec"].get("containers") or []
        heads = (
            pod_set(r.name, r.count, _with(r.template, beside), defaults=defaults)
            for r in self.roles(asked)
            if r.name == "head"
        )
        return (*heads, *(pods for pods in found if pods.name != "head"))

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        spec = mapping(obj, ("spec",))
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
