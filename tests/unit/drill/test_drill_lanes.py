"""Which drill runs where, and what runs beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from fedq.drill.cases.table import find
from fedq.drill.drill import Drill, Need
from fedq.drill.lanes import run_all
from fedq.drill.prepare import Bench
from fedq.drill.result import Outcome, Result


class Benches:
    """Rigs that only note what is asked of them, in `log`."""

    def __init__(self, *workers: int) -> None:
        self.log: list[str] = []
        self.all = [cast("Bench", _Bench(self, number, has)) for number, has in enumerate(workers)]

    def run(self, *drills: Drill) -> list[str]:
        """What was noted."""
        results = run_all(drills, self.all, lambda text: None)
        assert [result.name for result in results] == [drill.name for drill in drills]
        return self.log


class _Bench:
    def __init__(self, benches: Benches, number: int, workers: int) -> None:
        self._benches, self._number, self.workers = benches, number, workers

    def up(self) -> None:
        self._benches.log.append(f"{self._number} up")

    def ready(self, drill: Drill) -> Result:
        self._benches.log.append(f"{self._number} {drill.name}")
        return Result(drill.name, drill.number, drill.shows, Outcome.SKIPPED)


def drill(name: str) -> Drill:
    known = find("keep")
    assert known is not None
    return replace(known, name=name)


BIG = replace(drill("big"), workers=4, alone=True)
PROXIED = replace(drill("proxied"), needs=frozenset({Need.PROXIES}))


def test_one_that_needs_the_machine_runs_before_the_next_rig_comes_up() -> None:
    """On the only rig with as many workers."""
    log = Benches(4, 2).run(drill("one"), BIG, drill("two"))
    assert log[:3] == ["0 up", "0 big", "1 up"]
    assert {entry[2:] for entry in log[3:]} == {"one", "two"}


def test_one_rig_keeps_the_order() -> None:
    """As they were asked for."""
    assert Benches(4).run(drill("one"), BIG) == ["0 up", "0 one", "0 big"]


def test_what_needs_other_links_comes_last() -> None:
    """Its rig has to come up anew for it."""
    log = Benches(2, 2).run(PROXIED, drill("one"), drill("two"))
    assert log[-1][2:] == "proxied"


def test_what_measures_the_machine() -> None:
    """1,000 jobs of lost clusters within 60 s is for all of it."""
    half = find("half-lost")
    assert half is not None
    assert half.alone
