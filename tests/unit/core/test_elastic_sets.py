"""What follows for an elastic job of several pod sets: each has a number of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import elastic
from federation.core import events as on
from federation.core.devices.wants import PodWants
from federation.core.facts import JobState
from federation.core.lifecycle import step
from federation.core.sizes import Asked, Counts, Growing, Size
from federation.core.stay import LifeRules
from federation.core.types import Admission, PodSetAssignment
from tests.unit.core.build import behind, copy, local, pods, record

NOW = 1000.0
RULES = LifeRules(behind)
UID = "copy-a-1"


def of(small: int, big: int) -> Counts:
    """A head and two groups of workers."""
    return {"head": 1, "small": small, "big": big}


def admitted(counts: Counts) -> Admission:
    """Each pod has two gpus."""
    sets = (PodSetAssignment(k, n, {"gpu": "f"}, {"gpu": 2 * n}) for k, n in counts.items())
    return Admission("q", tuple(sets))


def known(asks: Counts, has: Counts, runs: Counts, growth: Asked | None = None, **more: Any) -> Any:
    """A job that runs: asks for so many pods, has quota for so many, its copy runs so many."""
    sets = tuple(pods(n, k, gpu=2) for k, n in asks.items())
    found = copy(size=Size(runs, runs, runs), suspended=False, growth=growth or Asked())
    fields = {"admission": admitted(has), "counts": asks, "elastic": True} | more.pop("theirs", {})
    return JobState(
        local=local(suspended=False, started=True, pod_sets=sets, elastic=True),
        record=record("a", 1, admitted=True, **fields),
        remotes={"a": found},
        was_running=True,
        **more,
    )


GREW = {"small": 2}
PLANS: dict[str, tuple[JobState, tuple[do.Effect, ...]]] = {
    "as it is": (known(of(2, 2), of(2, 2), of(2, 2)), ()),
    # Larger
    "the record does not say so": (
        known(of(4, 2), of(2, 2), of(2, 2), theirs={"counts": of(2, 2)}),
        (do.SetPodCounts(),),
    ),
    "one set is larger": (known(of(4, 2), of(2, 2), of(2, 2)), (do.EnqueueGrowth(GREW),)),
    "both are larger": (
        known(of(4, 3), of(2, 2), of(2, 2)),
        (do.EnqueueGrowth({"small": 2, "big": 1}),),
    ),
    "another one is larger than what is queued": (
        known(of(2, 4), of(2, 2), of(2, 2), growing=Growing(GREW, 0)),
        (do.EnqueueGrowth({"big": 2}),),
    ),
    "queued": (known(of(4, 2), of(2, 2), of(2, 2), growing=Growing(GREW, 0)), ()),
    "told why not": (
        known(
            of(4, 2),
            of(2, 2),
            of(2, 2),
            growing=Growing(GREW, 0),
            growth_waits=("WaitingForQuota", "0 free"),
        ),
        (
            do.SetScaling(
                "WaitingForQuota", "It runs 5 pods and asks for 7 (small: 2 of 4): 0 free"
            ),
        ),
    ),
    "placed": (
        known(of(4, 2), of(2, 2), of(2, 2), growing=Growing(GREW, 0), grown=admitted(GREW)),
        (do.Regrant(admitted(of(4, 2))),),
    ),
    "granted": (known(of(4, 2), of(4, 2), of(2, 2)), (do.AskForMore("a", UID, of(4, 2)),)),
    "asked": (known(of(4, 2), of(4, 2), of(2, 2), Asked(of(4, 2))), ()),
    "refused": (
        known(of(4, 2), of(4, 2), of(2, 2), Asked(of(4, 2), "no room")),
        (do.Regrant(admitted(of(2, 2))),),
    ),
    # Smaller
    "one set is smaller": (known(of(2, 1), of(2, 2), of(2, 2)), (do.Resize("a", UID, of(2, 1)),)),
    "and the copy is": (known(of(2, 1), of(2, 2), of(2, 1)), (do.Regrant(admitted(of(2, 1))),)),
    "to nothing": (known(of(0, 0), of(2, 2), of(2, 2)), (do.Resize("a", UID, of(0, 0)),)),
    # Both
    "one smaller, one larger: first the one": (
        known(of(4, 1), of(2, 2), of(2, 2)),
        (do.Resize("a", UID, of(2, 1)),),
    ),
    "then its quota": (known(of(4, 1), of(2, 2), of(2, 1)), (do.Regrant(admitted(of(2, 1))),)),
    "then the other": (known(of(4, 1), of(2, 1), of(2, 1)), (do.EnqueueGrowth(GREW),)),
    "one smaller while the agent is asked for the other": (
        known(of(4, 1), of(4, 2), of(2, 2), Asked(of(4, 2))),
        (do.Resize("a", UID, of(2, 1)),),
    ),
    "and what it is asked for would be too much": (
        known(of(4, 1), of(4, 2), of(2, 1), Asked(of(4, 2))),
        (do.WithdrawGrowth("a", UID),),
    ),
    # By others
    "somebody gave the copy more of one": (
        known(of(4, 2), of(2, 2), of(1, 3)),
        (do.Resize("a", UID, of(1, 2)),),
    ),
    "somebody gave the copy another set": (known(of(4, 2), of(2, 2), {**of(2, 2), "own": 1}), ()),
}


@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str) -> None:
    facts, effects = PLANS[name]
    assert step(facts, on.Tick(), NOW, RULES)[1] == effects


@pytest.mark.parametrize("grows", ["small", "big"])
def test_cards_of_a_set_that_does_not_grow(grows: str) -> None:
    """Only more pods with cards would need seats."""
    asks = {**of(2, 2), grows: 3}
    facts = known(asks, of(2, 2), of(2, 2))
    sets = tuple(
        replace(one, cards=PodWants(()) if one.name == "big" else None)
        for one in facts.local.pod_sets
    )
    facts = replace(facts, local=replace(facts.local, pod_sets=sets))
    (effect,) = step(facts, on.Tick(), NOW, RULES)[1]
    if grows == "small":
        assert effect == do.EnqueueGrowth({"small": 1})
    else:
        assert isinstance(effect, do.SetScaling)
        assert "cards" in effect.message


@pytest.mark.parametrize("more", [{"small": 1}, {"big": 3}, {"big": 1, "small": 2}])
def test_amounts(more: Counts) -> None:
    """Those of the sets that are larger are added, in any order."""
    sum_ = {k: n + more.get(k, 0) for k, n in of(2, 2).items()}
    assert elastic.grown(admitted(of(2, 2)), admitted(more)) == admitted(sum_)
    assert elastic.shrunk(admitted(sum_), of(2, 2)) == admitted(of(2, 2))
