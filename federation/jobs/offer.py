"""The copy of a Job to offer to a cluster: made of the Job and of what its record says.

A copy gets what is left of the time that the Job may run in all, and the additions of admission
checks. A void one carries its refusal: nothing starts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from federation.api.names import DEFAULT_POD_SET, Label, Mirror
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.effects import VOID
from federation.core.facts import Record
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import PodSetAssignment
from federation.jobs import batch_job, template, token
from federation.jobs.mirror import Identity

Json = dict[str, Any]


def copy_of(
    job: Json,
    identity: Identity,
    record: Record,
    *,
    vendors: Vendors = VENDORS,
    void: bool = False,
    most_grace_s: float | None = None,
) -> Json:
    """The body to create on the cluster. With `most_grace_s` pods get no more time than that to end
    where they have to stop when the cluster is lost.
    """
    body = batch_job.remote_manifest(job, identity, record.admission, vendors)
    if most_grace_s is not None and identity.disconnect.stops:
        template.limit_grace(body["spec"]["template"], int(most_grace_s))
    token.add(body["spec"]["template"], identity)
    for assignment in _assignments(record):
        template_before = body["spec"]["template"]
        body["spec"]["template"] = template.started(template_before, assignment, _updates(record))
    _limit_time(body, record)
    if void:
        body["metadata"]["annotations"][Mirror.REFUSED.value] = VOID
    return body


def start_problem(job: Json, record: Record) -> str:
    """Why the pods cannot be as both the Job and its admission checks want; '' if they can."""
    found = (
        template.conflict(job["spec"]["template"], assignment, _updates(record))
        for assignment in _assignments(record)
    )
    return next((problem for problem in found if problem), "")


def _updates(record: Record) -> list[PodSetUpdate]:
    return [update for check in record.life.checks for update in check.updates]


def _assignments(record: Record) -> Iterable[PodSetAssignment]:
    """Those of the one pod set that a Job has. The worker's agent sees to places in a topology."""
    found = record.admission.pod_sets if record.admission else ()
    return (replace(pods, topology=None) for pods in found if pods.name == DEFAULT_POD_SET)


def _limit_time(body: Json, record: Record) -> None:
    """Take off what earlier runs have used, down to one second: no limit is lost that way."""
    life, spec = record.life, body["spec"]
    used = life.accumulated_past_s
    if life.max_execution_s is not None:
        left = max(1, life.max_execution_s - used)
        body["metadata"]["labels"][Label.MAX_EXEC_TIME_SECONDS.value] = str(left)
    if spec.get("activeDeadlineSeconds") is not None:
        spec["activeDeadlineSeconds"] = max(1, spec["activeDeadlineSeconds"] - used)
