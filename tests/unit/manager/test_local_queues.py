"""Queues whose jobs run on the management cluster itself: what the manager does with them."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.names import Label
from federation.core.types import FlavorResource
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import custom, job

Json = dict[str, Any]
CHECKED: Json = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}}
UNCHECKED: Json = {"admissionChecksStrategy": None}


def world(*, on: bool = True, exists: bool = True, **spec: Any) -> Federation:
    """One worker; a check of MultiKueue, which ClusterQueue cq may name in its `spec`."""
    found = Federation("a", **spec)
    found.local_queues = on
    found.home.create(MULTIKUEUE_CONFIGS, custom("MultiKueueConfig", "all", {"clusters": ["a"]}))
    if exists:
        make_check(found)
    return found


def make_check(found: Federation) -> None:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    found.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", "mk", spec))


def mark(found: Federation, value: str | None) -> None:
    body = {"metadata": {"labels": {Label.LOCAL.value: value}}}
    found.home.merge(LOCAL_QUEUES, "lq", body, "team")


def marked(found: Federation) -> bool:
    labels = found.home.get(LOCAL_QUEUES, "lq", "team")["metadata"].get("labels") or {}
    return labels.get(Label.LOCAL.value) == "true"


def active(found: Federation, name: str = "cq") -> str:
    """The message of Active=True of a ClusterQueue."""
    status = found.home.get(CLUSTER_QUEUES, name).get("status") or {}
    shown = [c for c in status.get("conditions", ()) if c["type"] == "Active"]
    return str(shown[0]["message"]) if shown and shown[0]["status"] == "True" else ""


@pytest.mark.parametrize(
    ("on", "exists", "spec", "before", "after"),
    [
        pytest.param(True, True, {}, None, True, id="no-check"),
        pytest.param(True, True, CHECKED, "true", False, id="multikueue"),
        pytest.param(False, True, {}, "true", False, id="no-agent-beside-the-manager"),
        pytest.param(True, False, CHECKED, "true", True, id="check-missing-keeps-the-label"),
    ],
)
async def test_the_label_of_a_local_queue(
    on: bool, exists: bool, spec: Json, before: str | None, after: bool
) -> None:
    """It says whether its jobs run here; where that hangs on a missing check, it stays."""
    found = world(on=on, exists=exists, **spec)
    mark(found, before)
    found.home.create(CLUSTER_QUEUES, custom("ClusterQueue", "zz", {"resourceGroups": []}))
    last = custom("LocalQueue", "zz", {"clusterQueue": "zz"}, "team")
    last["metadata"]["labels"] = {Label.LOCAL.value: "true"} if not on else {}
    found.home.create(LOCAL_QUEUES, last)

    def done() -> bool:  # they are looked at in order: zz after the one in question
        labels = found.home.get(LOCAL_QUEUES, "zz", "team")["metadata"].get("labels") or {}
        return (Label.LOCAL.value in labels) is on

    async with found.running():
        await until(done, "all are looked at")
        assert marked(found) is after


async def test_the_check_comes_and_goes() -> None:
    """The label follows, and so does what is said of the queue."""
    found = world()
    async with found.running():
        await until(lambda: marked(found) and "run on this cluster" in active(found))
        found.home.merge(CLUSTER_QUEUES, "cq", {"spec": CHECKED})
        await until(lambda: not marked(found) and "Can admit" in active(found))
        found.home.merge(CLUSTER_QUEUES, "cq", {"spec": UNCHECKED})
        await until(lambda: marked(found))


async def test_a_check_that_appears_later() -> None:
    """Until it does, nobody knows whose the queue is: it is left as it is."""
    found = world(exists=False, **CHECKED)
    mark(found, "true")
    async with found.running():
        make_check(found)
        await until(lambda: not marked(found))


async def test_jobs_of_the_agent_are_left_alone() -> None:
    """No Workload for them, nothing known of them; theirs is neither read nor removed."""
    found = world()
    local = job("here")
    local["metadata"]["labels"][Label.LOCAL.value] = "true"
    made = found.home.create(JOBS, local)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "here", "controller": True}
    record = custom("Workload", "job-here", {"queueName": "lq", "podSets": []}, "team")
    record["metadata"] |= {
        "labels": {Label.LOCAL.value: "true"},
        "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}],
    }
    found.home.create(WORKLOADS, record)
    async with found.running() as manager:
        found.home.merge(CLUSTER_QUEUES, "cq", {"spec": CHECKED})
        await until(lambda: not marked(found) and "Can admit" in active(found))
        found.submit("there")
        await found.offered("there")
        assert len(manager.controller.states) == 1
        names = {o["metadata"]["ownerReferences"][0]["name"] for o in found.home.items(WORKLOADS)}
        assert names == {"here", "there"}


async def test_a_job_to_be_sent_away_waits_in_a_local_queue() -> None:
    """It is told why; it goes when the queue has the check."""
    found = world()
    async with found.running() as manager:
        found.submit("j")
        await until(lambda: found.record() and found.record().reason == "Misconfigured")
        assert "Create it again to run it here" in found.record().message
        of_a_set = manager.controller.queues.elsewhere(manager.catalog.queues["cq"], True)
        assert "name a queue with such a check" in of_a_set
        found.home.merge(CLUSTER_QUEUES, "cq", {"spec": CHECKED})
        await found.offered("j")


async def test_a_job_on_a_cluster_outlives_the_check_of_its_queue() -> None:
    """It runs to its end there, and is counted; the next one waits."""
    found = world(**CHECKED)
    async with found.running() as manager:
        found.submit("j")
        worker = await found.offered("j")
        found.start(worker)
        await until(lambda: found.record().admitted)
        found.home.merge(CLUSTER_QUEUES, "cq", {"spec": UNCHECKED})
        await until(lambda: marked(found))
        found.submit("k")
        await until(lambda: found.record("k") and found.record("k").reason == "Misconfigured")
        assert found.record().admitted
        tree = manager.scheduler.snapshot.tree
        assert tree.usage("cq")[FlavorResource("f", "gpu")] == 1
        worker.run_pods("j")
        worker.end("j")
        await until(lambda: found.record().finished)
        assert found.record().attempt == 1


async def test_a_local_queue_lends_nothing_to_the_manager() -> None:
    """What the agent counts, the manager does not: unused quota there may be in use."""
    found = world(quota=1, **CHECKED, cohortName="both")
    quotas = [{"name": "gpu", "nominalQuota": 8}]
    group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": quotas}]}
    spec = {"resourceGroups": [group], "namespaceSelector": {}, "cohortName": "both"}
    found.home.create(CLUSTER_QUEUES, custom("ClusterQueue", "local", spec))
    async with found.running():
        found.submit("j", gpus=2)
        await until(lambda: found.record() and found.record().reason == "ExceedsMaxQuota")
        found.home.merge(CLUSTER_QUEUES, "local", {"spec": CHECKED})
        await found.offered("j")


async def test_one_that_cannot_be_labelled_keeps_no_other_from_it() -> None:
    """An admission policy of somebody else may refuse it for ever."""
    found = world()
    found.home.create(LOCAL_QUEUES, custom("LocalQueue", "aa", {"clusterQueue": "cq"}, "team"))
    found.home.fail(
        lambda request: request.method == "PATCH" and request.url.path.endswith("/localqueues/aa"),
        times=10**9,
        status=403,
    )
    async with found.running():
        await until(lambda: marked(found), "the one after it is labelled")
