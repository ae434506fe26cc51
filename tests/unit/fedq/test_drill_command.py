"""`fedq drill`: what it lists and refuses, and the drills that are fit for a real cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from federation.edge import resources as r
from fedq.drill import real
from fedq.drill.cases.table import DRILLS
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import Fedq

Json = dict[str, Any]


def test_the_list_has_every_drill(fedq: Fedq) -> None:
    """With number, tier and what it shows."""
    shown = fedq("drill", "list")
    assert shown.exit_code == 0
    for drill in DRILLS:
        assert any(drill.name in line and drill.shows in line for line in shown.output.splitlines())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "no drill is named"),
        (("--all", "keep"), "no need to name"),
        (("no-such-drill",), "there are worker-partition, "),
    ],
)
def test_a_wrong_choice_is_explained_before_anything_starts(
    fedq: Fedq, args: tuple[str, ...], says: str
) -> None:
    """Exit code 2, and no rig."""
    run = fedq("drill", "run", *args)
    assert run.exit_code == 2
    assert says in run.output


def give_workload(kube: FakeKube, name: str, cluster: str, attempt: int) -> None:
    """A bound Workload."""
    kube.create(r.WORKLOADS, {"metadata": {"name": name, "namespace": "team"}, "spec": {}})
    status = {"status": {"fedq": {"cluster": cluster, "attempt": attempt}}}
    kube.merge(r.WORKLOADS, name, status, "team", status=True)


@pytest.mark.parametrize("name", ["worker-partition", "redis-flushed", "anything"])
def test_what_destroys_is_refused_on_a_real_cluster(fedq: Fedq, name: str) -> None:
    """With those that are allowed."""
    run = fedq("drill", "real", name, "--yes")
    assert run.exit_code == 2
    assert "manager-killed, agent-killed, cordon" in run.output


def test_a_cordon_comes_and_goes_and_moves_nothing(
    fedq: Fedq, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cordon that was there before is put back."""
    monkeypatch.setattr(real, "WATCHED_S", 0.0)
    notes = {"fedq.io/cordon": "repairs"}
    kube.create(r.MULTIKUEUE_CLUSTERS, {"metadata": {"name": "east", "annotations": notes}})
    give_workload(kube, "train", "east", 3)
    run = fedq("drill", "real", "cordon", "--cluster", "east", "--yes", "--json")
    assert run.exit_code == 0, run.output
    drill = json.loads(run.stdout[run.stdout.index("{") :])["drills"][0]
    assert drill["outcome"] == "passed"
    assert [finding["found"] for finding in drill["findings"]] == ["east, attempt 3"]
    after = kube.get(r.MULTIKUEUE_CLUSTERS, "east")
    assert after["metadata"]["annotations"] == notes


def test_nothing_is_done_without_a_yes(fedq: Fedq, kube: FakeKube) -> None:
    """The question names the cluster."""
    kube.create(r.MULTIKUEUE_CLUSTERS, {"metadata": {"name": "east"}})
    run = fedq("drill", "real", "cordon", "--cluster", "east", input="n\n")
    assert run.exit_code == 1
    assert "https://fake" in run.output


def test_pods_that_are_not_there_fail_the_drill(
    fedq: Fedq, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is no success."""
    monkeypatch.setattr(real, "BACK_S", 0.0)
    run = fedq("drill", "real", "manager-killed", "--yes")
    assert run.exit_code == 1
    assert "none was found" in run.output
