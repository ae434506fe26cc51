"""`fedq drill`: what it lists and refuses, and where its results go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedq.commands import drill
from fedq.drill.cases.table import DRILLS
from fedq.drill.result import Outcome, Result
from tests.unit.fedq.conftest import Fedq


def test_the_list_has_every_drill(fedq: Fedq) -> None:
    """With number, tier and what it shows."""
    shown = fedq("drill", "list")
    assert shown.exit_code == 0
    for each in DRILLS:
        assert any(each.name in line and each.shows in line for line in shown.output.splitlines())


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


@pytest.mark.parametrize("lanes", ["-1", "0", "9"])
def test_so_many_rigs_make_no_sense(fedq: Fedq, lanes: str) -> None:
    """Exit code 2, and no rig."""
    run = fedq("drill", "run", "keep", "--lanes", lanes)
    assert run.exit_code == 2
    assert "--lanes" in run.output


@pytest.mark.parametrize("command", [("run", "keep"), ("real", "cordon", "--cluster", "east")])
def test_a_report_that_cannot_be_written_is_refused_before_anything_starts(
    fedq: Fedq, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """It would be missed after half an hour."""
    run = fedq("drill", *command, "--html", str(tmp_path / "missing" / "drills.html"))
    assert run.exit_code == 2
    assert "cannot be written" in run.output
    assert "a folder that is there" in run.output


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """What `fedq drill run` finds, without a rig."""
    results = [Result("keep", "2", "shows", Outcome.PASSED)]

    @contextmanager
    def none(count: int, keep: bool) -> Iterator[list[object]]:
        yield []

    monkeypatch.setattr(drill, "_rigs", none)
    monkeypatch.setattr(drill, "run_all", lambda *args: results)
    return results


def test_a_report_is_written_beside_what_is_printed(
    fedq: Fedq, tmp_path: Path, ran: list[Result]
) -> None:
    """Nothing is left of the try whether it can be."""
    file = tmp_path / "drills.html"
    run = fedq("drill", "run", "keep", "--html", str(file))
    assert run.exit_code == 0
    assert "1 passed" in run.output
    assert file.read_text().startswith("<!")


def test_results_are_printed_before_the_report_is_written(
    fedq: Fedq, tmp_path: Path, ran: list[Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder went away meanwhile."""
    monkeypatch.setattr(drill, "run_all", lambda *args: (tmp_path / "d").rmdir() or ran)
    (tmp_path / "d").mkdir()
    run = fedq("drill", "run", "keep", "--html", str(tmp_path / "d" / "drills.html"))
    assert run.exit_code == 1
    assert "1 passed" in run.stdout


def test_who_looks_for_a_drill_of_real_clusters_is_shown_there(fedq: Fedq) -> None:
    """`fedq drill run` brings up rigs only."""
    run = fedq("drill", "run", "manager-killed")
    assert run.exit_code == 2
    assert "fedq drill real manager-killed" in run.output
