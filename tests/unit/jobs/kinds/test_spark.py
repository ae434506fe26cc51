"""SparkApplications: what Spark asks for by its properties, and what their operator makes of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from federation.core.devices.wire.vendor_table import VENDORS
from federation.jobs.kinds.registry import KINDS
from tests.fakes.patches import merge
from tests.unit.jobs.kinds.samples import STATUSES, sample, template
from tests.unit.jobs.kinds.test_table import FLAVOR, IDENTITY, admitted

Json = dict[str, Any]
MIB = 1 << 20
SPARK: Any = KINDS["SparkApplication.v1beta2.sparkoperator.k8s.io"]


def spark(**fields: Any) -> Json:
    obj = sample(SPARK.row)
    return {**obj, "spec": {**obj["spec"], **fields}}


def test_executors_without_end_would_pass_the_quota_by() -> None:
    assert "maxExecutors" in SPARK.problem(spark(dynamicAllocation={"enabled": True}))
    limited = spark(dynamicAllocation={"enabled": True, "maxExecutors": 7})
    assert SPARK.problem(limited) == ""
    assert [p.count for p in SPARK.pod_sets(limited)] == [1, 7]
    off = spark(dynamicAllocation={"enabled": False})
    assert SPARK.problem(off) == ""


@pytest.mark.parametrize(("type_", "mib"), [("Scala", 11264), ("Python", 14336), ("R", 14336)])
def test_memory_beside_the_jvm(type_: str, mib: int) -> None:
    """A tenth of the memory, and four tenths where not all runs in the JVM."""
    executor = {"instances": 1, "memory": "10g"}
    found = SPARK.pod_sets(spark(type=type_, executor=executor))[1]
    assert found.requests["memory"] == mib * MIB


def test_containers_beside_sparks_own_are_counted() -> None:
    beside = template("3")["spec"]["containers"]
    driver = {"cores": 1, "memory": "1g", "sidecars": beside}
    assert SPARK.pod_sets(spark(driver=driver))[0].requests["cpu"] == 4000
    before = {"cores": 1, "memory": "1g", "initContainers": beside}
    assert SPARK.pod_sets(spark(driver=before))[0].requests["cpu"] == 3000
    assert "spec.driver cannot be read" in SPARK.problem(spark(driver={"sidecars": "x"}))


def test_the_priority_of_a_spark_application() -> None:
    """The batch scheduler's, else the driver's, else the executors'."""
    obj = spark()
    assert SPARK.pod_class(obj) == ""
    obj["spec"]["executor"]["priorityClassName"] = "low"
    assert SPARK.pod_class(obj) == "low"
    obj["spec"]["driver"]["priorityClassName"] = "high"
    assert SPARK.pod_class(obj) == "high"
    assert SPARK.pod_class(spark(batchSchedulerOptions={"priorityClassName": "own"})) == "own"


def asked(**fields: Any) -> dict[str, dict[str, int]]:
    """The requests of one pod of each sort."""
    obj = spark(**fields)
    assert SPARK.problem(obj) == ""
    return {pods.name: dict(pods.requests) for pods in SPARK.pod_sets(obj)}


def executor(**fields: Any) -> dict[str, int]:
    return asked(executor={"memory": "1g", **fields})["executor"]


@pytest.mark.parametrize(
    ("conf", "resource", "amount"),
    [
        ({"spark.executor.memory": "2g"}, "memory", 1024 + 384),  # the field says 1g
        ({"spark.executor.memoryOverhead": "100"}, "memory", 1124),
        ({"spark.executor.memoryOverhead": "0"}, "memory", 1024),
        ({"spark.executor.memoryOverheadFactor": "0.5"}, "memory", 1536),
        ({"spark.kubernetes.memoryOverheadFactor": "0.5"}, "memory", 1536),
        ({"spark.executor.minMemoryOverhead": "1g"}, "memory", 2048),
        ({"spark.memory.offHeap.size": "1g"}, "memory", 1408),  # not enabled
        ({"spark.executor.pyspark.memory": "1g"}, "memory", 1408),  # no Python
        ({"spark.executor.cores": "3"}, "cpu", 3000),
        ({"spark.kubernetes.executor.request.cores": "100m"}, "cpu", 100),
        ({"spark.executor.resource.gpu.amount": "2"}, "nvidia.com/gpu", 0),
        ({"spark.driver.memory": "9g"}, "memory", 1408),
    ],
)
def test_what_properties_of_spark_ask_for(conf: dict[str, str], resource: str, amount: int) -> None:
    """Where no field says the same; the operator hands on both, the field last."""
    found = asked(sparkConf=conf, executor={"instances": 1, "memory": "1g"})["executor"]
    assert found.get(resource, 0) == amount * (MIB if resource == "memory" else 1)


def test_memory_that_only_properties_ask_for() -> None:
    """Off the heap its size is in bytes; of Python's it counts whose file it is."""
    off_heap = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"}
    found = asked(sparkConf=off_heap, executor={"memory": "1g"}, driver={"memory": "1g"})
    assert (found["driver"]["memory"], found["executor"]["memory"]) == (1408 * MIB, 2432 * MIB)
    python = {"spark.executor.pyspark.memory": "1g"}
    found = asked(sparkConf=python, mainApplicationFile="a.py", executor={"memory": "1g"})
    assert found["executor"]["memory"] == (1024 + 409 + 1024) * MIB


def test_cards_by_properties_of_spark() -> None:
    at = "spark.executor.resource.gpu"
    conf = {f"{at}.amount": "2", f"{at}.vendor": "nvidia.com"}
    assert asked(sparkConf=conf)["executor"]["nvidia.com/gpu"] == 2
    assert executor(gpu={"name": "amd.com/gpu", "quantity": 3})["amd.com/gpu"] == 3


@pytest.mark.parametrize(
    ("text", "mib"), [("2048", 2048), ("3G", 3072), ("512mb", 512), ("1t", 1 << 20), ("9000k", 8)]
)
def test_an_amount_without_a_unit_is_in_mebibytes(text: str, mib: int) -> None:
    assert executor(memory=text, memoryOverhead="0")["memory"] == mib * MIB


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"executor": {}}, 1),
        ({"executor": {}, "sparkConf": {"spark.executor.instances": "4"}}, 4),
        ({"sparkConf": {"spark.executor.instances": "4"}}, 3),
        (
            {
                "sparkConf": {
                    "spark.dynamicAllocation.enabled": "true",
                    "spark.dynamicAllocation.maxExecutors": "9",
                }
            },
            9,
        ),
        ({"dynamicAllocation": {"enabled": False, "maxExecutors": 9}}, 3),
    ],
)
def test_how_many_executors(fields: Json, count: int) -> None:
    obj = spark(**fields)
    assert SPARK.problem(obj) == ""
    assert [(pods.name, pods.count) for pods in SPARK.pod_sets(obj)] == [
        ("driver", 1),
        ("executor", count),
    ]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"sparkConf": {"spark.dynamicAllocation.enabled": "true"}}, "without maxExecutors"),
        ({"sparkConf": {"spark.executor.instances": "x"}, "executor": {}}, "sparkConf[spark.exec"),
        ({"executor": {"instances": -1}}, "spec.executor.instances is '-1'"),
        ({"sparkConf": {"spark.driver.memoryOverhead": "1Gi"}}, "sparkConf[spark.driver.memoryO"),
        ({"sparkConf": {"spark.driver.memoryOverheadFactor": "x"}}, "spark.driver.memoryOverheadF"),
        ({"driver": {"template": {"spec": {"containers": 3}}}}, "spec.driver cannot be read"),
        ({"nodeSelector": {"a": 1}}, "spec.driver cannot be read"),
    ],
)
def test_what_cannot_be_counted_is_told(fields: Json, why: str) -> None:
    assert why in SPARK.problem(spark(**fields))


TEMPLATE: Json = {
    "metadata": {"labels": {"of": "template"}},
    "spec": {
        "containers": [
            {"name": "beside", "resources": {"requests": {"cpu": "250m"}}},
            {
                "name": "spark-kubernetes-driver",
                "resources": {
                    "requests": {"cpu": "7", "ephemeral-storage": "1Gi"},
                    "limits": {"cpu": "9", "memory": "9Gi"},
                },
            },
        ],
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "mine", "operator": "Exists"}],
        "priorityClassName": "high",
    },
}


def test_a_pod_template_is_counted() -> None:
    """What Spark writes over its own container is asked for there, the rest beside it."""
    obj = spark(driver={"cores": 2, "memory": "1g", "template": TEMPLATE})
    found = SPARK.pod_sets(obj)[0]
    assert dict(found.requests) == {
        "cpu": 2250,
        "memory": 1408 * MIB,
        "ephemeral-storage": 1 << 30,
    }
    assert found.node_selector == (("zone", "a"),)
    assert SPARK.pod_class(obj) == "high"


def test_a_start_writes_beside_a_pod_template() -> None:
    """The fields get what is added, the template stays; a stop takes it away again."""
    obj = spark(driver={"cores": 2, "memory": "1g", "template": deepcopy(TEMPLATE)})
    started = merge(deepcopy(obj), SPARK.admission_patch(obj, admitted(SPARK.row), [FLAVOR]))
    driver = started["spec"]["driver"]
    assert driver["template"] == TEMPLATE
    assert driver["nodeSelector"] == {"pool": "gold"}
    assert driver["tolerations"] == [{"key": "t", "operator": "Exists"}]
    assert SPARK.pod_sets(started) == SPARK.pod_sets(obj)
    back = merge(deepcopy(started), SPARK.restore_patch(started))
    assert back["spec"] == {**obj["spec"], "suspend": False}


def test_a_node_selector_for_all_pods_becomes_one_for_each() -> None:
    """The operator's webhook refuses both; what pods are asked for stays the same."""
    obj = spark(nodeSelector={"zone": "a", "a": "c"})
    copy = SPARK.remote_manifest(obj, IDENTITY, None, VENDORS)
    assert "nodeSelector" not in copy["spec"]
    started = merge(deepcopy(obj), SPARK.admission_patch(obj, admitted(SPARK.row), [FLAVOR]))
    back = merge(deepcopy(started), SPARK.restore_patch(started))
    for found, more in ((copy, {}), (started, {"pool": "gold"}), (back, {})):
        selectors = [found["spec"][role]["nodeSelector"] for role in ("driver", "executor")]
        assert selectors == [{"zone": "a", "a": "c"} | more, {"zone": "a", "a": "b"} | more]
        assert "nodeSelector" not in found["spec"]
    assert SPARK.pod_sets(back) == SPARK.pod_sets(started) == SPARK.pod_sets(obj)


def test_one_that_is_tried_again_has_not_failed() -> None:
    """A submission that failed is; where no tries are left, its state is another one."""
    for state in ("SUBMISSION_FAILED", "FAILING", "PENDING_RERUN", "SUCCEEDING"):
        obj = sample(SPARK.row, suspended=False, status={"applicationState": {"state": state}})
        assert SPARK.finished(obj) == ""
        assert not SPARK.running(obj).gone


@pytest.mark.parametrize(
    ("state", "executors", "fields", "ready"),
    [
        ("SUBMITTED", {}, {}, False),
        ("RUNNING", {"1": "RUNNING", "2": "PENDING", "3": "RUNNING"}, {}, False),
        ("RUNNING", {"1": "RUNNING", "2": "COMPLETED", "3": "RUNNING"}, {}, True),
        ("RUNNING", {}, {"dynamicAllocation": {"enabled": True, "maxExecutors": 3}}, True),
        (
            "RUNNING",
            {str(number): "RUNNING" for number in range(1000)},
            {"executor": {"instances": 2000}},
            True,
        ),
    ],
)
def test_when_its_pods_are_ready(state: str, executors: Json, fields: Json, ready: bool) -> None:
    obj = spark(suspend=False, **fields)
    obj["status"] = {"applicationState": {"state": state}, "executorState": executors}
    assert SPARK.remote_job("w", obj).ready is ready


def test_one_that_was_started_may_be_submitted_before_its_operator_says_so() -> None:
    """Suspended again it has stopped when that says so, and not before."""
    obj = spark()
    assert SPARK.running(obj).gone
    started = merge(deepcopy(obj), SPARK.admission_patch(obj, admitted(SPARK.row), [FLAVOR]))
    started["spec"]["suspend"] = True
    assert not SPARK.running(started).gone
    assert SPARK.remote_job("w", started).busy
    started["status"] = STATUSES["SparkApplication"]["stopped"]
    assert SPARK.running(started).gone


def test_the_end_is_written_once() -> None:
    """The operator of the management cluster may tell of executors what the other one does not."""
    ended = {**STATUSES["SparkApplication"]["Complete"], "executorState": {"e": "RUNNING"}}
    remote = SPARK.remote_job("w", sample(SPARK.row, suspended=False, status=ended))
    assert SPARK.is_behind(SPARK.local_job(spark()), remote)
    shown = SPARK.local_job(
        sample(SPARK.row, status={**ended, "executorState": {"e": "COMPLETED"}})
    )
    assert not SPARK.is_behind(shown, remote)
