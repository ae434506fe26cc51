"""The runner of recorded decisions, on a scenario of our own; and the recorded ones if they are
here.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from bench.conformance import __main__ as runner

Json = dict[str, Any]
RECORDED = sorted((Path(__file__).parents[4] / "shared/conformance/admission").glob("*.jsonl"))


def job(name: str, cpu: str, priority: str) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {
                "kueue.x-k8s.io/queue-name": "lq",
                "kueue.x-k8s.io/priority-class": priority,
            },
        },
        "spec": {
            "suspend": True,
            "parallelism": 1,
            "completions": 1,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                }
            },
        },
    }


def made(kind: str, name: str, **rest: Any) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        **rest,
    }


def held(flavor: str = "f", **more: Any) -> Json:
    return {
        "quotaReserved": True,
        "admitted": True,
        "flavors": {"cpu": flavor},
        "count": 1,
        "evictions": 0,
        **more,
    }


def waits(reason: str, evictions: int = 0) -> Json:
    return {
        "quotaReserved": False,
        "admitted": False,
        "flavors": {},
        "count": 0,
        "evictions": evictions,
        "reason": reason,
    }


def scenario() -> Json:
    """A low job runs, a high one evicts it; when that is deleted, the low one runs again."""
    quota = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": []}]}
    quota["flavors"][0]["resources"] = [{"name": "cpu", "nominalQuota": "4"}]  # type: ignore[index]
    queue = {
        "namespaceSelector": {},
        "resourceGroups": [quota],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    return {
        "id": "own-1",
        "config": {"fairSharing": None},
        "objects": [
            made("WorkloadPriorityClass", "low", value=0),
            made("WorkloadPriorityClass", "high", value=10),
            made("ResourceFlavor", "f"),
            made("ClusterQueue", "cq", spec=queue),
            made("LocalQueue", "lq", spec={"clusterQueue": "cq"}),
        ],
        "phases": [
            {"arrival": "oneByOne", "create": [job("a", "3", "low"), job("b", "3", "high")]},
            {"arrival": "together", "delete": ["b"], "create": [job("c", "9", "low")]},
        ],
        "expected": [
            {
                "a": waits("WaitingForQuota", evictions=1),
                "b": held(preemptionReasons=[]),
            },
            {
                "a": held(evictions=1, preemptionReasons=["InClusterQueue"]),
                "c": waits("ExceedsMaxQuota"),
            },
        ],
    }


def run(tmp_path: Path, *scenarios: Json) -> int:
    file = tmp_path / "scenarios.jsonl"
    file.write_text("\n".join(json.dumps(s) for s in scenarios))
    return runner.main(["admission", str(file)])


def test_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, scenario()) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"evictions": 0}, "own-1 phase 0 a: evictions 1, recorded 0"),
        ({"quotaReserved": True}, "own-1 phase 0 a: quotaReserved False, recorded True"),
        ({"count": 1}, "own-1 phase 0 a: count 0, recorded 1"),
        ({"flavors": {"cpu": "f"}}, "own-1 phase 0 a: flavors {}, recorded {'cpu': 'f'}"),
    ],
)
def test_every_difference_is_a_line_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Json, line: str
) -> None:
    wrong = scenario()
    wrong["expected"][0]["a"] |= change

    assert run(tmp_path, scenario() | {"id": "right"}, wrong) == 1
    lines = capsys.readouterr().out.splitlines()
    assert line in lines
    assert lines[-1] == "1 passed, 1 failed"


def test_reasons_are_soft(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = scenario()
    other["expected"][1]["c"]["reason"] = "NoMatchingFlavor"
    other["expected"][1]["a"]["preemptionReasons"] = ["InCohortReclamation"]

    assert run(tmp_path, other) == 0
    assert "soft: 2 reasons differ" in capsys.readouterr().out


def test_two_evictions_are_as_good_as_more(tmp_path: Path) -> None:
    other = scenario()
    assert run(tmp_path, other) == 0
    for phase in other["expected"]:
        phase["a"]["evictions"] = 2
    assert run(tmp_path, other) == 1


def test_an_exception_is_counted_and_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    excepted = tmp_path / "excepted.json"
    excepted.write_text(json.dumps({"admission": {"own-1": "a tie"}}))
    monkeypatch.setattr(runner, "EXCEPTED", excepted)
    wrong = scenario()
    wrong["expected"][0]["a"]["count"] = 1

    assert run(tmp_path, wrong) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "(excepted: a tie)" in lines[0]
    assert lines[-2:] == ["excepted: 1", "0 passed, 0 failed"]


def test_a_scenario_that_cannot_be_replayed_fails_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = copy.deepcopy(scenario()) | {"id": "broken"}
    del broken["phases"][0]["create"][0]["metadata"]["labels"]

    assert run(tmp_path, broken, scenario()) == 1
    assert "broken cannot be replayed" in capsys.readouterr().out


def test_an_unreadable_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["admission", str(tmp_path / "missing.jsonl")]) == 2
    assert "missing.jsonl" in capsys.readouterr().err


@pytest.mark.skipif(not RECORDED, reason="the recorded decisions are not here")
def test_all_recorded_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    """Hard and soft ones."""
    assert runner.main(["admission", *map(str, RECORDED)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:-1] == ["soft: 0 reasons differ", "excepted: 0"]
