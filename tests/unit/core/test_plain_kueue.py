"""Clusters that plain Kueue runs: what goes there, and how they stand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from federation.core import plain_kueue
from federation.core.dispatch import Amount, ClusterView, NoCluster, WorkerQueue, choose
from federation.core.failover import DEFAULT, OnDisconnect
from federation.core.health import Brake, Facts, Phase
from federation.core.plain_kueue import Contact, agent_only, counts, judge, looked, policy
from federation.core.queueing import shape
from federation.core.types import FlavorResource
from federation.core.wishes import NO_WISHES, Disconnect, Wishes
from tests.unit.core.build import admission, item, local, pods

STOP, KEEP, TWICE = OnDisconnect.STOP, OnDisconnect.KEEP, OnDisconnect.DUPLICATE_OK
LOST_S = 900.0

POLICIES: dict[str, tuple[tuple[Wishes, ...], Disconnect, str]] = {
    "nobody says anything": ((NO_WISHES, NO_WISHES), Disconnect(TWICE), ""),
    "the job says stop": ((Wishes(STOP), NO_WISHES), Disconnect(STOP), "policy stop"),
    "its queue says stop": ((NO_WISHES, Wishes(STOP)), Disconnect(STOP), "policy stop"),
    "the job's own word counts": ((Wishes(TWICE), Wishes(STOP)), Disconnect(TWICE), ""),
    "keep": ((Wishes(KEEP),), Disconnect(KEEP), ""),
    "keep with a limit": ((Wishes(KEEP, 60.0),), Disconnect(KEEP, 60.0), "limit of its policy"),
    "a time alone": ((Wishes(None, 60.0),), Disconnect(TWICE, 60.0), ""),
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies(name: str) -> None:
    """What holds there of a job, and what is not placed there."""
    said, expected, reason = POLICIES[name]
    assert policy(said) == expected
    assert reason in agent_only(local(), said)
    assert bool(agent_only(local(), said)) is bool(reason)


@pytest.mark.parametrize("field", [{"kind": "JobSet.v1alpha2.jobset.x-k8s.io"}, {"elastic": True}])
def test_what_needs_an_agent(field: dict[str, Any]) -> None:
    """Kinds that are not offered there, and jobs that change."""
    assert "needs" in agent_only(local(**field), ())


def view(name: str, *, plain: bool) -> ClusterView:
    queue = WorkerQueue("cq", True, {FlavorResource("f", "gpu"): Amount(8, 8, 8)})
    doors = {("team", "lq"): "cq"}
    return ClusterView(name, queues={"cq": queue}, local_queues=doors, plain=plain)


def test_choice() -> None:
    """Those with an agent come first; what needs one goes nowhere else, and is another shape."""
    both = {"a": view("a", plain=True), "b": view("b", plain=False)}
    job = item("j", "cq", pods(gpu=1), namespace="team", local_queue="lq")
    found = choose(job, admission("cq"), both, {}, 0.0)
    assert not isinstance(found, NoCluster)
    assert found.cluster == "b"
    strict = replace(job, agent_only="it has no agent")
    none = choose(strict, admission("cq"), {"a": both["a"]}, {}, 0.0)
    assert isinstance(none, NoCluster)
    assert none.reasons == {"a": "it has no agent"}
    assert shape(job) != shape(strict)


GONE = Facts(unusable="ClientConnectionFailed: no", bound=1)
HERE = Facts(contact=True, bound=1)


def test_contact() -> None:
    """Time counts from the last contact, or from when it was first looked for."""
    first = looked(None, GONE, 100.0, LOST_S, -math.inf)
    assert first == Contact(100.0)
    assert not looked(first, GONE, 999.0, LOST_S, -math.inf).lost
    over = looked(first, GONE, 1000.0, LOST_S, -math.inf)
    assert over.lost
    assert looked(over, GONE, 1001.0, LOST_S, math.inf).lost, "the brake takes nothing back"
    assert looked(over, HERE, 1001.0, LOST_S, -math.inf) == Contact(1001.0, met=True)


def test_the_brake_holds_it() -> None:
    """Nothing is given up while it is set, and for a while after that."""
    known = Contact(0.0, met=True)
    assert not looked(known, GONE, 2000.0, LOST_S, math.inf).lost
    assert not looked(known, GONE, 2000.0, LOST_S, 2010.0).lost
    assert looked(known, GONE, 2010.0, LOST_S, 2010.0).lost


COUNTS = {
    "well": (Contact(100.0, met=True), HERE, (0, 1)),
    "silent": (Contact(0.0, met=True), GONE, (1, 1)),
    "given up": (Contact(0.0, met=True, lost=True), GONE, (0, 0)),
    "deleted, and nothing is bound there": (Contact(0.0), Facts(missing_since=0.0), (0, 0)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_what_it_adds_to_the_brake(name: str) -> None:
    """As a cluster with an agent does."""
    contact, facts, expected = COUNTS[name]
    assert counts(contact, facts, 100.0, DEFAULT) == expected


JUDGED = {
    "well": (Contact(90.0, met=True), HERE, Phase.READY, True, False),
    "not met yet": (Contact(90.0), Facts(), Phase.UNKNOWN, False, False),
    "not met yet, and jobs are there": (Contact(90.0), GONE, Phase.SUSPECT, False, False),
    "no contact": (Contact(50.0, met=True), GONE, Phase.SUSPECT, False, False),
    "lost": (Contact(50.0, met=True, lost=True), GONE, Phase.LOST, False, True),
    "deleted": (Contact(50.0, met=True), Facts(missing_since=50.0), Phase.LEAVING, False, False),
    "bad login": (
        Contact(100.0, met=True),
        Facts(unusable="BadKubeConfig: 401", contact=True),
        Phase.UNUSABLE,
        False,
        False,
    ),
    "not listed yet": (Contact(99.0, met=True), replace(HERE, listed=False), Phase.READY, 0, False),
}


@pytest.mark.parametrize("name", JUDGED)
def test_standing(name: str) -> None:
    """Phase, whether it is worked with, whether jobs may leave; never anything to do to a Lease."""
    contact, facts, phase, present, suspect = JUDGED[name]
    found = judge("k", contact, facts, 1, LOST_S, Brake(), 100.0)
    assert (found.phase, found.standing.present) == (phase, bool(present))
    assert (found.standing.suspect, found.standing.plain) == (suspect, True)
    assert found.standing.silent == (50.0 if suspect else 0.0)
    assert found.action is None


def test_next_step() -> None:
    """When its jobs run elsewhere; not while the brake holds."""
    contact = Contact(50.0, met=True)
    found = judge("k", contact, GONE, 1, LOST_S, Brake(), 100.0)
    assert found.next is not None
    assert found.next.at == 950.0
    held = judge("k", contact, GONE, 1, LOST_S, Brake("2 of 2 clusters are silent"), 100.0)
    assert held.next is not None
    assert held.next.at == math.inf


def test_the_default_is_that_of_multikueue() -> None:
    """15 minutes."""
    assert plain_kueue.WORKER_LOST_S == 15 * 60
