"""The report that is made of the queues of a cluster that plain Kueue runs."""

from __future__ import annotations

from typing import Any

from federation.api.plain_report import plain_report
from federation.api.worker_report import WorkerReport

Json = dict[str, Any]


def queue(name: str, nominal: str, used: str, cohort: str = "", limit: str | None = None) -> Json:
    quota: Json = {"name": "cpu", "nominalQuota": nominal}
    if limit is not None:
        quota["borrowingLimit"] = limit
    flavor = {"name": "f", "resources": [quota]}
    taken = {"name": "f", "resources": [{"name": "cpu", "total": used}]}
    active = {"type": "Active", "status": "True"}
    return {
        "metadata": {"name": name, "resourceVersion": "7"},
        "spec": {"cohortName": cohort, "resourceGroups": [{"flavors": [flavor]}]},
        "status": {"flavorsReservation": [taken], "conditions": [active]},
    }


def amounts(*queues: Json) -> dict[str, tuple[str, str, str]]:
    report = WorkerReport.from_wire(plain_report("k", queues, []))
    return {
        q.name: (r.nominal, r.used, r.available)
        for q in report.status.cluster_queues
        for r in q.resources
    }


def test_alone() -> None:
    """What is not reserved."""
    assert amounts(queue("a", "4", "1500m")) == {"a": ("4000", "1500", "2500")}


def test_in_a_cohort() -> None:
    """What others leave can be borrowed, up to a limit; what others took is gone."""
    found = amounts(queue("a", "2", "1", "co"), queue("b", "4", "0", "co", "500m"))
    assert found == {"a": ("2000", "1000", "5000"), "b": ("4000", "0", "4500")}
    assert amounts(queue("a", "2", "6", "co"), queue("b", "4", "0", "co"))["b"][2] == "0"


def test_the_rest() -> None:
    """Which LocalQueue leads where, what is inactive, and up to where it counts."""
    door = {"metadata": {"namespace": "team", "name": "lq"}, "spec": {"clusterQueue": "a"}}
    stopped = queue("a", "1", "0")
    stopped["status"]["conditions"][0]["status"] = "False"
    found = WorkerReport.from_wire(plain_report("k", [stopped], [door])).status
    (told,) = found.local_queues
    assert (told.namespace, told.name, told.cluster_queue) == ("team", "lq", "a")
    assert not found.cluster_queues[0].active
    assert found.counted_resource_version == "7"


def test_nonsense() -> None:
    """Another cluster wrote it: what cannot be read is no room."""
    for text in ("lots", "9" * 5000):
        assert amounts(queue("a", text, "0")) == {"a": ("0", "0", "0")}
    assert WorkerReport.from_wire(plain_report("k", [{"metadata": _BARE}], [])).status


_BARE = {"name": "bare", "resourceVersion": "1"}
