"""The kinds that Fedq knows by itself, and those that a configuration adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from federation.api.kinds.row import Row
from federation.api.kinds.table import PODS, ROWS, SCALED
from federation.jobs.kinds.appwrapper import AppWrapper
from federation.jobs.kinds.batch import BatchJob
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.jobset import JobSet
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.leaderworkerset import LeaderWorkerSet
from federation.jobs.kinds.pods import Pods
from federation.jobs.kinds.rayjob import Ray, RayJob, RayService
from federation.jobs.kinds.scaled import Scaled
from federation.jobs.kinds.spark import SparkApplication
from federation.jobs.kinds.trainjob import TrainJob
from federation.jobs.kinds.unheeding import Unheeding
from federation.jobs.kinds.volcano import VolcanoJob

MODULES: Final[Mapping[str, type[GenericKind]]] = {
    "": GenericKind,
    "appwrapper": AppWrapper,
    "jobset": JobSet,
    "leaderworkerset": LeaderWorkerSet,
    "pods": Pods,
    "ray": Ray,
    "rayjob": RayJob,
    "rayservice": RayService,
    "scaled": Scaled,
    "spark": SparkApplication,
    "trainjob": TrainJob,
    "unheeding": Unheeding,
    "volcano": VolcanoJob,
}


def known(external: Iterable[Row] = (), off: frozenset[str] = frozenset()) -> Kinds:
    """All kinds: batch/v1 Job, the table, and what the configuration describes, but those `off`."""
    added = tuple(external)
    kinds = (MODULES[row.module](row) for row in (*ROWS, PODS, *SCALED, *added))
    return Kinds([BatchJob(), *kinds], added, off)


BATCH_ONLY: Final = Kinds([BatchJob()], None)
KINDS: Final = known()
