"""Both spellings are read, and old ones end as v1beta2's."""

from copy import deepcopy

import pytest

from federation.api.registry import UnknownKind, parse
from federation.api.spelling import normalize

OLD, NEW = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"

SPECS = [
    ("ClusterQueue", {"cohort": "c"}, {"cohortName": "c"}),
    ("ClusterQueue", {"cohort": "c", "cohortName": "d"}, {"cohortName": "c"}),
    ("ClusterQueue", {"cohortName": "c"}, {"cohortName": "c"}),
    ("ClusterQueue", {"admissionChecks": []}, {}),
    (
        "ClusterQueue",
        {"admissionChecks": ["a", "b"]},
        {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}},
    ),
    (
        "ClusterQueue",
        {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
        {
            "flavorFungibility": {
                "whenCanBorrow": "MayStopSearch",
                "whenCanPreempt": "MayStopSearch",
            }
        },
    ),
    (
        "ClusterQueue",
        {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
        {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
    ),
    (
        "MultiKueueCluster",
        {"kubeConfig": {"location": "s"}},
        {"clusterSource": {"kubeConfig": {"location": "s"}}},
    ),
    (
        "Workload",
        {
            "priorityClassName": "high",
            "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
        },
        {
            "priorityClassRef": {
                "group": "kueue.x-k8s.io",
                "kind": "WorkloadPriorityClass",
                "name": "high",
            }
        },
    ),
    (
        "Workload",
        {"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"},
        {
            "priorityClassRef": {
                "group": "scheduling.k8s.io",
                "kind": "PriorityClass",
                "name": "high",
            }
        },
    ),
    ("Workload", {"priorityClassName": "", "priorityClassSource": ""}, {}),
    (
        "AdmissionCheck",
        {"controllerName": "c", "retryDelayMinutes": 15},
        {"controllerName": "c"},
    ),
]

STATUSES = [
    ("ClusterQueue", {"pendingWorkloadsStatus": {}}, {}),
    ("LocalQueue", {"flavorUsage": [], "flavors": []}, {"flavorsUsage": []}),
    (
        "Workload",
        {"accumulatedPastExexcutionTimeSeconds": 5},
        {"accumulatedPastExecutionTimeSeconds": 5},
    ),
    (
        "Workload",
        {
            "admission": {
                "clusterQueue": "q",
                "podSetAssignments": [
                    {
                        "name": "main",
                        "topologyAssignment": {
                            "levels": ["block", "rack"],
                            "domains": [
                                {"values": ["b1", "r1"], "count": 2},
                                {"values": ["b1", "r2"], "count": 1},
                            ],
                        },
                    }
                ],
            }
        },
        {
            "admission": {
                "clusterQueue": "q",
                "podSetAssignments": [
                    {
                        "name": "main",
                        "topologyAssignment": {
                            "levels": ["block", "rack"],
                            "slices": [
                                {
                                    "domainCount": 2,
                                    "valuesPerLevel": [
                                        {"individual": {"roots": ["b1", "b1"]}},
                                        {"individual": {"roots": ["r1", "r2"]}},
                                    ],
                                    "podCounts": {"individual": [2, 1]},
                                }
                            ],
                        },
                    }
                ],
            }
        },
    ),
]


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize(
    ("part", "kind", "old", "new"),
    [("spec", *row) for row in SPECS] + [("status", *row) for row in STATUSES],
)
def test_old_spelling_becomes_new_in_both_versions(version, part, kind, old, new):
    """The result is v1beta2, the input is untouched, and a second pass changes nothing."""
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, part: old}
    before = deepcopy(obj)

    result = normalize(obj)

    assert result == {"apiVersion": NEW, "kind": kind, "metadata": {"name": "x"}, part: new}
    assert obj == before
    assert normalize(result) == result


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "batch/v1", "kind": "Job", "spec": {"cohort": "c"}},
        {"apiVersion": "fedq.io/v1alpha1", "kind": "WorkerReport"},
        {"kind": "ClusterQueue"},
        {"apiVersion": NEW, "kind": "ClusterQueue", "spec": None},
    ],
)
def test_other_objects_are_left_alone(obj):
    """Nothing is rewritten in what is not Kueue's, or malformed."""
    assert normalize(obj) == obj


def test_unknown_version_says_what_there_is():
    """An object of a version that nobody serves is refused with the known ones."""
    with pytest.raises(UnknownKind, match=r"v1alpha9 Cohort is none of.*v1beta2 Cohort"):
        parse({"apiVersion": "kueue.x-k8s.io/v1alpha9", "kind": "Cohort"})
