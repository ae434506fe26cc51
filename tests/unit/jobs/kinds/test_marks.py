"""Pods of a copy carry the marks by which they are found, whatever their kind."""

from __future__ import annotations

import pytest

from federation.api.kinds.row import Row
from federation.api.kinds.table import ROWS, SCALED
from federation.api.names import Label, Mirror
from federation.api.record import read_record
from federation.jobs.kinds.registry import KINDS
from federation.jobs.offer import copy_of
from tests.unit.jobs.kinds import test_scaled
from tests.unit.jobs.kinds.samples import sample
from tests.unit.jobs.kinds.test_pods import trio
from tests.unit.jobs.kinds.test_scaled import IDENTITY

RECORD = read_record(
    {
        "metadata": {"name": "w", "namespace": "team", "uid": "w", "resourceVersion": "1"},
        "spec": {},
    }
)


@pytest.mark.parametrize("row", [*ROWS, *SCALED], ids=lambda row: row.name)
def test_templates_of_a_copy_have_them(row: Row) -> None:
    """In all of its pod sets that it describes: KubeRay makes a submitter of its own."""
    kind = KINDS[row.name]
    obj = test_scaled.sample(row) if row in SCALED else sample(row)
    body = copy_of(obj, IDENTITY, RECORD, kind=kind)
    found = kind.roles(kind.original(body)) if row in SCALED else kind.roles(body)
    described = [r for r in found if (row.kind, r.name) != ("RayJob", "submitter")]
    assert described
    for role in described:
        _check(role.template["metadata"])


def test_pods_that_are_jobs_have_them() -> None:
    """Each of a group."""
    for pod in copy_of(trio(), IDENTITY, RECORD, kind=KINDS["Pod.v1"])["spec"]["pods"]:
        _check(pod["metadata"])


def _check(meta: dict[str, dict[str, str]]) -> None:
    assert meta["labels"][Label.MULTIKUEUE_WORKER_POD.value] == "true"
    assert meta["annotations"][Mirror.LOCAL_UID.value] == IDENTITY.local_uid
    assert meta["annotations"][Mirror.ATTEMPT.value] == str(IDENTITY.attempt)
