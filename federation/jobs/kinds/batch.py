"""batch/v1 Job among the kinds: what `federation.jobs.batch_job` does, asked as of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.api.names import DEFAULT_POD_SET, JOB_CONTROLLER
from federation.api.record import is_elastic
from federation.core.devices.wire.vendors import Vendors
from federation.core.facts import BATCH_JOB, LocalJob, RemoteJob
from federation.core.pod_updates import PodSetUpdate
from federation.core.sizes import Counts
from federation.core.types import Admission, PodSet, ResourceFlavor
from federation.jobs import admission_note, batch_job, elastic, scaling
from federation.jobs.containers import PodDefaults
from federation.jobs.device_pins import Template as Cards
from federation.jobs.kinds.kind import PodRole, Running
from federation.jobs.mirror import Identity

Json = dict[str, Any]


class BatchJob:
    """See JobKind."""

    name, seats = BATCH_JOB, True
    bundled = deletes = deletes_copies = remade = lets_go = False
    kind, group, version, plural = batch_job.KIND, "batch", "v1", "jobs"
    api_version = batch_job.API_VERSION

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        spec = obj["spec"]
        return (PodRole(DEFAULT_POD_SET, scaling.pod_count(spec), spec["template"]),)

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """See JobKind."""
        found = templates.get(DEFAULT_POD_SET, obj["spec"]["template"])
        return {**obj, "spec": {**obj["spec"], "template": found}}

    def original(self, obj: Json) -> Json:
        """See JobKind."""
        return admission_note.original(obj)

    def pod_sets(self, obj: Json, defaults: PodDefaults | None = None) -> tuple[PodSet, ...]:
        """See JobKind."""
        return batch_job.pod_sets(obj, defaults)

    def elastic(self, obj: Json) -> bool:
        """See JobKind."""
        return is_elastic(obj)

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        return batch_job.pods_problem(obj, defaults)

    def pod_class(self, obj: Json) -> str:
        """See JobKind."""
        return str(obj["spec"]["template"].get("spec", {}).get("priorityClassName", ""))

    def local_job(self, obj: Json, defaults: PodDefaults | None = None) -> LocalJob:
        """See JobKind."""
        return batch_job.local_job(obj, defaults)

    def local_suspend(self, *, suspend: bool) -> Json:
        """See JobKind."""
        return {"spec": {"suspend": suspend}}

    def remote_manifest(
        self, obj: Json, identity: Identity, admission: Admission | None, vendors: Vendors
    ) -> Json:
        """See JobKind."""
        return batch_job.remote_manifest(obj, identity, admission, vendors)

    def live_patch(self, obj: Json) -> Json:
        """See JobKind. Its number of pods and its priority follow in ways of their own."""
        return {}

    def resized(self, obj: Json, pods: Counts) -> Json:
        """See JobKind."""
        return elastic.resized(obj, pods)

    def limit_time(self, body: Json, used_s: int) -> None:
        """See JobKind."""
        spec = body["spec"]
        if spec.get("activeDeadlineSeconds") is not None:
            spec["activeDeadlineSeconds"] = max(1, spec["activeDeadlineSeconds"] - used_s)

    def remote_job(self, cluster: str, obj: Json, *, gone: bool = False) -> RemoteJob:
        """See JobKind."""
        return batch_job.remote_job(cluster, obj, gone=gone)

    def in_transit(self, status: Mapping[str, Any]) -> bool:
        """See JobKind."""
        return batch_job.in_transit(status)

    def merge_status(self, local: Mapping[str, Any], remote: Mapping[str, Any]) -> Json:
        """See JobKind."""
        return batch_job.merge_status(local, remote)

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """See JobKind."""
        return batch_job.is_behind(local, remote)

    def reset_status(self, status: Mapping[str, Any], now: str) -> Json:
        """See JobKind."""
        return batch_job.reset_status(status, now)

    def managed_elsewhere(self, obj: Json) -> bool:
        """See JobKind."""
        return bool(obj["spec"].get("managedBy", JOB_CONTROLLER) != JOB_CONTROLLER)

    def suspended(self, obj: Json) -> bool:
        """See JobKind."""
        return bool(obj["spec"].get("suspend"))

    def suspend(self, *, suspend: bool) -> Json:
        """See JobKind."""
        return {"suspend": suspend}

    def running(self, obj: Json) -> Running:
        """See JobKind."""
        status = obj.get("status") or {}
        uncounted = status.get("uncountedTerminatedPods") or {}
        return Running(
            active=status.get("active") or 0,
            ready=status.get("ready") or 0,
            terminating=status.get("terminating") or 0,
            succeeded=status.get("succeeded") or 0,
            uncounted=sum(len(uids or ()) for uids in uncounted.values()),
            started=bool(status.get("startTime")),
            suspended=batch_job.condition(status, "Suspended"),
        )

    def at_once(self, obj: Json) -> Counts:
        """See JobKind. Those that are left to do."""
        return {DEFAULT_POD_SET: scaling.at_once(obj["spec"], obj.get("status") or {})}

    def sized(self, copy: Json, said: Json) -> Counts:
        """See JobKind."""
        return elastic.sized(copy, said)

    def resize(self, copy: Json, said: Json) -> Json:
        """See JobKind."""
        return elastic.resize(said)

    def finished(self, obj: Json) -> str:
        """See JobKind."""
        return batch_job.finished(obj.get("status") or {})

    def reclaimable(self, asked: Json, obj: Json) -> dict[str, int]:
        """See JobKind."""
        return scaling.reclaimable(asked["spec"], obj["spec"], obj.get("status") or {})

    def start_writes(self, patch: Json) -> tuple[Json, ...]:
        """See JobKind."""
        return (patch,)

    def admission_patch(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
        cards: Cards | None = None,
    ) -> Json:
        """See JobKind."""
        return batch_job.admission_patch(obj, admission, flavors, updates, cards)

    def start_problem(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
    ) -> str:
        """See JobKind."""
        return batch_job.start_problem(obj, admission, flavors, updates)

    def late_patch(self, obj: Json, flavors: Iterable[ResourceFlavor]) -> Json | None:
        """See JobKind. Its controller makes its pods."""
        return None

    def pod_patch(self, obj: Json, pod: Json) -> Json | None:
        """See JobKind. `gates` and `pins` of the agent let its pods go."""
        return None

    def restore_patch(self, obj: Json) -> Json | None:
        """See JobKind."""
        return batch_job.restore_patch(obj)
