"""Kinds of jobs that a Configuration adds."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.configuration import ConfigurationError, read, to_kinds
from federation.jobs.kinds.registry import known

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
