"""Objects that an operator has made of a job are parts of that, whatever it gave them."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.kinds.parts import is_part
from federation.edge.parts import Wholes

Json = dict[str, Any]


def owned(api_version: str, kind: str, *, controller: bool = True) -> Json:
    owner = {"apiVersion": api_version, "kind": kind, "name": "a", "controller": controller}
    return {"kind": "RayCluster", "metadata": {"name": kind, "ownerReferences": [owner]}}


@pytest.mark.parametrize(
    ("obj", "part"),
    [
        (owned("ray.io/v1", "RayJob"), True),
        (owned("trainer.kubeflow.org/v1alpha1", "TrainJob"), True),
        (owned("batch/v1", "Job"), True),
        (owned("ray.io/v1", "RayJob", controller=False), False),
        (owned("ray.io/v1", "RayCronJob"), False),
        (owned("batch/v1", "CronJob"), False),
        ({"metadata": {"name": "free"}}, False),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else str(value),
)
def test_the_controller_of_a_part_is_a_job(obj: Json, part: bool) -> None:
    assert is_part(obj) is part


def test_parts_are_not_handed_on() -> None:
    """Neither in lists nor one by one, when they go, too; but they are told of."""
    told: list[str] = []
    parts: list[str] = []

    class Told:
        def on_list(self, items: Any, resource_version: str) -> None:
            told.extend(item["metadata"]["name"] for item in items)

        def on_event(self, type: str, obj: Json) -> None:
            told.append(f"{type} {obj['metadata']['name']}")

    wholes = Wholes(Told(), lambda type, part: parts.append(type))
    part = owned("ray.io/v1", "RayJob")
    whole = {"metadata": {"name": "w"}}
    wholes.on_list([part, whole], "1")
    for event in ("ADDED", "DELETED"):
        wholes.on_event(event, part)
        wholes.on_event(event, whole)
    assert told == ["w", "ADDED w", "DELETED w"]
    assert parts == ["ADDED", "ADDED", "DELETED"]
