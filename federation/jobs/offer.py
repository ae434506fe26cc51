"""The copy of a Job to offer to a cluster: made of the Job and of what its record says.

A copy gets what is left of the time that the Job may run in all, and the additions of admission
checks. A void one carries its refusal: nothing starts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from federation.api.names import Label, Mirror
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.effects import VOID
from federation.core.facts import Record
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import PodSetAssignment
from federation.jobs import template, token
from federation.jobs.kinds.batch import BatchJob
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.parts import merged
from federation.jobs.mirror import Identity

Json = dict[str, Any]

_BATCH = BatchJob()


def copy_of(
    job: Json,
    identity: Identity,
    record: Record,
    *,
    kind: JobKind = _BATCH,
    vendors: Vendors = VENDORS,
    void: bool = False,
    most_grace_s: float | None = None,
) -> Json:
    """The body to create on the cluster. With `most_grace_s` pods get no more time than that to end
    where they have to stop when the cluster is lost.
    """
    body = kind.remote_manifest(job, identity, record.admission, vendors)
    limit = most_grace_s if identity.disconnect.stops else None
    templates = {role.name: role.template for role in kind.roles(body)}
    given = {pods.name: pods for pods in _assignments(record)}
    for name, found in templates.items():
        made = found  # the body's own
        if limit is not None:
            template.limit_grace(made, int(limit))
        token.add(made, identity)
        if name in given:
            made = template.started(made, given[name], _updates(record))
        templates[name] = made
    body = kind.with_templates(body, templates)
    _limit_time(body, record, kind)
    if void:
        body["metadata"]["annotations"][Mirror.REFUSED.value] = VOID
    return body


def goes_on(kind: JobKind, job: Json, used_s: int) -> Json:
    """What changes in the spec of a copy that goes on, with less time by so many seconds if it has
    a limit.
    """
    less = deepcopy(job)
    kind.limit_time(less, used_s)
    left = template.merge_patch(job["spec"], less["spec"])
    return merged(left, kind.suspend(suspend=False))


def start_problem(job: Json, record: Record, kind: JobKind = _BATCH) -> str:
    """Why the pods cannot be as both the Job and its admission checks want; '' if they can."""
    templates = {role.name: role.template for role in kind.roles(job)}
    found = (
        template.conflict(templates[assignment.name], assignment, _updates(record))
        for assignment in _assignments(record)
        if assignment.name in templates
    )
    return next((problem for problem in found if problem), "")


def _updates(record: Record) -> list[PodSetUpdate]:
    return [update for check in record.life.checks for update in check.updates]


def _assignments(record: Record) -> Iterable[PodSetAssignment]:
    """Of each pod set. The worker's agent sees to places in a topology."""
    found = record.admission.pod_sets if record.admission else ()
    return (replace(pods, topology=None) for pods in found)


def _limit_time(body: Json, record: Record, kind: JobKind) -> None:
    """Take off what earlier runs have used, down to one second: no limit is lost that way."""
    life, used = record.life, record.life.accumulated_past_s
    if life.max_execution_s is not None:
        left = max(1, life.max_execution_s - used)
        body["metadata"]["labels"][Label.MAX_EXEC_TIME_SECONDS.value] = str(left)
    kind.limit_time(body, used)
