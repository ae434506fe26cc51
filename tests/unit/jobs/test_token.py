"""What pods get by which they prove their attempt, and a guard finds them."""

from __future__ import annotations

from typing import Any

from federation.core.failover import OnDisconnect
from federation.core.wishes import Disconnect
from federation.jobs import token
from federation.jobs.mirror import Identity


def identity(disconnect: Disconnect | None = None) -> Identity:
    return Identity("o", "uid-1", 3, 2, "2026-01-01T00:00:00Z", 0, disconnect or Disconnect())


def environments(template: dict[str, Any]) -> list[dict[str, str]]:
    containers = [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]
    return [{v["name"]: v["value"] for v in container["env"]} for container in containers]


def test_every_container_knows_its_attempt_and_when_it_has_to_end() -> None:
    """Grace is Kubernetes' default where the pod does not say."""
    template: dict[str, Any] = {
        "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}
    }
    token.add(template, identity())

    expected = {
        "FEDQ_ATTEMPT": "3",
        "FEDQ_JOB_UID": "uid-1",
        "FEDQ_ON_DISCONNECT": "stop",
        "FEDQ_GRACE_SECONDS": "30",
    }
    assert environments(template) == [expected, expected]
    assert template["metadata"]["annotations"] == {
        "fedq.io/attempt": "3",
        "fedq.io/local-uid": "uid-1",
    }


def test_the_limit_of_keep_is_told() -> None:
    """In seconds."""
    template: dict[str, Any] = {
        "spec": {"containers": [{"name": "c"}], "terminationGracePeriodSeconds": 5}
    }
    token.add(template, identity(Disconnect(OnDisconnect.KEEP, 600.0)))

    [environment] = environments(template)
    assert environment["FEDQ_RERUN_AFTER"] == "600"
    assert environment["FEDQ_ON_DISCONNECT"] == "keep"
    assert environment["FEDQ_GRACE_SECONDS"] == "5"


def test_variables_of_the_user_stay() -> None:
    """Whoever sets them knows why."""
    own = {"name": "FEDQ_ON_DISCONNECT", "value": "keep"}
    template: dict[str, Any] = {"spec": {"containers": [{"name": "c", "env": [own]}]}}
    token.add(template, identity())

    [environment] = environments(template)
    assert environment["FEDQ_ON_DISCONNECT"] == "keep"
