"""SparkApplications with Kubeflow's Spark operator, its webhooks and its CRD, on management and
worker cluster alike. Stand-ins play spark-submit and the drivers: no Spark is here to run.

Skipped where the operator was not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from federation.api.names import Label
from federation.core.quantity import exact_quantity
from federation.edge.resources import PODS, WORKLOADS, Resource, resource_of
from fedq.rig.binaries import find_or_build
from fedq.rig.operators import SPARK
from fedq.stack import Stack
from tests.integration.conftest import flavor
from tests.integration.kind_objects import create, gone, of, row, until
from tests.integration.real_rigs import LABEL, WORKER, Place, places, pods, real_rig
from tests.integration.spark_driver import drivers, finish
from tests.integration.spark_submit import spark_home
from tests.integration.test_kinds import condition

Json = dict[str, Any]
APPS = resource_of(row("SparkApplication"))
SERVICES = Resource("", "v1", "services")
TOLERATION = {"key": "fedq.io/spark", "operator": "Exists", "effect": "NoSchedule"}
"""Of the worker's flavor."""
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own, as CRDs that take anything are on that of the session."""
    kubectl = find_or_build(["kubectl"])["kubectl"]
    home = spark_home(tmp_path_factory.mktemp("spark"), kubectl)
    with real_rig("spark", (SPARK,), tmp_path_factory, {"SPARK_HOME": str(home)}) as stack:
        given = {"nodeLabels": LABEL, "tolerations": [TOLERATION]}
        stack.apply(WORKER, [flavor() | {"spec": given}])
        yield stack


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    """Drivers may make their executors there."""
    name = f"spark-{uuid.uuid4().hex[:6]}"
    async with places(real, name, {"memory": "64Gi"}) as found:
        real.apply(WORKER, _account(name))
        async with drivers(real.rig, WORKER, found.worker, name):
            yield found


def _account(team: str) -> list[Json]:
    """The ServiceAccount of drivers, with the role that the operator's chart gives it."""
    meta = {"name": "spark", "namespace": team}
    rbac = "rbac.authorization.k8s.io"
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
    resources = ["pods", "configmaps", "persistentvolumeclaims", "services"]
    rule = {"apiGroups": [""], "resources": resources, "verbs": verbs}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "subjects": [{"kind": "ServiceAccount", **meta}],
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "spark"},
        },
    ]


def application(place: Place, name: str = "train", *, seconds: float = 600, **notes: str) -> Json:
    """One with two executors whose driver takes so long."""
    given = {f"fedq.io/{key.replace('_', '-')}": text for key, text in notes.items()}
    driver = {"annotations": {"fedq.io/run-seconds": str(seconds), **given}}
    stays = {"fedq.io/run-seconds": "600"}
    if "stop_seconds" in notes:
        stays["fedq.io/stop-seconds"] = notes["stop_seconds"]
    spec = {
        "type": "Scala",
        "mode": "cluster",
        "sparkVersion": "3.5.5",
        "image": "example.invalid/spark",
        "mainClass": "org.apache.spark.examples.SparkPi",
        "mainApplicationFile": "local:///opt/spark/examples.jar",
        "driver": {"cores": 1, "memory": "512m", "serviceAccount": "spark", **driver},
        "executor": {"instances": 2, "cores": 1, "memory": "1g", "annotations": stays},
    }
    return of(row("SparkApplication"), name, place.name, spec)


def state(*wanted: str) -> Any:
    return lambda obj: _state(obj) in wanted


def _state(obj: Json) -> str:
    told = (obj.get("status") or {}).get("applicationState") or {}
    return str(told.get("state", ""))


def runs(executors: int) -> Any:
    """Whether its driver runs, and so many executors."""

    def holds(obj: Json) -> bool:
        told = (obj.get("status") or {}).get("executorState") or {}
        return state("RUNNING")(obj) and list(told.values()).count("RUNNING") == executors

    return holds


async def charged(place: Place) -> None:
    """Each pod asks for what is charged for it, and is placed as its flavor says."""
    workload = await place.workload(condition("Admitted"))
    given = {
        one["name"]: (one["count"], one["resourceUsage"])
        for one in workload["status"]["admission"]["podSetAssignments"]
    }
    for pod in await pods(place.worker, place):
        count, usage = given[pod["metadata"]["labels"]["spark-role"]]
        for resource, amount in usage.items():
            asked = [c["resources"]["requests"].get(resource, "0") for c in _containers(pod)]
            assert sum(map(exact_quantity, asked)) * count == exact_quantity(amount)
        assert LABEL.items() <= pod["spec"]["nodeSelector"].items()
        assert TOLERATION in pod["spec"]["tolerations"]


def _containers(pod: Json) -> list[Json]:
    return list(pod["spec"]["containers"])


async def test_one_runs_on_a_worker_and_comes_back(place: Place) -> None:
    """The operator submits it on the worker and not at home, whatever is edited there; its end
    comes back, and the two do not go on about it.
    """
    made = await create(place.home, APPS, application(place))
    assert made["spec"]["suspend"] is True
    await until(place.worker, APPS, place.key, runs(2))
    assert len(await pods(place.worker, place)) == 3
    await charged(place)
    await until(place.home, APPS, place.key, state("SUSPENDED"))
    await place.home.patch(APPS, "train", {"spec": {"arguments": ["10"]}}, place.name)
    await finish(place.worker, place.name, "train")

    done = await until(place.home, APPS, place.key, state("COMPLETED"))
    assert done["spec"]["suspend"] is True
    ended = await place.finished("Succeeded")
    assert not condition("Evicted")(ended)
    await gone(place.worker, APPS, place.key)
    left = [pod["status"]["phase"] for pod in await pods(place.worker, place)]
    assert left in ([], ["Succeeded"])
    await place.nothing_at_home(PODS, SERVICES)
    since = made["metadata"]["resourceVersion"]
    marker = {"metadata": {"labels": {"seen": "true"}}}
    await place.home.patch(APPS, "train", marker, place.name)
    assert await _versions(place, since) < 20


async def _versions(place: Place, since: str) -> int:
    """How often it was written at home until it got its label."""
    seen = 0
    watch = place.home.watch(APPS, place.name, resource_version=since)
    async with aclosing(watch) as events:
        async for event in events:
            seen += event.type == "MODIFIED"
            if "seen" in event.object["metadata"].get("labels", {}):
                return seen
    raise AssertionError("the watch ended")


async def test_one_that_fails(place: Place) -> None:
    """What its operator says of that comes back."""
    await create(place.home, APPS, application(place, seconds=1, exit_code="1"))
    done = await until(place.home, APPS, place.key, state("FAILED"))
    text = done["status"]["applicationState"]["errorMessage"]
    assert "ExitCode: 1" in text
    ended = await place.finished("Failed")
    finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
    assert finish["message"].startswith(text)
    await gone(place.worker, APPS, place.key)


RETRIES = {
    "driver": {"onFailureRetries": 1, "onFailureRetryInterval": 1},
    "submission": {"onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 1},
}


@pytest.mark.parametrize(
    ("what", "count"), [("driver", "executionAttempts"), ("submission", "submissionAttempts")]
)
async def test_one_that_its_operator_tries_again(place: Place, what: str, count: str) -> None:
    """It has failed when that has no tries left, in one attempt of ours."""
    body = application(place, seconds=1, exit_code="1")
    body["spec"]["restartPolicy"] = {"type": "OnFailure", **RETRIES[what]}
    if what == "submission":
        body["spec"]["sparkConf"] = {"spark.kubernetes.driver.label.no": "label of a pod"}
    await create(place.home, APPS, body)
    done = await until(place.home, APPS, place.key, state("FAILED"))
    assert done["status"][count] == 2
    await place.finished("Failed")
    await gone(place.worker, APPS, place.key)


async def test_one_whose_time_to_live_is_over_goes(place: Place) -> None:
    """The operator at home deletes it, its Workload goes with it."""
    body = application(place, seconds=1)
    body["spec"]["timeToLiveSeconds"] = 3
    await create(place.home, APPS, body)
    ended = await place.finished("Succeeded")
    await gone(place.home, APPS, place.key)
    await gone(place.home, WORKLOADS, (place.name, ended["metadata"]["name"]))
    await gone(place.worker, APPS, place.key)


async def test_one_that_is_held_leaves_nothing_behind_and_runs_again(place: Place) -> None:
    """Its quota is free when driver and executors are gone. Released it runs anew; deleted it
    goes.
    """
    await create(place.home, APPS, application(place, stop_seconds="2"))
    await until(place.worker, APPS, place.key, runs(2))
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]

    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []
    await until(place.home, APPS, place.key, state("SUSPENDED"))

    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    await place.workload(lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2)
    await until(place.worker, APPS, place.key, runs(2))
    await place.nothing_at_home(PODS, SERVICES)
    await place.home.delete(APPS, "train", place.name)
    await gone(place.worker, APPS, place.key)
    await gone(place.home, WORKLOADS, (place.name, name))
    assert await pods(place.worker, place) == []


async def test_one_of_the_worker_is_preempted_and_returns(place: Place) -> None:
    """The agent suspends it: its pods go, its spec is as it was; it is started again."""
    body = application(place)
    body["spec"]["executor"]["instances"] = 5
    made = await create(place.worker, APPS, body)
    await until(place.worker, APPS, place.key, runs(5))
    urgent = application(place, "urgent")
    urgent["metadata"]["labels"][Label.PRIORITY_CLASS.value] = "urgent"
    await create(place.worker, APPS, urgent)

    stopped = await until(place.worker, APPS, place.key, lambda o: o["spec"] == made["spec"])
    assert stopped["spec"]["suspend"] is True
    await until(place.worker, APPS, (place.name, "urgent"), runs(2))
    assert len(await pods(place.worker, place)) == 3
    await finish(place.worker, place.name, "urgent")
    await until(place.worker, APPS, (place.name, "urgent"), state("COMPLETED"))
    again = await until(place.worker, APPS, place.key, runs(5))
    assert again["spec"]["driver"]["nodeSelector"] == LABEL


async def test_a_node_selector_for_all_pods(place: Place) -> None:
    """The operator refuses it beside that of a role, which a start writes."""
    body = application(place)
    body["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    await create(place.home, APPS, body)
    copy = await until(place.worker, APPS, place.key, runs(2))
    assert "nodeSelector" not in copy["spec"]
    for pod in await pods(place.worker, place):
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", **LABEL}
    await place.home.delete(APPS, "train", place.name)


async def test_pod_templates_are_counted(place: Place) -> None:
    """With what they have beside Spark's own containers, and with what fields say over them."""
    beside = {
        "name": "beside",
        "image": "example.invalid/none",
        "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
    }
    own = {"name": "spark-kubernetes-driver", "resources": {"requests": {"cpu": "7"}}}
    body = application(place)
    body["spec"]["driver"]["template"] = {
        "spec": {
            "containers": [beside, own],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "mine", "operator": "Exists"}],
        }
    }
    body["spec"]["executor"]["sidecars"] = [beside]
    await create(place.home, APPS, body)
    await until(place.worker, APPS, place.key, runs(2))
    await charged(place)
    found = {
        pod["metadata"]["labels"]["spark-role"]: pod for pod in await pods(place.worker, place)
    }
    assert len(_containers(found["driver"])) == len(_containers(found["executor"])) == 2
    assert found["driver"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", **LABEL}
    await place.home.delete(APPS, "train", place.name)


async def test_properties_of_spark_are_counted(place: Place) -> None:
    """Where no field says the same; executors that Spark may add are charged from the start."""
    body = application(place)
    spec = body["spec"]
    spec["driver"].pop("memory")
    spec["executor"].pop("instances")
    spec["sparkConf"] = {
        "spark.driver.memory": "2g",
        "spark.executor.cores": "5",
        "spark.executor.memoryOverhead": "100",
    }
    spec["dynamicAllocation"] = {"enabled": True, "initialExecutors": 1, "maxExecutors": 3}
    await create(place.home, APPS, body)
    await until(place.worker, APPS, place.key, runs(1))
    await charged(place)
    workload = await place.workload(condition("Admitted"))
    usage = {
        one["name"]: one["resourceUsage"]
        for one in workload["status"]["admission"]["podSetAssignments"]
    }
    assert exact_quantity(usage["executor"]["memory"]) == 3 * (1024 + 100) << 20
    assert exact_quantity(usage["driver"]["memory"]) == (2048 + 384) << 20
    await place.home.delete(APPS, "train", place.name)
