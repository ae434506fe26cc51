"""Admission checks of a worker cluster, whose controller is the test, for jobs of the manager."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from bench.observer import Observer, observing
from federation.api.names import Controller
from federation.edge.kube import KubeClient
from federation.edge.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, WORKLOADS
from tests.integration.agents import is_true
from tests.integration.conftest import API, Team
from tests.integration.test_dispatch import condition, submit, until

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
Holds = Callable[[Json], object]


@dataclass
class Checked:
    """A team whose queues on all workers have a check that the test answers."""

    team: Team
    observer: Observer
    clients: dict[str, KubeClient]

    @property
    def management(self) -> KubeClient:
        return self.clients["management"]

    async def workload(self, cluster: str, job: str, holds: Holds) -> Json:
        """Watch the Workload of a job on a cluster until something holds."""
        async with aclosing(self.clients[cluster].watch(WORKLOADS, self.team.name)) as events:
            async for event in events:
                owners = event.object["metadata"].get("ownerReferences") or [{"name": ""}]
                found = event.type in {"ADDED", "MODIFIED"} and owners[0]["name"] == job
                if found and holds(event.object):
                    return event.object
        raise AssertionError("the watch ended")

    async def offered(self, job: str, attempt: int) -> str:
        """The cluster that has quota for an attempt, and waits for the check."""
        bound = await self.workload("management", job, lambda obj: _bound(obj) == attempt)
        cluster = str(bound["status"]["fedq"]["cluster"])
        pending = await self.workload(cluster, job, _asked)
        assert is_true("QuotaReserved")(pending)
        assert is_true("Admitted", "UnsatisfiedAdmissionChecks", "False")(pending)
        return cluster

    async def answer(self, cluster: str, job: str, state: str, **more: Any) -> None:
        """What the controller of the check writes."""
        found = await self.workload(cluster, job, _asked)
        (check,) = found["status"]["admissionChecks"]
        said = check | {"state": state, "message": "so says the test"} | more
        body = {"status": {"admissionChecks": [said]}}
        name = found["metadata"]["name"]
        await self.clients[cluster].patch(
            WORKLOADS, name, body, self.team.name, subresource="status"
        )


def _bound(workload: Json) -> int:
    """The attempt of its binding; 0 without one."""
    fedq = (workload.get("status") or {}).get("fedq") or {}
    return int(fedq["attempt"]) if fedq.get("cluster") else 0


def _asked(workload: Json) -> bool:
    """Whether the check is to be answered."""
    checks = (workload.get("status") or {}).get("admissionChecks") or [{"state": ""}]
    return bool(checks[0]["state"] == "Pending") and is_true("QuotaReserved")(workload)


def _told(text: str) -> Holds:
    return lambda obj: text in ((obj.get("status") or {}).get("fedq") or {}).get("message", "")


def _waits(text: str) -> Holds:
    def holds(obj: Json) -> bool:
        found = (obj.get("status") or {}).get("conditions") or ()
        said = next((c for c in found if c["type"] == "QuotaReserved"), {"status": ""})
        return said["status"] == "False" and text in said["message"]

    return holds


@pytest.fixture
async def checked(team: Team) -> AsyncIterator[Checked]:
    name = f"prov-{team.name}"
    async with observing(team.stack, team.name) as (observer, clients):
        for worker in team.stack.rig.workers:
            spec = {"controllerName": Controller.PROVISIONING_REQUEST.value}
            body = {"apiVersion": API, "kind": "AdmissionCheck", "metadata": {"name": name}}
            await clients[worker].create(ADMISSION_CHECKS, {**body, "spec": spec})
            active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
            active["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            status = {"status": {"conditions": [active]}}
            await clients[worker].patch(ADMISSION_CHECKS, name, status, subresource="status")
            strategy = {"admissionChecks": [{"name": name}]}
            rules = {"spec": {"admissionChecksStrategy": strategy}}
            await clients[worker].patch(CLUSTER_QUEUES, team.name, rules)
        yield Checked(team, observer, clients)


async def test_the_winner_is_admitted_when_its_checks_are_ready(checked: Checked) -> None:
    """Retry brings it back into the queue for as long as the check asks; then it waits again, also
    for an agent that was killed meanwhile, and runs with what the check adds.
    """
    team, stack = checked.team, checked.team.stack
    await submit(checked.clients, checked.observer, team.job("a"))
    cluster = await checked.offered("a", 1)
    told = await checked.workload("management", "a", _told("and waits there"))
    assert f'"prov-{team.name}"' in told["status"]["fedq"]["message"]
    assert cluster in told["status"]["fedq"]["message"]
    assert not is_true("Admitted")(told)

    others = set(stack.rig.workers) - {cluster}
    await checked.answer(cluster, "a", "Retry", requeueAfterSeconds=3 if not others else 600)
    cluster = await checked.offered("a", 2)
    assert not others or cluster in others

    process = f"agent/{cluster}"
    stack.rig.stop_process(process, grace=0)
    update = {"name": "main", "labels": {"made-by": "test"}, "annotations": {"test/says": "here"}}
    await checked.answer(cluster, "a", "Ready", podSetUpdates=[update])
    stack.start_agent(cluster)
    started = await until(
        checked.clients[cluster], JOBS, team.name, "a", lambda obj: not obj["spec"]["suspend"]
    )
    template = started["spec"]["template"]["metadata"]
    assert template["labels"]["made-by"] == "test"
    assert template["annotations"]["test/says"] == "here"
    await until(checked.management, JOBS, team.name, "a", condition("Complete"))
    done = await checked.workload("management", "a", is_true("Finished"))
    assert is_true("Admitted")(done)
    assert done["status"]["clusterName"] == cluster
    assert done["status"]["fedq"]["attempt"] == 2
    assert checked.observer.starts["a"] == {f"{cluster}/{started['metadata']['uid']}"}


async def test_who_is_rejected_everywhere_waits_with_the_reason(checked: Checked) -> None:
    """Each cluster is asked once; somebody who wants it tried again says so."""
    team, workers = checked.team, checked.team.stack.rig.workers
    await submit(checked.clients, checked.observer, team.job("b"))
    asked = []
    for attempt in range(1, len(workers) + 1):
        asked.append(await checked.offered("b", attempt))
        await checked.answer(asked[-1], "b", "Rejected")
    assert sorted(asked) == sorted(workers)
    said = await checked.workload("management", "b", _waits("refused for good"))
    assert _waits("so says the test")(said)
    assert _bound(said) == 0

    name = said["metadata"]["name"]
    for active in (False, True):
        body = {"spec": {"active": active}}
        await checked.management.patch(WORKLOADS, name, body, team.name)
        if not active:
            await checked.workload(
                "management", "b", is_true("QuotaReserved", "Deactivated", "False")
            )
    cluster = await checked.offered("b", len(workers) + 1)
    await checked.answer(cluster, "b", "Ready")
    await until(checked.management, JOBS, team.name, "b", condition("Complete"))
