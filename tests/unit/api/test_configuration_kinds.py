"""Kinds of jobs that a Configuration adds."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.configuration import ConfigurationError, read, to_kinds, to_switched_off
from federation.api.configuration_model import FRAMEWORKS
from federation.api.kinds.row import framework
from federation.jobs.kinds.registry import KINDS, known

Json = dict[str, Any]
TEMPLATE = {
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
HEAD: Json = {
    "metadata": {
        "name": "x",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
}


def given(*frameworks: Json) -> Json:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "multiKueue": {"externalFrameworks": list(frameworks)},
    }


def kind_of(framework: Json) -> Any:
    reading = read(given(framework))
    assert not reading.notices
    return known(to_kinds(reading.configuration))[framework["name"]]


def test_a_name_alone_is_enough_where_all_is_as_usual() -> None:
    """spec.suspend, spec.managedBy, spec.template times spec.replicas, and usual conditions."""
    kind = kind_of({"name": "Crunch.v1.example.com"})
    obj = {
        **HEAD,
        "apiVersion": "example.com/v1",
        "kind": "Crunch",
        "spec": {"suspend": True, "replicas": 3, "template": TEMPLATE},
    }
    assert kind.plural == "crunchs"
    assert [(p.name, p.count) for p in kind.pod_sets(obj)] == [("main", 3)]
    assert kind.suspended(obj)
    done = {"conditions": [{"type": "Succeeded", "status": "True", "message": "well"}]}
    remote = kind.remote_job("w", {**obj, "status": done})
    assert (remote.finished, remote.ending) == ("Complete", "well")
    assert kind.remote_job("w", {**obj, "status": {"active": 1}}).busy


def test_everything_can_be_said() -> None:
    """Other fields, several pod sets, and what the status means."""
    kind = kind_of(
        {
            "name": "Flow.v1alpha1.example.com",
            "plural": "flows",
            "suspend": ".spec.paused",
            "managedBy": "",
            "podSets": [
                {"at": "spec.leader", "name": "leader", "count": []},
                {"at": "spec.steps[*]", "nameFrom": "id", "template": "pod", "count": ["width"]},
            ],
            "status": {
                "complete": [{"field": "status.phase", "values": ["Done"]}],
                "failed": [{"condition": "Broken"}],
                "stopped": [{"field": "status.phase", "values": ["Paused"]}],
                "active": ["status.steps[*].pods"],
            },
        }
    )
    obj = {
        **HEAD,
        "apiVersion": "example.com/v1alpha1",
        "kind": "Flow",
        "spec": {
            "paused": True,
            "leader": {"template": TEMPLATE},
            "steps": [{"id": "A", "width": 2, "pod": TEMPLATE}, {"id": "b", "pod": TEMPLATE}],
        },
    }
    assert {p.name: p.count for p in kind.pod_sets(obj)} == {"leader": 1, "a": 2, "b": 1}
    assert kind.suspend(suspend=False) == {"paused": False}
    assert kind.local_job(obj).problem == ""
    assert kind.finished({**obj, "status": {"phase": "Done"}}) == "Complete"
    assert not kind.running({**obj, "status": {"phase": "Running"}}).gone
    assert kind.running({**obj, "status": {"phase": "Paused"}}).gone
    assert not kind.running({**obj, "status": {"phase": "Paused", "steps": [{"pods": 1}]}}).gone


@pytest.mark.parametrize(
    ("frameworks", "said"),
    [
        ([{"name": "JobSet.v1alpha2.jobset.x-k8s.io"}], "is built in"),
        ([{"name": "A.v1.example.com"}, {"name": "A.v1.example.com"}], "is listed twice"),
        ([{"name": "a.example.com"}], "name"),
        ([{"name": "A.v1.example.com", "suspend": "a b"}], "suspend"),
        ([{"name": "A.v1.example.com", "status": {"complete": [{}]}}], "either a condition"),
    ],
)
def test_what_cannot_be_is_refused(frameworks: list[Json], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read(given(*frameworks))


@pytest.mark.parametrize("field", ["suspend", "managedBy"])
@pytest.mark.parametrize("path", ["status.held", "spec", "spec.*.held", "held", ".", "spec..x"])
def test_what_is_written_is_one_field_of_the_spec(field: str, path: str) -> None:
    """Every start and stop would fail, or write a field that nothing reads."""
    with pytest.raises(ConfigurationError, match=field):
        read(given({"name": "Crunch.v1.example.com", field: path}))


# Switches

ALL_BUT_JOBS = {kind.name for kind in KINDS} - {"Job.v1.batch"}
SWITCHES: list[tuple[str, Json, set[str]]] = [
    ("nothing is said: all are on", {}, set()),
    ("further ones alone", {"externalFrameworks": ["MXJob.v1.kubeflow.org"]}, set()),
    ("none", {"frameworks": []}, {"Job.v1.batch", *ALL_BUT_JOBS}),
    ("Kueue's default, said", {"frameworks": ["batch/job"]}, ALL_BUT_JOBS),
    (
        "one of Kubernetes, one of others",
        {"frameworks": ["batch/job", "pod", "ray.io/rayjob"]},
        ALL_BUT_JOBS - {"Pod.v1", "RayJob.v1.ray.io"},
    ),
    (
        "by kind, version and group",
        {"frameworks": ["batch/job"], "externalFrameworks": ["MXJob.v1.kubeflow.org"]},
        ALL_BUT_JOBS - {"MXJob.v1.kubeflow.org"},
    ),
]


@pytest.mark.parametrize(("said", "off"), [s[1:] for s in SWITCHES], ids=[s[0] for s in SWITCHES])
def test_switches(said: Json, off: set[str]) -> None:
    """What is switched off is no kind any more; what the file adds is on."""
    reading = read({**given({"name": "Crunch.v1.example.com"}), "integrations": said})
    assert reading.notices == ()
    found = to_switched_off(reading.configuration)
    kinds = known(to_kinds(reading.configuration), found)
    assert found == off
    assert {kind.name for kind in kinds} == {*ALL_BUT_JOBS, "Job.v1.batch"} - off | {
        "Crunch.v1.example.com"
    }
    assert {kind.name for kind in kinds.off} == off
    assert kinds.find("jobset.x-k8s.io/v1alpha2", "JobSet") is None or not off
    assert len(list(kinds.complete)) == len(ALL_BUT_JOBS) + 2


def test_every_kind_has_a_switch() -> None:
    """One that the format has, each its own."""
    switches = [framework(kind.group, kind.kind) for kind in KINDS]
    assert set(switches) | {"deployment"} == set(FRAMEWORKS)
    assert len(switches) == len(set(switches))


def test_switches_that_make_no_sense() -> None:
    """Deployments need pods, as in Kueue; what is named and unknown is told."""
    with pytest.raises(ConfigurationError, match=r"frameworks\[1\].*queued by pod"):
        read({**given(), "integrations": {"frameworks": ["batch/job", "deployment"]}})
    named = {"externalFrameworks": ["MXJob.v1.kubeflow.org", "Other.v1.example.com"]}
    (notice,) = read({**given(), "integrations": named}).notices
    assert "Other.v1.example.com is not known" in notice.message
    assert notice.path == ("integrations", "externalFrameworks", 1)
