"""TrainJob: its pods are described by a runtime, what it adds to them by patches of that.

The runtime is another object; the pod set `node` is made of what the TrainJob itself says. What an
admission adds is a patch in the name of Kueue's manager, as that writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from federation.api.kinds.paths import EACH, Path, first, mapping, mappings, number, put
from federation.core.devices.wire.vendors import Vendors
from federation.core.types import Admission
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.shape import shaped
from federation.jobs.kinds.unheeding import Unheeding
from federation.jobs.mirror import Identity
from federation.jobs.template import PLACES

Json = dict[str, Any]

MANAGER = "kueue.x-k8s.io/manager"
NODE = "node"
_TRAINER: Path = ("spec", "trainer")
_JOBS: Path = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_PATCHES: Path = ("spec", "runtimePatches", EACH)
_POD: Path = ("template", "spec", "template")


class TrainJob(Unheeding):
    """See JobKind. The trainer makes a JobSet that is deleted anew until its TrainJob is gone."""

    remade = True

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        trainer = mapping(obj, _TRAINER)
        given = {"requests": {}, **mapping(trainer, ("resourcesPerNode",))}
        container: Json = {"name": NODE, "resources": given}
        for field in ("image", "env"):
            if field in trainer:
                container[field] = trainer[field]
        added = _patched(obj)
        spec = {**mapping(added, ("spec",)), "containers": [container]}
        template = {**added, "spec": spec}
        count = number(trainer, ("numNodes",), 1)
        return (PodRole(NODE, count, template),) if shaped(template) else ()

    def remote_manifest(
        self, obj: Json, identity: Identity, admission: Admission | None, vendors: Vendors
    ) -> Json:
        """See JobKind. What Kueue's manager has patched here is of this cluster."""
        patches = [p for p in mappings(obj, _PATCHES) if p.get("manager") != MANAGER]
        if patches != first(obj, _PATCHES[:-1], []):
            spec = put(mapping(obj, ("spec",)), ("runtimePatches",), patches or None)
            obj = {**obj, "spec": spec}
        return super().remote_manifest(obj, identity, admission, vendors)

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """See JobKind. Only what a start may change, and the environment, is written."""
        wanted = templates.get(NODE)
        if wanted is None:
            return obj
        if env := first(wanted["spec"]["containers"][0], ("env",)):
            obj = put(obj, (*_TRAINER, "env"), env)
        pod: Json = {}
        for part, field in PLACES:
            if value := (wanted.get(part) or {}).get(field):
                pod = put(pod, (part, field), value)
        patches = [p for p in mappings(obj, _PATCHES) if p.get("manager") != MANAGER]
        if pod:
            job = put({"name": NODE}, _POD, pod)
            patches = [*patches, put({"manager": MANAGER}, _JOBS, [job])]
        if not patches and "runtimePatches" not in obj["spec"]:
            return obj
        return {**obj, "spec": put(obj["spec"], ("runtimePatches",), patches or None)}

    def start_writes(self, patch: Json) -> tuple[Json, ...]:
        """See JobKind. The trainer's webhook takes patches of the runtime only of one that stays
        suspended.
        """
        placed = {field: value for field, value in patch["spec"].items() if field != "suspend"}
        if not placed:
            return (patch,)
        start = {"metadata": {"uid": patch["metadata"]["uid"]}, "spec": self.suspend(suspend=False)}
        return {**patch, "spec": placed}, start

    def limit_time(self, body: Json, used_s: int) -> None:
        """See JobKind. Of one that is there the limit cannot be changed: it begins anew when that
        goes on.
        """
        if not first(body, ("metadata", "uid")):
            super().limit_time(body, used_s)

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        if not first(obj, (*_TRAINER, "resourcesPerNode")):
            return (
                "spec.trainer.resourcesPerNode is not set: the quota of a TrainJob is counted by"
                " what it says itself, not by its runtime"
            )
        return super().problem(obj, defaults)


def _patched(obj: Json) -> Json:
    """What our patch adds to the pods."""
    for patch in mappings(obj, _PATCHES):
        for job in mappings(patch, (*_JOBS, EACH)):
            if patch.get("manager") == MANAGER and job.get("name") == NODE:
                return mapping(job, _POD)
    return {}
