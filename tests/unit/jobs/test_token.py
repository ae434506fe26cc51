"""The token of an attempt, as the pods of a copy get it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from federation.core.facts import ObjectKey, Record
from federation.core.failover import OnDisconnect
from federation.core.wishes import Disconnect
from federation.jobs.mirror import Identity
from federation.jobs.offer import copy_of

Json = dict[str, Any]

KEEP = Identity("o", "uid-1", 3, 7, "2026-01-01T00:00:00Z", 0, Disconnect(OnDisconnect.KEEP))
STOP = Identity("o", "uid-1", 3, 7, "2026-01-01T00:00:00Z", 0)
RECORD = Record("w", ObjectKey("team", "w"), 1)


def job(**pod: Any) -> Json:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **pod}
    meta = {"name": "j", "namespace": "team", "uid": "uid-1"}
    return {"metadata": meta, "spec": {"template": {"spec": spec}}}


def pods(body: Json, identity: Identity = KEEP, **more: Any) -> Json:
    return dict(copy_of(body, identity, RECORD, **more)["spec"]["template"])


TOKEN = [
    {"name": "FEDQ_ATTEMPT", "value": "3"},
    {"name": "FEDQ_JOB_UID", "value": "uid-1"},
    {"name": "FEDQ_ON_DISCONNECT", "value": "keep"},
    {"name": "FEDQ_GRACE_SECONDS", "value": "30"},
]


def test_every_container_has_it() -> None:
    """Init containers too, and pods by the downward API; the Job itself is not touched."""
    ours = job(initContainers=[{"name": "first", "image": "i"}])
    before = deepcopy(ours)
    template = pods(ours)

    containers = [*template["spec"]["initContainers"], *template["spec"]["containers"]]
    assert [container["env"] for container in containers] == [TOKEN, TOKEN]
    assert template["metadata"]["annotations"] == {
        "fedq.io/attempt": "3",
        "fedq.io/local-uid": "uid-1",
    }
    assert ours == before


def test_what_another_attempt_left_in_the_environment_is_replaced() -> None:
    """A manifest made from a running pod says nothing about this attempt. Other variables stay."""
    other = {"name": "A", "value": "1"}
    stale = [{"name": "FEDQ_ATTEMPT", "valueFrom": {}}, {"name": "FEDQ_RERUN_AFTER", "value": "9"}]
    env = [stale[0], other, stale[1]]
    container = pods(job(containers=[{"name": "c", "env": env}]))["spec"]["containers"][0]
    assert container["env"] == [other, *TOKEN]


@pytest.mark.parametrize(
    ("identity", "most", "grace", "expected"),
    [
        (STOP, None, 600, 600),
        (STOP, 45.0, 600, 45),
        (STOP, 45.0, 10, 10),
        (STOP, 45.0, None, None),
        (STOP, 20.0, None, 20),
        (KEEP, 45.0, 600, 600),
    ],
)
def test_a_shorter_grace(
    identity: Identity, most: float | None, grace: int | None, expected: int | None
) -> None:
    """Only where asked for, and only of what has to stop."""
    said = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    template = pods(job(**said), identity, most_grace_s=most)
    assert template["spec"].get("terminationGracePeriodSeconds") == expected
    env = {v["name"]: v["value"] for v in template["spec"]["containers"][0]["env"]}
    assert env["FEDQ_GRACE_SECONDS"] == str(expected or 30)
