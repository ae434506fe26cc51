"""The pure parts of the command."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from fedq.cli import app
from fedq.demo.objects import cards_per_worker, demo_jobs, queues
from fedq.demo.run import Outcome
from fedq.manifests import read
from fedq.output import age, columns
from fedq.sameness import differences
from tests.unit.fedq.conftest import job

EXAMPLES = Path(__file__).parents[3] / "examples"

AGES = [(0, "0s"), (59.9, "59s"), (190, "3m10s"), (3600, "1h"), (40000, "11h"), (200000, "2d7h")]


@pytest.mark.parametrize(("seconds", "text"), AGES)
def test_age(seconds: float, text: str) -> None:
    """One or two units."""
    assert age(seconds) == text


def test_columns_have_no_trailing_blanks() -> None:
    """And a dash for what is empty."""
    assert columns(["A", "LONG"], [["xyz", None], ["b", 0]]) == "A     LONG\nxyz   -\nb     0"


def test_same_with_defaults_and_other_spellings() -> None:
    """What the server adds or rewrites is no difference; what the file says and is not there is."""
    wanted, actual = job("a"), job("a")
    actual["spec"] |= {"backoffLimit": 6, "suspend": False, "managedBy": "x"}
    actual["metadata"]["labels"]["more"] = "x"
    requests = actual["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    requests["cpu"] = "1000m"

    assert differences(wanted, actual) == []
    requests["cpu"] = "1500m"
    actual["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "other"
    assert len(differences(wanted, actual)) == 2


def test_demo_jobs_do_not_all_fit() -> None:
    """At any size the largest Job fits one worker, and all together do not fit the budget."""
    for count in (2, 6, 12, 100):
        jobs = demo_jobs(count)
        cards = cards_per_worker(jobs, workers=2)
        assert max(job.pods for job in jobs) <= cards <= 32
        if count >= 6:
            assert sum(job.pods for job in jobs) > cards * 2
    assert len({job.priority for job in demo_jobs(12)}) == 3


def test_demo_objects_are_valid() -> None:
    """They pass our own checks."""
    objects = [*queues(8), *(job.manifest() for job in demo_jobs(6))]
    reading = read(yaml.safe_dump_all(objects), "demo", "", "default")

    assert (reading.problems, reading.warnings) == ([], [])


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_examples_are_valid(file: Path) -> None:
    """So do the examples."""
    reading = read(file.read_text(), file.name, "", "default")

    assert reading.manifests
    assert (reading.problems, reading.warnings) == ([], [])


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"duplicates": 1}, False),
        ({"unstarted": 1}, False),
        ({"finished": 1}, False),
    ],
)
def test_exactly_once(change: dict[str, int], good: bool) -> None:
    """Finished is not enough: each must have been seen to start, and only one copy of it."""
    fields = {"submitted": 2, "finished": 2, "failed": 0, "duplicates": 0, "unstarted": 0}
    counts = {**fields, **change}
    outcome = Outcome(**counts, waited=0, seconds=1.0, longest_wait=0.0, starts={})

    assert outcome.exactly_once is good


COMMANDS = [
    "submit",
    "get",
    "get jobs",
    "get workloads",
    "get queues",
    "get clusters",
    "why",
    "demo",
    "rig",
    "rig up",
    "rig down",
    "rig apply",
    "rig binaries",
    "rig status",
    "rig kubeconfig",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    """Every command shows how it is called."""
    result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})

    assert result.exit_code == 0
    assert f"fedq {command}" in result.stdout
    assert "xample" in result.stdout


def test_demo_spares_a_rig_that_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take down somebody's work."""
    (tmp_path / "rig.json").write_text('{"clusters": {"management": {}}}')
    monkeypatch.setenv("FEDQ_RIG_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["demo"])

    assert result.exit_code == 1
    assert "fedq rig down" in result.stderr
    assert (tmp_path / "rig.json").exists()
