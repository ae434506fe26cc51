"""Kinds whose operator may run on the management cluster, and runs there whatever is not suspended:
it knows no managedBy, or does not look at it. There they stay suspended for good.
"""

from __future__ import annotations

from typing import Any

from federation.core.facts import LocalJob, RemoteJob
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.generic import GenericKind

Json = dict[str, Any]


class Unheeding(GenericKind):
    """See JobKind. Until the job has ended, the status on the management cluster is that of its
    operator, which would take back at once what another one writes: only the end is written.
    """

    def local_job(self, obj: Json, defaults: PodDefaults | None = None) -> LocalJob:
        """See JobKind."""
        shown = obj if self.finished(obj) else {**obj, "status": {}}
        return super().local_job(shown, defaults)

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """See JobKind. The end is written once: the operator may add to it."""
        return bool(remote.finished) and not local.finished
