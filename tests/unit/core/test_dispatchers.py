"""Rounds of the incremental dispatcher, and what counts as a no for good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.dispatch import Amount, ClusterView, Refusal, WorkerQueue
from federation.core.dispatchers import (
    Dispatcher,
    Dispatching,
    Nomination,
    Round,
    next_round,
)
from federation.core.nominating import candidates, next_nominees, why_never
from federation.core.placement_rules import PlacementRules
from federation.core.types import FlavorResource
from tests.unit.core.test_dispatch import view, wants

NOW = 1000.0
STEP_3 = Dispatching(Dispatcher.INCREMENTAL, step=3, round_s=300.0)


def names(count: int) -> list[str]:
    return [f"w{number:02}" for number in range(1, count + 1)]


def turn(count: int, known: tuple[str, ...] = (), since: float | None = None, **more: Any) -> Round:
    order = names(count)
    settings = more.pop("settings", STEP_3)
    usable = more.pop("usable", order)
    return next_round(
        Nomination(known, since), order, usable, more.pop("hopeless", ()), settings, NOW
    )


@pytest.mark.parametrize(("count", "first"), [(1, 1), (2, 2), (3, 3), (15, 3), (0, 0)])
def test_the_first_round(count: int, first: int) -> None:
    """At most a step of clusters, in the order of the config."""
    found = turn(count)
    assert found.nominate == (tuple(names(first)) if first else None)


def test_a_round_that_is_open() -> None:
    """Nothing changes before its end, which is told."""
    assert turn(15, ("w01", "w02", "w03"), NOW - 60) == Round(at=NOW + 240)


def test_a_clock_that_was_ahead() -> None:
    """A little may be between two managers; what is beyond a round is not waited for."""
    assert turn(15, ("w01",), NOW + 200) == Round(at=NOW + 500)
    assert turn(15, ("w01",), NOW + 10**9).nominate == tuple(names(4))


def test_a_round_that_is_over() -> None:
    """The next ones come to those before."""
    assert turn(15, ("w01", "w02", "w03"), NOW - 300).nominate == tuple(names(6))
    two = replace(STEP_3, step=2)
    assert turn(15, ("w01", "w02"), NOW - 300, settings=two).nominate == tuple(names(4))


def test_all_are_nominated() -> None:
    """That is no error, and asks for no further look."""
    assert turn(3, ("w01", "w02", "w03"), NOW - 3000) == Round()


def test_clusters_that_are_away_take_no_place() -> None:
    """And get one when they are back, when the round is over."""
    usable = ["w02", "w04", "w05", "w06"]
    assert turn(6, usable=usable).nominate == ("w02", "w04", "w05")
    known = ("w02", "w04", "w05")
    assert turn(5, known, NOW - 10, usable=["w02", "w04", "w05"]) == Round()
    assert turn(5, known, NOW - 10) == Round(at=NOW + 290)
    assert turn(5, known, NOW - 300).nominate == ("w02", "w04", "w05", "w01", "w03")


def test_nobody_is_waited_for_who_cannot_take_it() -> None:
    """The next round begins at once when all nominees are hopeless, or away."""
    known = ("w01", "w02", "w03")
    assert turn(6, known, NOW - 1, hopeless=known).nominate == tuple(names(6))
    assert turn(6, known, NOW - 1, hopeless=known[:2]).at == NOW + 299
    away = ["w04", "w05", "w06"]
    assert turn(6, known, NOW - 1, usable=away).nominate == tuple(names(6))


def test_a_nomination_of_unknown_age() -> None:
    """Its round is over: somebody else may have written it."""
    assert turn(6, ("w01",), None).nominate == ("w01", "w02", "w03", "w04")


@given(st.integers(0, 12), st.integers(1, 5), st.sets(st.integers(1, 12)))
def test_every_usable_cluster_gets_its_turn(count: int, step: int, away: set[int]) -> None:
    """In order, each once, in as few rounds as there are steps; then it ends."""
    order = names(count)
    usable = [name for number, name in enumerate(order, 1) if number not in away]
    settings, known = replace(STEP_3, step=step), Nomination()
    rounds = 0
    while (found := next_round(known, order, usable, (), settings, NOW)).nominate is not None:
        assert found.nominate[: len(known.clusters)] == known.clusters
        assert 0 < len(found.nominate) - len(known.clusters) <= step
        known = Nomination(found.nominate, NOW - 300)
        rounds += 1
    assert list(known.clusters) == usable
    assert rounds == -(-len(usable) // step)
    assert found == Round()


# As clusters are seen

CPU = FlavorResource("f", "cpu")


@pytest.mark.parametrize(
    ("cluster", "refusal", "never"),
    [
        (view("a", 0, 8), "", False),
        (view("a", 0, 0), "", True),
        (view("a", 3, 0, amounts={FlavorResource("f", "gpu"): Amount(0, 3)}), "", False),
        (view("a", amounts={CPU: Amount(9, 9)}), "", True),
        (view("a", local_queues={}), "", True),
        (view("a", active=False), "", True),
        (view("a"), "NameTaken", True),
        (view("a"), "WaitingForQuota", False),
        (view("a"), "ExceedsMaxQuota", True),
    ],
)
def test_a_no_for_good(cluster: ClusterView, refusal: str, never: bool) -> None:
    """Full now is not for good; too small is, and so is what a refusal says."""
    said = Refusal("a", refusal, "no", 1, NOW + 60) if refusal else None
    assert bool(why_never(*wants(), cluster, said)) is never
    if said is not None:
        assert why_never(*wants(), cluster, replace(said, final=True))


def test_several_flavors() -> None:
    """One that is large enough will do."""
    amounts = {FlavorResource("f", "gpu"): Amount(1, 0), FlavorResource("g", "gpu"): Amount(4, 0)}
    cluster = ClusterView("a", "", {"wq": WorkerQueue("wq", True, amounts)}, {("team", "lq"): "wq"})
    assert not why_never(*wants(gpu=4), cluster, None)
    assert why_never(*wants(gpu=5), cluster, None)


def test_rules_of_the_job_come_before_rounds() -> None:
    """What it avoids takes no place in a round."""
    item, admission = wants()
    item = replace(item, rules=PlacementRules(avoid=("a",)))
    views = {name: view(name, 0) for name in ("c", "b", "a")}
    one = replace(STEP_3, step=1)
    found = next_nominees(item, admission, Nomination(), views, {}, one, NOW)
    assert found.nominate == ("c",)
    found = next_nominees(item, admission, Nomination(("c",), 0.0), views, {}, one, NOW)
    assert found.nominate == ("c", "b")
    known = Nomination(("c", "b"), 0.0)
    assert next_nominees(item, admission, known, views, {}, one, NOW) == Round()


def test_a_cluster_that_is_being_connected_ends_no_round() -> None:
    """As all are for a moment when others take over the work for them: nothing is known of it."""
    item, admission = wants()
    known, one = Nomination(("a",), NOW - 1), replace(STEP_3, step=1)
    views = {"a": ClusterView("a", "Connecting: soon", coming=True), "b": view("b", 0)}
    found = next_nominees(item, admission, known, views, {}, one, NOW)
    assert found == Round(at=NOW - 1 + one.round_s)
    away = {**views, "a": ClusterView("a", "ClientConnectionFailed: no answer")}
    found = next_nominees(item, admission, known, away, {}, one, NOW)
    assert found.nominate == ("a", "b")


def test_candidates() -> None:
    """Nominees only, where nominations count; where it runs, or is ordered to, is one anyway."""
    item = replace(wants()[0], nominees=("b",), only="c", stays="d")
    order = ["a", "b", "c", "d"]
    assert candidates(item, order, Dispatching()) == order
    assert candidates(item, order, Dispatching(Dispatcher.ALL_AT_ONCE)) == order
    for kind in (Dispatcher.INCREMENTAL, Dispatcher.EXTERNAL):
        assert candidates(item, order, Dispatching(kind)) == ["b", "c", "d"]
