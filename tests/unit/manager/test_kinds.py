"""A manager that follows several kinds of jobs."""

from __future__ import annotations

from typing import Any

from federation.api.names import Label
from federation.core.facts import BATCH_JOB
from federation.edge.resources import JOBS, resource_of
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.registry import KINDS, known
from tests.unit.jobs.kinds import samples
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import job, mirrored

Json = dict[str, Any]
JOBSET = KINDS["JobSet.v1alpha2.jobset.x-k8s.io"]
TORCH = KINDS["PyTorchJob.v1.kubeflow.org"]
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def serving(*kinds: JobKind, at: tuple[str, ...] = ("a",)) -> Federation:
    """A federation of which all clusters serve some kinds; all kinds are switched on."""
    found = Federation(*at)
    found.kinds = KINDS
    for fake in (found.home, *(worker.fake for worker in found.workers.values())):
        fake.discovery = True
        fake.resources += [resource_of(kind) for kind in kinds]
        fake.with_status.update(resource_of(kind) for kind in kinds)
    return found


def jobset(name: str = "s", gpus: int = 1) -> Json:
    """A JobSet of one pod as the policies leave it."""
    pods = samples.template()
    pods["spec"]["containers"][0]["resources"]["requests"] = {"gpu": str(gpus)}
    replicated = [{"name": "w", "template": {"spec": {"template": pods}}}]
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.kind,
        "metadata": {"name": name, "namespace": "team", "labels": {Label.QUEUE_NAME.value: "lq"}},
        "spec": {"suspend": True, "managedBy": MULTIKUEUE, "replicatedJobs": replicated},
    }


async def test_kinds_that_are_switched_off_are_not_followed() -> None:
    """Neither at home nor on the workers; the others are."""
    federation = serving(JOBSET, TORCH)
    federation.kinds = known(off=frozenset({BATCH_JOB, TORCH.name}))
    federation.home.create(JOBS, job("j"))
    federation.home.create(resource_of(JOBSET), jobset())
    copy = mirrored("left")  # of when they were switched on
    federation.workers["a"].add(copy)
    async with federation.running():
        await until(lambda: federation.record("s"), "the JobSet is queued")
        copied = federation.workers["a"].fake.objects.data
        await until(lambda: copied.get(resource_of(JOBSET)), "the copy of the JobSet")
    for fake in (federation.home, federation.workers["a"].fake):
        assert not [path for _, path in fake.log if "/pytorchjobs?" in path]
    assert federation.record("j") is None
    assert federation.local("j")["spec"]["suspend"]
    assert federation.workers["a"].fake.get(JOBS, "left", "team")
