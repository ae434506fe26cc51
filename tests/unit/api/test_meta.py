"""Reading and writing objects without loss, and conditions."""

from datetime import UTC, datetime, timedelta

from federation.api.cluster_queue import ClusterQueue
from federation.api.meta import wire_time
from federation.api.workload import PodSet, Workload, WorkloadSpec

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def test_unknown_fields_survive_at_every_depth():
    """A field of a newer version is written back as it was read."""
    wire = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "n", "managedFields": [{"manager": "x"}]},
        "spec": {
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {}}, "newer": {"a": 1}}],
            "newer": [1, 2],
        },
        "status": {"newer": "x", "conditions": [], "fedq": {"attempt": 0, "cluster": ""}},
        "newer": True,
    }

    assert wire == Workload.from_wire(wire).to_wire()


def test_defaults_are_not_written_unless_read_or_set():
    """Only the names and what was given are written; the API server knows the defaults."""
    workload = Workload(spec=WorkloadSpec(pod_sets=[PodSet(template={})]))

    assert workload.to_wire() == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {},
        "spec": {"podSets": [{"template": {}}]},
    }


def test_a_list_that_was_changed_in_place_is_written():
    """Appending to a list that was never set must not be lost."""
    workload = Workload(spec=WorkloadSpec(pod_sets=[PodSet(template={})]))
    workload.status.nominated_cluster_names.append("east")
    workload.metadata.labels["a"] = "b"

    wire = workload.to_wire()

    assert wire["status"] == {"nominatedClusterNames": ["east"]}
    assert wire["metadata"] == {"labels": {"a": "b"}}


def test_none_removes_a_field():
    """Setting None leaves the field out: the API has no nulls."""
    queue = ClusterQueue.from_wire({"metadata": {"name": "q"}, "spec": {"cohortName": "c"}})
    queue.spec.cohort_name = None

    assert queue.to_wire()["spec"] == {}


def test_enums_are_written_as_plain_strings():
    """to_wire gives JSON values only, so that any encoder takes them."""
    queue = ClusterQueue.from_wire({"metadata": {"name": "q"}, "spec": {"stopPolicy": "Hold"}})

    assert type(queue.to_wire()["spec"]["stopPolicy"]) is str


def test_times():
    """Whole seconds in UTC."""
    assert wire_time(NOW) == "2026-01-02T03:04:05Z"
