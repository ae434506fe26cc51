"""The life of a job under every fault that the shell can meet, in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.checks import CheckState
from federation.core.failover import OnDisconnect
from federation.core.policies import StopPolicy
from federation.edge.resources import JOBS
from federation.jobs import batch_job
from tests.unit.core.simulation import Setting, World

Action = tuple[int, str, Callable[[], None]]
"""How likely, its name, and what it does."""


def actions(world: World) -> list[Action]:
    """All that can happen next."""
    return [
        *_manager(world),
        *_faults(world),
        *_workers(world),
        *_tenures(world),
        *_rules(world),
        *_people(world),
    ]


def losses(world: World) -> list[Action]:
    """What can happen where little but the loss of clusters does."""
    often = [(4 * weight, name, act) for weight, name, act in _tenures(world)]
    return [*_manager(world), *_faults(world), *_workers(world), *often]


def _manager(world: World) -> Iterator[Action]:
    for stream in world.unread():
        yield 20, f"deliver {stream[0]} {stream[1].plural}", partial(world.deliver, stream)
    for uid in world.shell.running:
        yield 60, "work", partial(world.work, uid)
        yield 3, "work, lost before", partial(world.work, uid, "before")
        yield 3, "work, lost after", partial(world.work, uid, "after")
    for uid, cluster in world.placeable():
        yield 20, f"place on {cluster}", partial(world.place, uid, cluster)
        yield 1, "explain", partial(world.explain, uid)
    if world.shell.orphans:
        yield 20, "remove an orphan", world.remove_orphan
    if world.due():
        yield 10, "pass time to the next deadline", world.pass_to_deadline
    yield 1, "pass 0.3 s", partial(world.pass_time, 0.3)


def _faults(world: World) -> Iterator[Action]:
    if not world.workload_deleted:  # with the record goes what a new manager could know
        yield 1, "restart", world.restart
    if world.shell.running and not world.workload_deleted:
        yield 1, "restart, the write takes hold", partial(world.restart, held=True)
    for stream in world.reached():
        yield 1, f"relist {stream[0]} {stream[1].plural}", partial(world.relist, stream)


def _workers(world: World) -> Iterator[Action]:
    for cluster in world.undecided():
        yield 20, f"start {cluster}", partial(world.start, cluster)
        yield 4, f"refuse {cluster}", partial(world.refuse, cluster)
        yield 1, f"deliberate {cluster}", partial(world.deliberate, cluster)
        yield 1, f"lose {cluster}", partial(world.lose, cluster)
    for cluster in world.live():
        hows = ((10, "up"), (3, "unready"), (3, "ended"), (1, "failed"), (3, "conclude"))
        for weight, how in hows:
            yield weight, f"pods {how} on {cluster}", partial(world.run_pods, cluster, how)
        yield 1, f"halt {cluster}", partial(world.halt, cluster)
        yield 1, f"evict there {cluster}", partial(world.evict_there, cluster)
        yield 1, f"lose {cluster}", partial(world.lose, cluster)
    for cluster in world.workers:
        if cluster in world.squatters:
            yield 1, f"foreign job leaves {cluster}", partial(world.unsquat, cluster)
        elif world.kubes[cluster].items(JOBS) == []:
            yield 1, f"foreign job on {cluster}", partial(world.squat, cluster)
    for uid in world.stopping():
        yield 2, "reap", partial(world.reap, uid)
    for cluster in world.collectable():
        yield 3, f"collect {cluster}", partial(world.collect, cluster)


def _tenures(world: World) -> Iterator[Action]:
    """Clusters are cut off, found silent, fenced, and come back."""
    tenures = world.tenures
    for name, found in tenures.of.items():
        if not found.cut:
            yield 2, f"cut {name}", partial(tenures.cut, name)
            continue
        yield 3, f"heal {name}", partial(tenures.heal, name)
        if not found.noticed:
            yield 8, f"notice {name}", partial(tenures.notice, name)
        if not found.over:
            yield 5, f"lease over {name}", partial(tenures.expire, name)
        if found.noticed and not found.fenced:
            yield 5, f"fence {name}", partial(tenures.fence, name)
        if found.noticed and found.fenced and found.stopped < found.epoch:
            yield 8, f"wait over {name}", partial(tenures.end_wait, name)
    for name in tenures.resumable():
        yield 10, f"resume {name}", partial(tenures.resume, name)
    for name in tenures.ending():
        yield 5, f"pods conclude on {name}", partial(world.run_pods, name, "conclude")
    for name in world.outdated():
        yield 10, f"refuse as outdated {name}", partial(world.refuse, name)


def _rules(world: World) -> Iterator[Action]:
    """What takes the quota of a job away, or keeps it from its start."""
    for uid in world.preemptable():
        yield 2, "preempt", partial(world.preempt, uid)
        yield 1, "drain", partial(world.drain, uid)
    for which, now in world.stops.items():
        for stop in StopPolicy:
            if stop is not now:
                yield 1, f"{which} queue {stop}", partial(world.stop_queue, which, stop)
    if world.budget() is not None:
        weights = {CheckState.READY: 10, CheckState.RETRY: 2}
        for said in CheckState:
            yield weights.get(said, 1), f"budget {said}", partial(world.decide_budget, said)


def _people(world: World) -> Iterator[Action]:
    job = world.job()
    if job is None:
        if world.submitted < 2:
            yield 10, "submit again", lambda: _discard(world.submit())
        return
    if not batch_job.finished(job["status"]):
        suspended = bool(job["spec"]["suspend"])
        yield (2, "suspend or resume", partial(world.set_suspend, not suspended))
    if (found := world.workload()) is not None:
        active = found["spec"].get("active", True)
        yield 1, "hold or release", partial(world.set_active, not active)
        for cluster in ("", "nowhere", *world.workers):
            yield 1, f"order to {cluster}", partial(world.order_move, cluster)
        if not world.workload_deleted:
            yield 1, "delete the Workload", world.delete_workload
    if "deletionTimestamp" in job["metadata"]:
        yield 5, "the deletion ends", world.reap_home
    else:
        yield 1, "delete", world.delete
        yield 1, "delete in the foreground", partial(world.delete, foreground=True)


def _discard(value: object) -> None:
    return


def choose(possible: list[Action], choice: int) -> Action:
    """The action at a place between nothing and the sum of all weights."""
    choice %= sum(weight for weight, _, _ in possible)
    for action in possible:
        choice -= action[0]
        if choice < 0:
            return action
    raise AssertionError("unreachable")


def simulate(
    choices: list[int],
    workers: tuple[str, ...] = ("a", "b"),
    setting: Setting | None = None,
    *,
    running: bool = False,
    possible: Callable[[World], list[Action]] = actions,
) -> list[str]:
    """Do what the choices say, then let everything come to rest; what happened, by name.

    They begin with a new job, or with one that is `running`.
    """
    world = World(workers, setting)
    story: list[str] = []
    try:
        world.submit()
        if running:
            world.bring_up()
        for choice in choices:
            _, name, act = choose(possible(world), choice)
            story.append(name)
            act()
            world.check()
        story.append("settle")
        world.settle()
        world.check_end()
    except AssertionError as error:
        raise AssertionError(f"{error}\n  after: " + "; ".join(story)) from error
    finally:
        world.close()
    return story


@settings(max_examples=int(os.environ.get("FEDQ_SIMULATIONS", "60")), deadline=None)
@given(
    st.lists(st.integers(0, 2**16), max_size=60),
    st.sampled_from([("a", "b"), ("a", "b", "c")]),
    st.builds(Setting, *[st.booleans()] * 4, st.sampled_from(OnDisconnect)),
    st.booleans(),
)
def test_whatever_happens(
    choices: list[int], workers: tuple[str, ...], setting: Setting, running: bool
) -> None:
    """Never two copies that run, no stuck state, nothing left, quota given back.

    See `World.check` and `World.check_end` for the list. FEDQ_SIMULATIONS sets how many lives are
    lived; a nightly run has thousands.
    """
    simulate(choices, workers, setting, running=running)


@settings(max_examples=int(os.environ.get("FEDQ_SIMULATIONS", "60")), deadline=None)
@given(
    st.lists(st.integers(0, 2**16), max_size=80),
    st.sampled_from([("a", "b"), ("a", "b", "c")]),
    st.sampled_from(OnDisconnect),
)
def test_whatever_clusters_are_lost(
    choices: list[int], workers: tuple[str, ...], policy: OnDisconnect
) -> None:
    """The same, of a job that runs, where clusters are lost and come back again and again."""
    simulate(choices, workers, Setting(policy=policy), running=True, possible=losses)
